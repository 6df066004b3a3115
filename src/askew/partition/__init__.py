"""Ways to divide a data set among clients, one scheme per file, and combinators that change what a scheme gives."""

from askew.partition.classes_per_client import classes_per_client
from askew.partition.dirichlet import dirichlet
from askew.partition.dirichlet_per_class import dirichlet_per_class
from askew.partition.dirichlet_sizes import dirichlet_sizes
from askew.partition.draw import combine, draw
from askew.partition.emd import emd
from askew.partition.feature_noise import feature_noise
from askew.partition.hierarchical import hierarchical
from askew.partition.hold_out import hold_out
from askew.partition.hypergeometric import hypergeometric
from askew.partition.iid import iid
from askew.partition.label_blocks import label_blocks
from askew.partition.natural import natural
from askew.partition.pooled import pooled
from askew.partition.power_law import power_law
from askew.partition.shards import shards
from askew.partition.share import share
from askew.partition.shuffle import shuffle
from askew.partition.subset import subset
from askew.partition.validation import validation

__all__ = ["classes_per_client", "combine", "dirichlet", "dirichlet_per_class", "dirichlet_sizes", "draw", "emd",
           "feature_noise", "hierarchical", "hold_out", "hypergeometric", "iid", "label_blocks", "natural", "pooled",
           "power_law", "shards", "share", "shuffle", "subset", "validation"]

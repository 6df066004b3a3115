"""Ways to divide a data set among clients, one scheme a file, and what the server keeps."""

from askew.partition.classes_per_client import classes_per_client
from askew.partition.dirichlet import dirichlet
from askew.partition.dirichlet_per_class import dirichlet_per_class
from askew.partition.draw import draw
from askew.partition.emd import emd
from askew.partition.hierarchical import hierarchical
from askew.partition.hypergeometric import hypergeometric
from askew.partition.iid import iid
from askew.partition.label_blocks import label_blocks
from askew.partition.natural import natural
from askew.partition.pooled import pooled
from askew.partition.power_law import power_law
from askew.partition.server_share import hold_out, share
from askew.partition.shards import shards
from askew.partition.validation import with_validation

__all__ = ["classes_per_client", "dirichlet", "dirichlet_per_class", "draw", "emd", "hierarchical", "hold_out",
           "hypergeometric", "iid", "label_blocks", "natural", "pooled", "power_law", "shards", "share",
           "with_validation"]

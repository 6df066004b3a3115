"""Steps between stored inputs and the network, for a whole batch on its device. One a file.

Without keys (evaluation) a random step does its deterministic counterpart.
"""

from askew.pieces.preprocess.normalise import normalise
from askew.pieces.preprocess.random_crop import random_crop
from askew.pieces.preprocess.random_flip import random_flip
from askew.pieces.preprocess.tf_cifar import tf_cifar

__all__ = ["normalise", "random_crop", "random_flip", "tf_cifar"]

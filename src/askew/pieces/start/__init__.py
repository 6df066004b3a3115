"""Where the weights of a run start from. One a file."""

from askew.pieces.start.pretrained import pretrained
from askew.pieces.start.random import random
from askew.pieces.start.warm_up import warm_up

__all__ = ["pretrained", "random", "warm_up"]

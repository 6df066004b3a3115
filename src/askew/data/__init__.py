"""Data sets: embedded, downloaded or your own, all as one `Dataset` in memory."""

from askew.data.cifar10 import cifar10
from askew.data.digits import digits
from askew.data.huggingface import from_huggingface
from askew.data.image_folder import image_folder
from askew.data.load import load
from askew.data.mnist import mnist
from askew.data.npz import npz
from askew.data.speech_commands import speech_commands
from askew.data.table import table
from askew.data.torch_dataset import from_torch_dataset

__all__ = ["cifar10", "digits", "from_huggingface", "from_torch_dataset", "image_folder", "load", "mnist", "npz",
           "speech_commands", "table"]

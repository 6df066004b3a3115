"""The networks, one file each: importing this package files them all under their names."""

from askew.models.bag_of_words import bag_of_words
from askew.models.fedcd_cnn import fedcd_cnn
from askew.models.fednnnn_cifar_cnn import fednnnn_cifar_cnn
from askew.models.fednnnn_mnist_cnn import fednnnn_mnist_cnn
from askew.models.hello_edge_cnn import hello_edge_cnn
from askew.models.mcmahan_cifar_cnn import mcmahan_cifar_cnn
from askew.models.mcmahan_mnist_cnn import mcmahan_mnist_cnn
from askew.models.mlp import mlp
from askew.models.resnet20 import resnet20
from askew.models.resnet20_fixup import resnet20_fixup
from askew.models.small_cnn import small_cnn

__all__ = [
    "bag_of_words",
    "fedcd_cnn",
    "fednnnn_cifar_cnn",
    "fednnnn_mnist_cnn",
    "hello_edge_cnn",
    "mcmahan_cifar_cnn",
    "mcmahan_mnist_cnn",
    "mlp",
    "resnet20",
    "resnet20_fixup",
    "small_cnn",
]

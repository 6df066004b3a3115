"""The vectorised engine on its kernels, against the sequential one on torch's own operations."""

import importlib
import pkgutil

import pytest
import torch
from conform.federations import of_sizes
from conform.forms import FORMS, assert_same_training, one_by_one, train
from conform.networks import NETWORKS, build, data_of
from torch import nn

import askew
from askew.core import splitmix
from askew.engine import kernels
from askew.engine.build import build_task


def images():
    """Convolutions, BatchNorm, local response normalisation, max pooling, dropout: a kernel for each."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.LocalResponseNorm(3),
                             nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(6, 4, 3, 2, 1), nn.Dropout(0.2), nn.Flatten(),
                             nn.Linear(16, 5))


def groups():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 6, 3, 2), nn.GroupNorm(3, 6), nn.ReLU(), nn.Flatten(), nn.Linear(54, 5))


OWN = {"all of images": images, "group norm": groups}
# network -> kernels that must have been launched for it
NORM = {"norm._moments_kernel", "norm._gradient_sums_kernel", "norm._scaled_kernel", "norm._scaled_back_kernel"}
KERNELS = {
    "all of images": NORM | {"conv._product_kernel", "conv._weight_gradient_kernel", "lrn._forward_kernel",
                             "lrn._backward_kernel", "pool._forward_kernel", "pool._backward_kernel"},
    "group norm": NORM,
    "lstm": {"recurrent._lstm_kernel", "recurrent._lstm_backward_kernel"},
    "gru": {"recurrent._gru_kernel", "recurrent._gru_backward_kernel"},
}


# Random streams are taken from library operations on a CPU, interpreted or not: test_kernels.py compares the two.
BY_THEMSELVES = {"splitmix._mix_kernel", "splitmix._uniform_kernel"}


@pytest.mark.parametrize("name", KERNELS)
def test_a_network_on_kernels_trains_as_it_does_one_by_one(name, launched):
    """Unequal clients, so that padding and idle clients pass through the kernels; each must have been launched."""
    data = data_of("images" if name in OWN else NETWORKS[name].data)
    recipe = askew.Recipe(batch_size=4, client="sgd(lr=0.02, momentum=0.5)")
    population = of_sizes(data, [6, 3] if name == "all of images" else [4, 1])
    task = build_task(recipe, data=data, population=population, model=OWN[name]() if name in OWN else build(name))
    expected = one_by_one(task)
    launched.clear()
    got = train(FORMS["graphed"], task)
    assert_same_training(got, expected)
    assert set(launched) >= KERNELS[name], f"not launched: {sorted(KERNELS[name] - set(launched))}"


def test_no_kernel_is_missing_from_the_table(launched):
    """Every file is looked through: what is called `..._kernel` there is launched above; other functions
    in Triton's language help it."""
    from triton.runtime.interpreter import InterpretedFunction

    modules = [splitmix,
               *(importlib.import_module(f"{kernels.__name__}.{found.name}")
                 for found in pkgutil.iter_modules(kernels.__path__))]
    made = {f"{module.__name__.rpartition('.')[2]}.{name}" for module in modules for name, value in vars(module).items()
            if isinstance(value, InterpretedFunction) and name.endswith("_kernel")}
    assert made == BY_THEMSELVES.union(*KERNELS.values())

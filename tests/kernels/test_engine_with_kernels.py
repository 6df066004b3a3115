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
import askew.core
import askew.engine
from askew.engine.task import build_task


def images():
    """Convolutions, BatchNorm, local response normalisation, max pooling, dropout: a kernel for each."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.LocalResponseNorm(3), nn.MaxPool2d(2),
                             nn.ReLU(), nn.Conv2d(6, 4, 3, 2, 1), nn.Dropout(0.2), nn.Flatten(), nn.Linear(16, 5))


def groups():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 6, 3, 2), nn.GroupNorm(3, 6), nn.ReLU(), nn.Flatten(), nn.Linear(54, 5))


OWN = {"all of images": images, "group norm": groups}
# network -> kernels that must have been launched for it
KERNELS = {
    "all of images": {"norm_kernels._moments", "norm_kernels._gradient_sums", "norm_kernels._scaled", "norm_kernels._scaled_back",
                      "client_conv_kernels._product", "client_conv_kernels._weight_gradient", "lrn_kernels._forward",
                      "lrn_kernels._backward", "pool_kernels._forward", "pool_kernels._backward"},
    "group norm": {"norm_kernels._moments", "norm_kernels._gradient_sums", "norm_kernels._scaled", "norm_kernels._scaled_back"},
    "lstm": {"recurrent_kernels._lstm", "recurrent_kernels._lstm_backward"},
    "gru": {"recurrent_kernels._gru", "recurrent_kernels._gru_backward"},
}


# Random streams are taken from library operations on a CPU, interpreted or not: test_kernels.py compares the two.
BY_THEMSELVES = {"rng_kernels._mix", "rng_kernels._uniform"}


@pytest.mark.parametrize("name", KERNELS)
def test_a_network_on_kernels_trains_as_it_does_one_by_one(name, launched):
    """Unequal clients, so that padding and idle clients pass through the kernels; each must have been launched."""
    data = data_of("images" if name in OWN else NETWORKS[name].data)
    recipe = askew.Recipe(batch_size=4, step="sgd(lr=0.02, momentum=0.5)")
    population = of_sizes(data, [7, 3, 4] if name == "all of images" else [4, 1])
    task = build_task(recipe, data=data, population=population, model=OWN[name]() if name in OWN else build(name))
    expected = one_by_one(task)
    launched.clear()
    got = train(FORMS["graphed"], task)
    assert_same_training(got, expected)
    assert set(launched) >= KERNELS[name], f"not launched: {sorted(KERNELS[name] - set(launched))}"


def test_no_kernel_is_missing_from_the_table(launched):
    """Every module of kernels is known, and every function in it is launched above or called by one that is."""
    from triton.runtime.interpreter import InterpretedFunction

    modules = [f"{package.__name__}.{found.name}" for package in (askew.core, askew.engine)
               for found in pkgutil.iter_modules(package.__path__) if found.name.endswith("_kernels")]
    kernels = {f"{name.rpartition('.')[2]}.{key}" for name in modules for key, value in vars(importlib.import_module(name)).items()
               if isinstance(value, InterpretedFunction)}
    known = BY_THEMSELVES.union(*KERNELS.values())
    helpers = {"client_conv_kernels._inside", "norm_kernels._of_channels", "norm_kernels._tile", "lrn_kernels._band",
               "lrn_kernels._places", "lrn_kernels._sums", "lrn_kernels._values", "pool_kernels._put", "pool_kernels._rows",
               "recurrent_kernels._gate", "recurrent_kernels._place", "recurrent_kernels._put", "recurrent_kernels._tanh",
               "rng_kernels._finalise"}
    assert kernels - helpers == known

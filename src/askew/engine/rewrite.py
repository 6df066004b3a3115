"""Rewriting a network into an equal one that is cheaper to train."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

Place = tuple[str, nn.Module]


def neighbours(network: nn.Module) -> Iterator[tuple[nn.Sequential, Place, Place]]:
    """Layers known to be applied one right after the other, as they stand now: both with their names, and their parent.

    A layer that stands in several places counts in each; `named_children` would leave out all but the first, and what
    is on either side of the others would look like neighbours.
    """
    for parent in list(network.modules()):
        if type(parent) is nn.Sequential:
            for name, after in itertools.pairwise(list(parent._modules)):
                yield parent, (name, parent.get_submodule(name)), (after, parent.get_submodule(after))


def pool_before_relu(network: nn.Module) -> None:
    """Exchange each ReLU with the max pooling right behind it, in place: max(ReLU(x)) = ReLU(max(x)), gradients too.

    The rectifier then reads and writes a quarter of the values, or less. Neither layer has weights, so that
    the names of all weights stay what they were. Only neighbours in an `nn.Sequential` are known to be
    applied one after the other.
    """
    for parent, (name, layer), (after, pooling) in neighbours(network):
        if type(layer) is nn.ReLU and type(pooling) is nn.MaxPool2d and not pooling.return_indices:
            setattr(parent, name, pooling)
            setattr(parent, after, layer)


def rewritten(module: nn.Module, rewrite: Callable[[nn.Module], None], x: Tensor) -> nn.Module:
    """A copy of the network with layers exchanged and the same weights in it, if it still gives what it gave, else the
    network itself: a `forward` may take single layers of an `nn.Sequential`."""
    copied = copy.deepcopy(module, {id(v): v for v in (*module.parameters(), *module.buffers())})
    rewrite(copied)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            before, after = (network.eval()(x.clone()) for network in (module, copied))
        return copied if torch.equal(before, after) else module
    except Exception:  # checking the network reports it
        return module
    finally:
        module.train()
        copied.train()

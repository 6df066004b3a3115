"""Dropout whose masks belong to the client, not to the machine: the same on every engine and in every batch."""

from __future__ import annotations

from torch import Tensor, nn

from askew.core import rng


class KeyedDropout(nn.Module):
    """`nn.Dropout` that draws from a key which the engine sets before each step.

    Args:
        p: share of values that are set to 0; the others grow by 1 / (1 - p).
        number: tells the layers of one network apart.
    """

    def __init__(self, p: float, number: int) -> None:
        super().__init__()
        self.p, self.number = p, number
        self.key: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        assert self.key is not None, "an engine sets the keys before each step"
        # Row-major: a batch that is padded at its end has the same masks in front.
        keep = rng.uniform(rng.fold(self.key, self.number), x.numel()).view(x.shape) >= self.p
        return x * keep.to(x.dtype) / (1.0 - self.p)


def key_dropouts(module: nn.Module) -> list[KeyedDropout]:
    """Put a `KeyedDropout` in the place of every `nn.Dropout`, in place, and return them."""
    found: list[KeyedDropout] = []
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Dropout:
                found.append(KeyedDropout(child.p, len(found)))
                setattr(parent, name, found[-1])
    return found


def dropouts(module: nn.Module) -> list[KeyedDropout]:
    return [layer for layer in module.modules() if isinstance(layer, KeyedDropout)]


def set_keys(layers: list[KeyedDropout], key: Tensor) -> None:
    for layer in layers:
        layer.key = key

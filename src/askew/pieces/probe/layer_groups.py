"""Which tensors of a network belong together: one layer's, all convolutions', all fully connected layers'.

References:
    fednnnn2020, figures 8 and 9, split a network into convolutional and fully connected layers; zhao2018, figure 2,
    into single layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from askew.core.compat import Conv, NormWithStatistics

Per = Literal["group", "layer", "tensor"]
Groups = Mapping[str, Sequence[str]]

# Layers that shift and scale what another layer computes: they count as part of it, whatever the shape of their weights
_PART_OF_ANOTHER = (NormWithStatistics, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, nn.PReLU)


def group_parameters(module: nn.Module, names: Iterable[str], per: Per) -> dict[str, list[str]]:
    """Name the groups of a network's tensors, in the order in which the network defines them.

    Args:
        module: the network.
        names: the tensors to group, as `named_parameters` calls them.
        per: "group": "conv" for convolutions, "fc" for linear layers, "other" for other layers with weight matrices
            (embeddings, recurrent layers). Normalisation, single biases and scales go with the layer defined before
            them (before the first one: with the layer after them). "layer": weight, bias and all else of one layer
            together, under the layer's name. "tensor": each alone, under its own name.

    Returns:
        group -> names of its tensors; together they are `names`, each once.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 2, bias=False))
        >>> group_parameters(net, [name for name, _ in net.named_parameters()], "group")
        {'conv': ['0.weight', '0.bias', '1.weight', '1.bias'], 'fc': ['3.weight']}
    """
    if per == "tensor":
        return {name: [name] for name in names}
    layers = _by_layer(module, names)
    if per == "layer":
        # A network that is a single layer has no name for it.
        return {path or type(module).__name__: parameters for path, parameters in layers.items()}
    kinds = [_kind(module.get_submodule(path)) for path in layers]
    current = next((kind for kind in kinds if kind), "other")
    groups: dict[str, list[str]] = {}
    for kind, parameters in zip(kinds, layers.values(), strict=True):
        current = kind or current
        groups.setdefault(current, []).extend(parameters)
    return groups


def group_norms(tensors: Mapping[str, Tensor], groups: Groups) -> dict[str, Tensor]:
    """The L2 norm of each group, in float64."""
    squares = {name: (v * v).sum(dtype=torch.float64) for name, v in tensors.items()}
    return {group: torch.stack([squares[name] for name in names]).sum().sqrt() for group, names in groups.items()}


def with_whole(groups: Groups, whole: Iterable[str]) -> dict[str, list[str]]:
    """The groups by what stands behind a number's name: nothing for the whole model, " conv" for the group "conv"."""
    return {"": list(whole), **{f" {group}": list(names) for group, names in groups.items()}}


def _by_layer(module: nn.Module, names: Iterable[str]) -> dict[str, list[str]]:
    layers: dict[str, list[str]] = {}
    for name in names:
        path = name.split(".")[:-1]
        above = [".".join(path[:depth]) for depth in range(len(path) + 1)]
        # What torch hangs below a layer (reparametrised weights) is the layer's own.
        owner = next((p for p in above if _kind(module.get_submodule(p)) in ("conv", "fc")), above[-1])
        layers.setdefault(owner, []).append(name)
    return layers


def _kind(layer: nn.Module) -> str | None:
    if isinstance(layer, Conv):
        return "conv"
    if isinstance(layer, nn.Linear | nn.Bilinear):
        return "fc"
    if isinstance(layer, _PART_OF_ANOTHER) or all(p.ndim <= 1 for p in layer.parameters(recurse=False)):
        return None
    return "other"

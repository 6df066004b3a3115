"""A network with weights that are given, not its own: called, and as a file holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from askew.core.tensors import ModelState


def call(module: nn.Module, tensors: Mapping[str, Tensor], inputs: tuple[Any, ...],
         places: Mapping[str, str] | None = None) -> Any:
    """The network's result with these weights and buffers, named as torch lists them first; the others are its own.

    `torch.func.functional_call` ties shared weights, too, but leaves a network in which one *layer* stands in several
    places with the given weights instead of its own.

    Args:
        places: as from `places_of`, where they are known.
    """
    places = places_of(module) if places is None else places
    given = {place: tensors[first] for place, first in places.items() if first in tensors}
    before = dict(given)
    result = torch.func.functional_call(module, given, inputs, tie_weights=False)
    if module.training and not torch.compiler.is_compiling():
        # A buffer may be replaced, not changed (`self.n = self.n + 1`); torch puts the new one into what it was given.
        for place, v in before.items():
            if given[place] is not v:
                with torch.no_grad():
                    tensors[places[place]].copy_(given[place])
    return result


def places_of(module: nn.Module) -> dict[str, str]:
    """Each place of a weight or buffer -> the name under which `named_parameters` and `named_buffers` list it.

    Example:
        An embedding whose weight is tied to the last layer's has two places, `embedding.weight` and `out.weight`, both
        of them for `embedding.weight`; a layer that stands twice in a network is one place.
    """
    first: dict[int, str] = {}
    places: dict[str, str] = {}
    for path, owner in module.named_modules():
        for name, v in (*owner._parameters.items(), *owner._buffers.items()):
            if v is not None:
                place = f"{path}.{name}" if path else name
                places[place] = first.setdefault(id(v), place)
    return places


def state_dict_of(module: nn.Module, model: ModelState) -> dict[str, Tensor]:
    """What the network's `load_state_dict` wants: frozen weights and further names of shared ones included."""
    trained = {**model.params, **model.buffers}
    first = {id(v): name for name, v in (*module.named_parameters(), *module.named_buffers())}
    state: dict[str, Tensor] = {}
    for name, v in module.state_dict(keep_vars=True).items():
        value = trained.get(first[id(v)], v.detach())
        state[name] = value if first[id(v)] == name else value.clone()  # a file holds no shared memory
    return state

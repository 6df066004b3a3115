"""The network of a finished run: built again from what its folder says, with its weights and preprocessing."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from askew.core import registry
from askew.core.errors import AskewError, first_line
from askew.core.preprocess import Preprocess
from askew.core.registry import Spec
from askew.engine.build import build_network
from askew.runs.model_file import PERSONAL, About


class Deployed(nn.Module):
    """A network with its preprocessing in front: from inputs as the data store them to outputs.

    Args:
        network: the network alone.
        prepare: what stored inputs go through before it.
    """

    def __init__(self, network: nn.Module, prepare: Preprocess) -> None:
        super().__init__()
        self.network = network
        self._prepare = prepare

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.network(self._prepare.apply(x, None))
        return outputs


def network_of(about: About, model: nn.Module | None) -> nn.Module:
    """The network of a run, with weights that do not matter: built by name, or a copy of the one that is given."""
    if model is not None:
        try:
            return copy.deepcopy(model)
        except Exception as error:  # layers that are not initialised yet, locks, ...
            raise AskewError(f"model: the network cannot be copied ({first_line(error)})") from None
    if about.network is None:
        raise AskewError(f"the run trained a network of your own ({about.network_class}), and no file runs code: give "
                         f"it, askew.load(folder, model={about.network_class}(...))")
    shape = about.input_shape
    for spec in about.preprocess:
        shape = step_of(spec).shape(shape)
    with torch.random.fork_rng(devices=[]):
        return build_network(registry.parse("model", about.network), input_shape=shape, num_classes=len(about.classes))


def step_of(spec: Spec) -> Preprocess:
    """A step of preprocessing, made without the data."""
    step: Preprocess = registry.build("preprocess", spec)
    return step


def put_weights(network: nn.Module, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Weights into a network that must have just these."""
    expected = {name: tuple(v.shape) for name, v in network.state_dict().items()}
    stored = {name: tuple(v.shape) for name, v in weights.items()}
    if expected != stored:
        odd = next(name for name in {**expected, **stored} if expected.get(name) != stored.get(name))
        raise AskewError(f"the weights in {str(folder)!r} are of another network: {odd} is "
                         f"{stored.get(odd, 'missing')} there and {expected.get(odd, 'missing')} in "
                         f"{type(network).__name__}")
    network.load_state_dict(dict(weights))


def put_personal(network: nn.Module, personal: Mapping[str, Tensor], row: int, folder: Path) -> None:
    """A client's own tensors, by the names under which a network lists them first."""
    places = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    with torch.no_grad():
        for name, rows in personal.items():
            if name not in places or row >= len(rows) or rows[row].shape != places[name].shape:
                raise AskewError(f"{PERSONAL}.safetensors in {str(folder)!r} is of another network: {name} does not "
                                 "fit")
            places[name].copy_(rows[row])

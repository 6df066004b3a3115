"""Tensors that stay at the client: everyone has their own normalisation layers (FedBN) or own last layers (FedPer).

References:
    Arivazhagan et al. 2019, "Federated Learning with Personalization Layers" (FedPer); Li et al. 2021, "FedBN:
    Federated Learning on Non-IID Features via Local Batch Normalization".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from askew.core.client_piece import ClientContext, ClientPiece, Message
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.tensors import ModelState, Tree

_FIRST = "at first: "  # in memory, before the names of buffers as the run began with them


@piece("client")
def stay_local(names: Sequence[str]) -> ClientPiece:
    """Weights and buffers whose names match one of some patterns are each client's own, and never leave it.

    A client's round begins with its own. In their place it sends an update of 0 and the buffers that the run began
    with, so that the server's stay as they are. A client that has not taken part yet has those that the run began with.
    Devices are judged with their own. A piece that rounds the model (`quantize`) stands before this one, and
    the server is sent no error of what stays here.

    Args:
        names: patterns such as `fc2.*` or `*bn*`, as in file names.

    Example:
        >>> client_message(stay_local(["w"]), [6.0, 8.0])["update"]["w"]
        tensor([0., 0.])
    """
    if not names:
        raise AskewError("stay_local: names is empty, so that nothing would stay; give patterns such as ['fc2.*']")

    def ours(tensors: Mapping[str, Tensor]) -> list[str]:
        return [name for name in tensors if any(fnmatchcase(name, pattern) for pattern in names)]

    def keep(model: ModelState) -> Tree:
        tensors = {**model.params, **model.buffers}
        chosen = ours(tensors)
        if not chosen:
            raise AskewError(f"stay_local: no tensor of the network matches {', '.join(names)}; "
                             f"it has {', '.join(tensors)}")
        first = {_FIRST + name: tensors[name].clone() for name in chosen if name in model.buffers}
        return {**{name: tensors[name].clone() for name in chosen}, **first}

    def enter(model: ModelState, kept: Tree) -> ModelState:
        return ModelState({name: kept.get(name, v) for name, v in model.params.items()},
                          {name: kept.get(name, v) for name, v in model.buffers.items()})

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        trained = {**ctx.params, **message["buffers"]}
        update = {name: torch.zeros_like(u) if name in kept else u for name, u in message["update"].items()}
        # Buffers are sent as they are, not as changes: those of the start take the place of this client's.
        buffers = {name: kept.get(_FIRST + name, v) for name, v in message["buffers"].items()}
        remembered = {name: trained.get(name, v) for name, v in kept.items()}
        return {**message, "update": update, "buffers": buffers}, remembered

    return ClientPiece(keep=keep, enter=enter, end=end)

"""What a client piece sees, made of numbers small enough to check by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from askew.core.by_hand import client_context
from askew.core.client_piece import ClientContext, ClientPiece
from askew.core.tensors import ModelState, Params


def _tensors(values: Sequence[float]) -> Params:
    return {"w": torch.tensor(values, dtype=torch.float32)}


@pytest.fixture
def client() -> Callable[..., ClientContext]:
    """`client(w=(3,), start=(1,), round=2)`: the context of one local step on a model of one tensor."""

    def make(w: Sequence[float] = (0.0,), start: Sequence[float] | None = None, round: int = 0) -> ClientContext:
        return client_context(w, start, round)

    return make


@pytest.fixture
def act() -> Callable[..., list[float]]:
    """`act(piece, (1, 2), ctx)`: what a piece makes of this gradient or update, from a fresh state."""

    def apply(piece: ClientPiece, u: Sequence[float], ctx: ClientContext) -> list[float]:
        return piece.update(_tensors(u), piece.begin(piece.keep(ModelState(ctx.start)), ctx), ctx)[0]["w"].tolist()

    return apply


@pytest.fixture
def send() -> Callable[..., list[float]]:
    """`send(piece, (1, 2), ctx)`: the update that a client sends whose training came to this one."""

    def apply(piece: ClientPiece, u: Sequence[float], ctx: ClientContext) -> list[float]:
        kept = piece.keep(ModelState(ctx.start))
        return piece.end({"update": _tensors(u)}, piece.begin(kept, ctx), kept, ctx)[0]["update"]["w"].tolist()

    return apply

"""What a client piece sees, made of numbers small enough to check by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from askew.core.transform import Context, Params

from askew.core import rng


def _tensors(values: Sequence[float]) -> Params:
    return {"w": torch.tensor(values, dtype=torch.float32)}


@pytest.fixture
def client() -> Callable[..., Context]:
    """`client(w=(3,), start=(1,), round=2)`: the context of one local step on a model of one tensor."""

    def make(w: Sequence[float] = (0.0,), start: Sequence[float] | None = None, round: int = 0) -> Context:
        return Context(params=_tensors(w), start=_tensors(w if start is None else start), round=round,
                       key=rng.key(0, "client"))

    return make


@pytest.fixture
def act() -> Callable[..., list[float]]:
    """`act(piece, (1, 2), ctx)`: what a piece makes of this gradient or update, from a fresh state."""

    def apply(piece: object, u: Sequence[float], ctx: Context) -> list[float]:
        return piece.update(_tensors(u), piece.init(ctx.params), ctx)[0]["w"].tolist()

    return apply

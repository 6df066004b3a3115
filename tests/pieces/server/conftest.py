"""What a server piece sees, made of numbers small enough to check by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from askew.core.transform import Context, Params

from askew.core import rng
from askew.core.cohort import Cohort


def vector(*values: float) -> Params:
    return {"w": torch.tensor(values, dtype=torch.float32)}


@pytest.fixture
def server() -> Callable[..., Context]:
    """`server([(3, 4), (3, -4)], weights=[1, 1], w=(0, 0))`: the context after these clients' updates of one tensor."""

    def make(updates: Sequence[Sequence[float]], weights: Sequence[float] | None = None,
             w: Sequence[float] | None = None, round: int = 0, **rest: object) -> Context:
        stacked = torch.tensor(updates, dtype=torch.float32)
        cohort = Cohort({"w": stacked[0]}, needs=["signs"])
        cohort.add({"w": stacked}, torch.tensor(weights or [1.0] * len(updates)), list(range(len(updates))))
        params = vector(*(w or [0.0] * stacked.shape[1]))
        return Context(params=params, start=params, round=round, key=rng.key(0, "server", round), cohort=cohort, **rest)

    return make


@pytest.fixture
def apply() -> Callable[..., list[float]]:
    """`apply(piece, ctx)`: the update that a piece makes of the cohort's mean, from a fresh state."""

    def act(piece: object, ctx: Context) -> list[float]:
        return piece.update(ctx.cohort.mean, piece.init(ctx.params), ctx)[0]["w"].tolist()

    return act

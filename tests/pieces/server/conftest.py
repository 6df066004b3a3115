"""What a server piece sees, made of numbers small enough to check by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from askew.core.by_hand import server_context
from askew.core.server_piece import ServerChain, ServerContext, ServerPiece
from askew.pieces.statistic import SignSum


@pytest.fixture
def server() -> Callable[..., ServerContext]:
    """`server([(3, 4), (3, -4)], weights=[1, 1], w=(0, 0))`: the context after these clients' updates of one tensor."""

    def make(updates: Sequence[Sequence[float]], weights: Sequence[float] | None = None,
             w: Sequence[float] | None = None, round: int = 0, **rest: object) -> ServerContext:
        return server_context(updates, weights, w, round, **{"needs": [SignSum()], **rest})

    return make


@pytest.fixture
def apply() -> Callable[..., list[float]]:
    """`apply(piece, ctx)`: the update that a piece makes of the cohort's mean, from a fresh state."""

    def act(piece: ServerPiece | ServerChain, ctx: ServerContext) -> list[float]:
        return piece.update(ctx.cohort.mean, piece.init(ctx.params), ctx)[0]["w"].tolist()

    return act

"""Rounds small enough to check by hand: what a piece makes of a few numbers, for examples in docstrings and for tests.

The model has one tensor, "w". Examples in docstrings find both functions, `torch` and all pieces without an import.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from askew.core import rng
from askew.core.cohort import Cohort
from askew.core.transform import Context, Params, Transform, add


def client_update(piece: Transform, gradient: Sequence[float], w: Sequence[float], start: Sequence[float] | None = None,
                  round: int = 0) -> Tensor:
    """What a piece of a client's step makes of a gradient (a piece behind the optimiser: of an update).

    Args:
        piece: one piece, or a chain.
        gradient: what it is given.
        w: the client's weights now.
        start: those that the round began with; default: the same.
        round: rounds completed before.

    Example:
        >>> client_update(chain(sgd(lr=0.5), project_to_ball(1.0)), [4.0], w=[2.0])  # 2 - 0.5 * 4 = 0 lies in the ball
        tensor([-2.])
    """
    now, began = _vector(w), _vector(w if start is None else start)
    ctx = Context(params=now, start=began, round=round, key=rng.key(0, "by hand", round))
    return piece.update(_vector(gradient), piece.init(now), ctx)[0]["w"]


def server_context(updates: Sequence[Sequence[float]], weights: Sequence[float] | None = None, w: Sequence[float] | None = None,
                   round: int = 0, **rest: Any) -> Context:
    """What a server piece sees after these clients' updates.

    Args:
        updates: one row per client.
        weights: how much each counts; default: all the same.
        w: the model before; default: zeros.
        round: rounds completed before.
        rest: further fields of `Context`.

    Example:
        >>> server_context([(1, 0), (4, 0)], weights=[1, 2]).cohort.mean["w"]
        tensor([3., 0.])
    """
    stacked = torch.tensor(updates, dtype=torch.float32)
    cohort = Cohort({"w": stacked[0]}, needs=["signs"])
    given = torch.ones(len(stacked)) if weights is None else torch.as_tensor(weights)
    cohort.add({"w": stacked}, given, list(range(len(stacked))))
    params = _vector([0.0] * stacked.shape[1] if w is None else w)
    return Context(params=params, start=params, round=round, key=rng.key(0, "server", round), cohort=cohort, **rest)


def server_update(piece: Transform, *rounds: Sequence[Sequence[float]], weights: Sequence[float] | None = None,
                  w: Sequence[float] | None = None) -> Tensor:
    """What a server piece makes of the mean update in the last of some rounds.

    Args:
        piece: one piece, or a chain.
        rounds: the clients' updates of each round, one row per client.
        weights: how much each client counts; default: all the same.
        w: the model before the first round; default: zeros.

    Example:
        >>> server_update(momentum(0.5), [(1,)], [(1,)])
        tensor([1.5000])
    """
    params = server_context(rounds[0], weights, w).params
    state, u = piece.init(params), params
    for number, updates in enumerate(rounds):
        ctx = server_context(updates, weights, params["w"].tolist(), number)
        assert ctx.cohort is not None, "server_context makes one"
        u, state = piece.update(ctx.cohort.mean, state, ctx)
        params = add(params, u)
    return u["w"]


def _vector(values: Sequence[float]) -> Params:
    return {"w": torch.tensor(values, dtype=torch.float32)}

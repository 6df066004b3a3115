"""Rounds small enough to check by hand: what a piece makes of a few numbers, for examples in docstrings and for tests.

The model has one tensor, "w". Examples in docstrings find these functions, `torch` and all pieces without an import.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from askew.core import rng
from askew.core.adversity import AdversityContext
from askew.core.client_piece import ClientChain, ClientContext, ClientPiece, Message
from askew.core.cohort import Cohort
from askew.core.server_piece import ServerChain, ServerContext, ServerPiece
from askew.core.statistic import Senders, Statistic
from askew.core.tensors import ModelState, Params, Tree, add


def client_context(w: Sequence[float], start: Sequence[float] | None = None, round: int = 0,
                   **rest: Any) -> ClientContext:
    """What a client piece sees; `rest` are further fields of `ClientContext`."""
    return ClientContext(params=_vector(w), start=_vector(w if start is None else start), round=round,
                         make_key=lambda: rng.key(0, "by hand", round), **rest)


def client_update(pieces: ClientPiece | Sequence[ClientPiece], gradient: Sequence[float], w: Sequence[float],
                  start: Sequence[float] | None = None, round: int = 0, **rest: Any) -> Tensor:
    """What client pieces make of a gradient (pieces behind the optimiser: of an update) in their first step.

    Args:
        pieces: one, or several in order.
        gradient: what they are given.
        w: the client's weights now.
        start: those that the round began with; default: the same.
        round: rounds completed before.
        rest: further fields of `ClientContext`.

    Example:
        >>> client_update([sgd(lr=0.5), project_to_ball(1.0)], [4.0], w=[2.0])  # 2 - 0.5 * 4 = 0 lies in the ball
        tensor([-2.])
    """
    chain, ctx = ClientChain(_several(pieces)), client_context(w, start, round, **rest)
    return chain.update(_vector(gradient), chain.begin(chain.keep(ModelState(ctx.start)), ctx), ctx)[0]["w"]


def client_message(pieces: ClientPiece | Sequence[ClientPiece], update: Sequence[float],
                   start: Sequence[float] | None = None, round: int = 0, **rest: Any) -> Message:
    """What a client sends whose training came to `update`.

    Example:
        >>> client_message(quantize(3), [-0.9, 0.2, 0.3])["update"]["w"]
        tensor([-0.9000,  0.3000,  0.3000])
    """
    began = [0.0] * len(update) if start is None else list(start)
    chain = ClientChain(_several(pieces))
    ctx = client_context([a + b for a, b in zip(began, update, strict=True)], began, round, **rest)
    kept = chain.keep(ModelState(ctx.start))
    return chain.end({"update": _vector(update), "buffers": {}}, chain.begin(kept, ctx), kept, ctx)[0]


def server_context(updates: Sequence[Sequence[float]], weights: Sequence[float] | None = None,
                   w: Sequence[float] | None = None, round: int = 0, *, examples: Sequence[float] | None = None,
                   steps: Sequence[float] | None = None, needs: Iterable[Statistic] = (),
                   sent: Mapping[str, Tree] | None = None, **rest: Any) -> ServerContext:
    """What a server piece sees after these clients' updates.

    Args:
        updates: one row per client.
        weights: how much each counts; default: its examples.
        w: the model before; default: zeros.
        round: rounds completed before.
        examples, steps: of each client; default: 1.
        needs: statistics to gather.
        sent: what else the clients sent, one row per client.
        rest: further fields of `ServerContext`.

    Example:
        >>> server_context([(1, 0), (4, 0)], weights=[1, 2]).cohort.mean["w"]
        tensor([3., 0.])
    """
    stacked = torch.tensor(updates, dtype=torch.float32)
    ones = [1.0] * len(stacked)
    count, walked = (torch.tensor(ones if v is None else v, dtype=torch.float64) for v in (examples, steps))
    senders = Senders(range(len(stacked)), count, walked, torch.ones(len(stacked)), torch.zeros(len(stacked)))
    cohort = Cohort({"w": stacked[0]}, needs)
    cohort.add({"update": {"w": stacked}, **(sent or {})}, senders,
               count if weights is None else torch.as_tensor(weights))
    params = _vector([0.0] * stacked.shape[1] if w is None else w)
    return ServerContext(**{"params": params, "round": round, "clients": len(stacked),
                            "key": rng.key(0, "server", round), "cohort": cohort,
                            "train": lambda params, epochs: params, **rest})


def server_update(pieces: ServerPiece | Sequence[ServerPiece], *rounds: Sequence[Sequence[float]],
                  weights: Sequence[float] | None = None, w: Sequence[float] | None = None, **rest: Any) -> Tensor:
    """What server pieces make of the mean update in the last of some rounds.

    Args:
        pieces: one, or several in order.
        rounds: the clients' updates of each round, one row per client.
        weights: how much each client counts; default: its examples.
        w: the model before the first round; default: zeros.
        rest: as `server_context` takes them.

    Example:
        >>> server_update(momentum(0.5), [(1,)], [(1,)])
        tensor([1.5000])
    """
    chain = ServerChain(_several(pieces))
    params = server_context(rounds[0], weights, w).params
    state, u = chain.init(params), params
    for number, updates in enumerate(rounds):
        ctx = server_context(updates, weights, params["w"].tolist(), number, needs=chain.needs, **rest)
        u, state = chain.update(ctx.cohort.mean, state, ctx)
        params = add(params, u)
    return u["w"]


def adversity_context(clients: int, examples: Sequence[int] | None = None, groups: Sequence[int] | None = None,
                      epochs: int = 1, round: int = 0, seed: int = 0) -> AdversityContext:
    """What an adversity sees of a federation of so many clients, all of them in the round.

    Args:
        examples: of each; default: 1.
        groups: the archetype of each.
        epochs: local epochs.
        round: rounds completed before.

    Example:
        >>> adversity_context(2, examples=[10, 20]).examples
        tensor([10, 20])
    """
    sizes = torch.tensor([1] * clients if examples is None else examples)
    kinds = None if groups is None else torch.tensor(groups)
    return AdversityContext(torch.arange(clients), sizes, epochs, clients, kinds, rng.key(seed, "by hand", round),
                            rng.key(seed, "by hand"))


def _several(pieces: Any) -> Any:
    return [pieces] if isinstance(pieces, ClientPiece | ServerPiece) else list(pieces)


def _vector(values: Sequence[float]) -> Params:
    return {"w": torch.tensor(values, dtype=torch.float32)}

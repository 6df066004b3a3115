"""Server pieces: what happens between the clients' updates and the next global model.

    FedAvg    mean()
    FedAvgM   mean(), momentum(0.9, nesterov=True)
    median    median()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from askew.core.client_piece import Plan, check_once, check_sent
from askew.core.compat import tree_leaves
from askew.core.errors import AskewError, shown
from askew.core.piece import Piece
from askew.core.statistic import Senders, Statistic
from askew.core.tensors import Params, Tree, form_of

if TYPE_CHECKING:
    from askew.core.cohort import Cohort


@dataclass(frozen=True)
class ServerContext:
    """What a server piece may look at besides the update.

    Args:
        params: the model that the update will be added to.
        round: rounds completed before this one.
        clients: of the federation, whether they take part in this round or not.
        key: random stream of the server in this round.
        cohort: statistics of the round's clients: `cohort.mean`, and `cohort[statistic]`
            for those that a piece `needs`.
        train: trains a model on the server's own examples, (params, epochs) -> params; where the
            population keeps some for it.
        still: for each tensor, whether a piece before this one wants the model to stay as it is in this round (see
            `ServerPiece.still`); a piece that carries past updates on must not move it there.
    """

    params: Params
    round: int
    clients: int
    key: Tensor
    cohort: Cohort
    train: Callable[[Params, int], Params]
    still: Mapping[str, Tensor] | None = None


def _nothing(*_: Any) -> Tree:
    return ()


def _no_message(state: Tree) -> Mapping[str, Tree]:
    return {}


def _same(params: Params, state: Tree) -> Params:
    return params


def _no_objection(plan: Plan) -> None:
    return None


@dataclass(frozen=True, repr=False)
class ServerPiece(Piece):
    """One step at the server.

    Args:
        update: (update, state, context) -> (update, state).
        init: model -> state before the first round.
        needs: statistics of the clients' messages that it reads, beyond their mean update and their norms.
        broadcast: state -> what the server sends beside the model, by name; clients' pieces read it as `ctx.shared`.
        sends: these names.
        wants: names of what it reads of the clients' messages, beyond "update" and "buffers".
        view: (model, state) -> the model to evaluate; the identity unless a method evaluates
            another model than it trains.
        still: (update, context) -> for each tensor, whether the model is to stay as it is there in this round. An
            update of 0 does not say so: momentum goes on from it. The pieces behind read it as `ctx.still`.
        payload: model -> bytes that one such model takes on the wire, where the piece changes that.
        watches: it leaves the update as it is.
        optimises: it makes steps of its own length out of past updates; another one right behind makes no sense.
        once: a second one in the chain would make no sense.
        trains: its update holds what the server has trained itself, so that it is no longer the clients' alone.
        check: raises `AskewError` with the reason where the piece makes no sense in a plan.
    """

    update: Callable[[Params, Tree, ServerContext], tuple[Params, Tree]]
    init: Callable[[Params], Tree] = _nothing
    needs: Sequence[Statistic] = ()
    broadcast: Callable[[Tree], Mapping[str, Tree]] = _no_message
    sends: Sequence[str] = ()
    wants: Sequence[str] = ()
    view: Callable[[Params, Tree], Params] = _same
    still: Callable[[Params, ServerContext], Mapping[str, Tensor]] | None = None
    payload: Callable[[Mapping[str, Tensor]], int] | None = None
    watches: bool = False
    trains: bool = False
    optimises: bool = False
    once: bool = False
    check: Callable[[Plan], None] = _no_objection


def by_examples(senders: Senders) -> Tensor:
    """McMahan et al.'s weights: a client counts by its examples."""
    return senders.examples


@dataclass(frozen=True, repr=False)
class Aggregator(ServerPiece):
    """The piece that turns the clients' messages into an update: exactly one per chain.

    Args:
        weigh: how much each client counts in `cohort.mean`, in the norms and in the mean of the buffers. It is given a
            part of the round's clients, as an engine hands them over, and says of each what does not hang on the
            others; the mean divides by the sum of all.
    """

    weigh: Callable[[Senders], Tensor] = by_examples


def _checked(p: ServerPiece, made: Any, ctx: ServerContext) -> tuple[Params, Tree]:
    """What a piece has made, if it is an update of the model; asks for names, shapes and types, and for no number."""
    where, params = f"server: {p.name} in round {ctx.round + 1}", ctx.params
    if not (isinstance(made, tuple | list) and len(made) == 2 and isinstance(made[0], Mapping)):
        raise AskewError(f"{where} returns {shown(made)}; `update` must return (update, state)")
    u, state = made
    for name in (*params, *u):
        v, like = u.get(name), params.get(name)
        if not isinstance(v, Tensor) or like is None or v.shape != like.shape or v.dtype != like.dtype:
            got, wanted = ("nothing" if part is None else form_of(part) for part in (v, like))
            raise AskewError(f"{where} returns {got} of {name!r}, where the model has {wanted}; keep names, shapes and "
                             "types the same")
    return u, state


def _check_weigh(p: ServerPiece) -> None:
    """Refuse weights that hang on the other clients, such as shares: which of them come together is the engine's."""
    assert isinstance(p, Aggregator), "the caller has looked"
    facts = torch.tensor([(2, 3, 7), (1, 2, 4), (0.2, 0.5, 1), (0.5, 1, 2)], dtype=torch.float64)
    try:
        together = p.weigh(Senders([0, 1, 2], *facts))
        alone = torch.cat([p.weigh(Senders([k], *facts[:, k : k + 1])) for k in range(3)])
    except Exception:  # the round says what is wrong with it
        return
    if together.shape == alone.shape and not torch.allclose(together, alone, equal_nan=True):
        raise AskewError(f"server: {p.name} weighs a client by the others that come with it, and an engine hands a "
                         "round over in parts; let `weigh` look at each client by itself, such as senders.examples: "
                         "the mean divides by their sum")


class ServerChain:
    """Server pieces, one after the other."""

    def __init__(self, pieces: Sequence[ServerPiece]) -> None:
        self.pieces = tuple(pieces)
        self.needs = frozenset(statistic for p in self.pieces for statistic in p.needs)
        self.broadcasts = any(p.broadcast is not _no_message for p in self.pieces)

    def init(self, params: Params) -> Tree:
        return tuple(p.init(params) for p in self.pieces)

    def update(self, u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        states = []
        for p, before in zip(self.pieces, state, strict=True):
            still = p.still(u, ctx) if p.still else None
            u, after = _checked(p, p.update(u, before, ctx), ctx)
            states.append(after)
            if still is not None:
                ctx = replace(ctx, still=(still if ctx.still is None
                                          else {name: v | ctx.still[name] for name, v in still.items()}))
        return u, tuple(states)

    def broadcast(self, state: Tree) -> dict[str, Tree]:
        sent: dict[str, Tree] = {}
        for p, piece_state in zip(self.pieces, state, strict=True):
            for name, tree in p.broadcast(piece_state).items():
                if name in sent:
                    raise AskewError(f"server: {p.name} broadcasts {name!r}, and a piece before it does, too; give it "
                                     "another name, or keep one of them")
                if odd := [leaf for leaf in tree_leaves(tree) if not isinstance(leaf, Tensor)]:
                    raise AskewError(f"server: {p.name} broadcasts {shown(odd[0])} as {name!r}; what is sent must be "
                                     f"tensors: torch.tensor({shown(odd[0])})")
                sent[name] = tree
        return sent

    def view(self, params: Params, state: Tree) -> Params:
        for p, piece_state in zip(self.pieces, state, strict=True):
            params = p.view(params, piece_state)
        return params

    @property
    def aggregator(self) -> Aggregator | None:
        return next((p for p in self.pieces if isinstance(p, Aggregator)), None)

    def weigh(self, senders: Senders) -> Tensor:
        """How much each client counts, [clients]."""
        p = self.aggregator
        if p is None:
            return by_examples(senders)
        weights = p.weigh(senders)
        if not isinstance(weights, Tensor) or weights.shape != senders.examples.shape:
            raise AskewError(f"server: {p.name} weighs {len(senders.examples)} clients by {shown(weights)}; `weigh` "
                             "must return a tensor of one number per client, such as torch.ones_like(senders.examples)")
        return weights

    @property
    def payload(self) -> Callable[[Mapping[str, Tensor]], int] | None:
        return next((p.payload for p in reversed(self.pieces) if p.payload), None)

    def check(self, plan: Plan) -> None:
        """Refuse none or two aggregators, a piece before it, and what a piece itself refuses."""
        at = [i for i, p in enumerate(self.pieces) if isinstance(p, Aggregator)]
        names = [p.name for p in self.pieces]
        if not at:
            raise AskewError("server: no piece makes an update; add one, such as mean()")
        if len(at) > 1:
            raise AskewError(f"server: {names[at[0]]} and {names[at[1]]} both make the update; keep one of them")
        if at[0] > 0:
            raise AskewError(f"server: {names[0]} acts on an update; put it after {names[at[0]]}")
        check_once("server", self.pieces)
        check_sent("server", self.pieces)
        _check_weigh(self.pieces[0])
        for first, second in pairwise(self.pieces):
            if first.optimises and second.optimises:
                raise AskewError(f"server: {first.name} and {second.name} are both optimisers, one right behind the "
                                 "other; keep one of them")
        sent = {name for other in plan.client for name in other.sends}
        for i, p in enumerate(self.pieces):
            if missing := [name for name in p.wants if name not in sent]:
                raise AskewError(f"server: {p.name} wants {missing[0]!r} from the clients; "
                                 "add the client piece that sends it")
            p.check(replace(plan, before=self.pieces[:i], after=self.pieces[i + 1 :]))

"""Transforms: the small steps of which every federated algorithm here is composed.

A transform takes an update (what gets added to a model), its own state and the context of the moment, and returns
a new update and a new state. One type serves three places: a client's step (where it starts from a gradient), a
client's upload, and the server (where it starts from the cohort's statistics). `chain` composes them:

    FedAvg    chain(mean())
    FedAvgM   chain(mean(), momentum(0.9, nesterov=True))
    FedProx   client step: chain(add_proximal(mu), sgd(lr))

Transforms are pure and free of Python control flow on tensor values, so an engine may run them under
`torch.func.vmap`, with hyper-parameters that are tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from askew.core.errors import AskewError
from askew.core.registry import Spec

if TYPE_CHECKING:
    from askew.core.cohort import Cohort

Params = dict[str, Tensor]
State = Any  # nested dicts and tuples of tensors, so that a checkpoint can hold it and vmap can batch it


@dataclass(frozen=True)
class Context:
    """What a transform may look at besides the update.

    Args:
        params: the model that the update will be added to.
        start: the model that the round began with; at the server it is `params`.
        round: rounds completed before this one.
        key: random stream of this client and step, or of the server in this round.
        step: local steps completed in this round.
        cohort: statistics of the round's client updates; the server only.
        train: trains a model on the server's own examples, `train(params, epochs) -> params`; the server only,
            and only where the population keeps examples for it.
        still: for each tensor, whether a piece before this one wants the model to stay as it is in this round (see
            `Transform.still`); a piece that carries past updates on must not move it there.
    """

    params: Params
    start: Params
    round: int | Tensor
    key: Tensor
    step: int | Tensor = 0
    cohort: Cohort | None = None
    train: Callable[[Params, int], Params] | None = None
    still: Mapping[str, Tensor] | None = None


@dataclass(frozen=True)
class Plan:
    """What a transform may check before anything runs."""

    before: tuple[str, ...] = ()  # names of the pieces before it in its chain
    after: tuple[str, ...] = ()  # and behind it
    cohort_size: int = 1
    server_examples: int = 0
    scored: bool = False  # whether clients score models (FedCD)


def _stateless(params: Params) -> State:
    return ()


def _same(params: Params, state: State) -> Params:
    return params


def _no_objection(plan: Plan) -> None:
    return None


@dataclass(frozen=True)
class Transform:
    """One step.

    Args:
        update: (update, state, context) -> (update, state).
        init: model -> state before the first update.
        view: (model, state) -> the model to evaluate; the identity unless a method evaluates another model than it
            trains, as FedNNNN does.
        acts_on: "source" makes the update out of what a chain starts from (a gradient at the client, the cohort at
            the server), and every chain of a step or of the server has exactly one such piece; "raw" acts on the
            gradient and so stands before that piece; "update" stands behind it.
        needs: cohort statistics beyond mean and norms that the loop must gather: "signs".
        weigh: (examples, score) -> weight of a client in the cohort's mean and norms; set by the piece that makes the
            update at the server. Without it a client counts by its examples.
        payload: model -> bytes that one such model takes on the wire, where the piece changes that.
        check: raises `AskewError` with the reason where the piece makes no sense in a plan.
        random: whether `update` draws from `ctx.key`; without such a piece an engine need not make the keys.
        elementwise: whether `update` acts on each coordinate by itself, so that tensors with a client axis in front
            need no `vmap`.
        in_place: (model, update, context): adds to the model, in its memory, what `update` would return; for stateless pieces
            that can save the memory for it. A chain of one piece has it.
        still: (update, context) -> for each tensor, whether the model is to stay as it is there in this round. An update of 0
            does not say so: momentum goes on from it. The pieces behind read it as `ctx.still`.
        spec: how the piece was made, set by `@piece`.
        parts: the pieces of a chain.
    """

    update: Callable[[Params, State, Context], tuple[Params, State]]
    init: Callable[[Params], State] = _stateless
    view: Callable[[Params, State], Params] = _same
    acts_on: Literal["source", "raw", "update"] = "update"
    needs: frozenset[str] = frozenset()
    weigh: Callable[[Tensor, Tensor], Tensor] | None = None
    payload: Callable[[Mapping[str, Tensor]], int] | None = None
    check: Callable[[Plan], None] = _no_objection
    random: bool = False
    elementwise: bool = False
    in_place: Callable[[Params, Params, Context], None] | None = None
    still: Callable[[Params, Context], Mapping[str, Tensor]] | None = None
    spec: Spec | None = None
    parts: tuple[Transform, ...] = field(default=())

    @property
    def name(self) -> str:
        return self.spec.name if self.spec else "chain" if self.parts else "transform"


def chain(*transforms: Transform) -> Transform:
    """Compose transforms: each sees the update that the one before it returned.

    Example:
        >>> fedavgm = chain(mean(), momentum(0.9, nesterov=True))
        >>> server_update(fedavgm, [(2,)])  # 2 + 0.9 * 2
        tensor([3.8000])
    """
    parts = tuple(part for t in transforms for part in (t.parts or (t,)))

    def init(params: Params) -> State:
        return tuple(part.init(params) for part in parts)

    def update(u: Params, state: State, ctx: Context) -> tuple[Params, State]:
        states = []
        for part, before in zip(parts, state, strict=True):
            still = part.still(u, ctx) if part.still else None
            u, after = part.update(u, before, ctx)
            states.append(after)
            if still is not None:
                ctx = replace(ctx, still=still if ctx.still is None else {name: v | ctx.still[name] for name, v in still.items()})
        return u, tuple(states)

    def view(params: Params, state: State) -> Params:
        for part, own in zip(parts, state, strict=True):
            params = part.view(params, own)
        return params

    def check(plan: Plan) -> None:
        for position, part in enumerate(parts):
            part.check(replace(plan, before=tuple(p.name for p in parts[:position]), after=tuple(p.name for p in parts[position + 1 :])))

    return Transform(
        update, init, view, acts_on="source" if any(p.acts_on == "source" for p in parts) else "update",
        needs=frozenset().union(*(p.needs for p in parts)),
        weigh=next((p.weigh for p in parts if p.weigh), None),
        payload=next((p.payload for p in reversed(parts) if p.payload), None),
        check=check, random=any(p.random for p in parts), elementwise=all(p.elementwise for p in parts),
        in_place=parts[0].in_place if len(parts) == 1 else None, parts=parts,
    )


def check_order(parts: Sequence[Transform], place: str, source: str) -> None:
    """Refuse a chain whose pieces cannot follow each other: none or two sources, a piece on the wrong side of it.

    Args:
        parts: the pieces in order.
        place: what the chain is for, for the message ("server", "step").
        source: a piece that could be the missing source, for the message.
    """
    sources = [part.name for part in parts if part.acts_on == "source"]
    if not sources:
        raise AskewError(f"{place}: no piece makes an update; add one, such as {source}")
    if len(sources) > 1:
        raise AskewError(f"{place}: {sources[0]} and {sources[1]} both make the update; keep one of them")
    at = next(i for i, part in enumerate(parts) if part.acts_on == "source")
    for i, part in enumerate(parts):
        if part.acts_on == "raw" and i > at:
            raise AskewError(f"{place}: {part.name} acts on the gradient; put it before {sources[0]}")
        if part.acts_on == "update" and i < at:
            raise AskewError(f"{place}: {part.name} acts on an update; put it after {sources[0]}")


def add(a: Params, b: Params) -> Params:
    """a + b, tensor by tensor."""
    return {name: a[name] + b[name] for name in a}


def subtract(a: Params, b: Params) -> Params:
    """a - b, tensor by tensor."""
    return {name: a[name] - b[name] for name in a}


def norm(u: Mapping[str, Tensor]) -> Tensor:
    """The L2 norm over all tensors together."""
    return torch.cat([v.flatten() for v in u.values()]).square().sum().sqrt()


def num_bytes(tensors: Mapping[str, Tensor]) -> int:
    """What the tensors take uncompressed."""
    return sum(v.numel() * v.element_size() for v in tensors.values())

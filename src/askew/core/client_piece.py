"""Client pieces: the small steps of which a client's round is composed.

A client's round is begin, update at each local step, end. A piece may remember something from one of its
client's rounds to the next, and may change or add to what the client sends. Pieces are pure and free of Python
control flow on tensor values, so that an engine may run them for many clients at once under `torch.func.vmap`,
with numbers that are tensors.

    FedAvg     sgd(lr)
    FedProx    add_proximal(mu), sgd(lr)
    SCAFFOLD   correct_drift(), sgd(lr)         with update_control() at the server
    FedCD      sgd(lr), quantize(8)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Tensor

from askew.core.compat import tree_leaves
from askew.core.errors import AskewError, shown
from askew.core.piece import Piece
from askew.core.tensors import ModelState, Params, Tree, with_numbers

if TYPE_CHECKING:
    from askew.core.server_piece import ServerPiece

Message = dict[str, Tree]  # what a client sends: "update", "buffers", and what pieces add


@dataclass(frozen=True)
class ClientContext:
    """What a client piece may look at besides the update.

    Args:
        params: the client's weights now.
        start: those that its round began with.
        round: rounds completed before this one.
        step: local steps completed in this round.
        steps: local steps of this client in this round, in all.
        client: its number.
        examples: how many it trains on.
        shared: what the server sent beside the model: name -> tensors.
        make_key: gives `key`, in `update` and `end`.
    """

    params: Params
    start: Params
    round: int | Tensor
    step: int | Tensor = 0
    steps: int | Tensor = 1
    client: int | Tensor = 0
    examples: int | Tensor = 1
    shared: Mapping[str, Tree] = field(default_factory=dict)
    make_key: Callable[[], Tensor] | None = None

    @property
    def key(self) -> Tensor:
        """The random stream of this client and step (in `end`: of this client's upload); `begin` has none."""
        if self.make_key is None:
            raise AskewError("a piece asks for ctx.key in `begin`, where there is none; draw in `update` and, where "
                             "the numbers are to last the round, keep those of step 0 in the state: torch.where("
                             "torch.as_tensor(ctx.step == 0), drawn, state) (a context of your own: make_key=lambda: "
                             "key)")
        return self.make_key()


@dataclass(frozen=True)
class Plan:
    """What a piece may check before anything runs.

    Args:
        before, after: the pieces that stand before it in its chain, and behind it.
        client: all pieces of the clients' chain.
        server: all pieces of the server's chain.
        clients: of the federation.
        cohort_size: clients of a round.
        server_examples: training examples that the server has.
        scored: whether clients score models (FedCD).
    """

    before: tuple[ClientPiece | ServerPiece, ...] = ()
    after: tuple[ClientPiece | ServerPiece, ...] = ()
    client: tuple[ClientPiece, ...] = ()
    server: tuple[ServerPiece, ...] = ()
    clients: int = 1
    cohort_size: int = 1
    server_examples: int = 0
    scored: bool = False


def _nothing(*_: Any) -> Tree:
    return ()


def _as_it_is(model: ModelState, kept: Tree) -> ModelState:
    return model


def _same_update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
    return u, state


def _same_message(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
    return message, kept


def _no_objection(plan: Plan) -> None:
    return None


@dataclass(frozen=True, repr=False)
class ClientPiece(Piece):
    """One step of a client's round; where it stands does not matter to it.

    Args:
        update: (update, state, context) -> (update, state), at every local step; the first piece is given the gradient.
        keep: model -> what the client remembers before its first round; nothing by default.
        enter: (the server's model, memory) -> the model that the client's round begins with, and that it would use.
        sends: names of what it adds to the message.
        wants: names of what it reads of `ctx.shared`.
        bound: no update is longer that leaves it, where it sees to that.
        begin: (memory, context) -> state before the first local step.
        end: (message, state, memory, context) -> (message, memory), once the last step is done.
            `message["update"]` is what the client's training came to, `message["buffers"]` its buffers;
            `context.params` are the trained weights.
        payload: model -> bytes that one such model takes on the wire, where the piece changes that.
        penalty: strength of a penalty that a server piece takes back, and must know.
        once: a second one in the chain would make no sense: two strengths of one penalty, say.
        check: raises `AskewError` with the reason where the piece makes no sense in a plan.
    """

    update: Callable[[Params, Tree, ClientContext], tuple[Params, Tree]] = _same_update
    keep: Callable[[ModelState], Tree] = _nothing
    enter: Callable[[ModelState, Tree], ModelState] = _as_it_is
    begin: Callable[[Tree, ClientContext], Tree] = _nothing
    end: Callable[[Message, Tree, Tree, ClientContext], tuple[Message, Tree]] = _same_message
    sends: Sequence[str] = ()
    wants: Sequence[str] = ()
    bound: float | Tensor | None = None
    payload: Callable[[Mapping[str, Tensor]], int] | None = None
    penalty: float | Tensor | None = None
    once: bool = False
    check: Callable[[Plan], None] = _no_objection

    @property
    def enters(self) -> bool:
        """Whether clients begin their rounds with tensors of their own, which it takes out of what is sent."""
        return self.enter is not _as_it_is


def check_rounds_no_private(name: str, plan: Plan) -> None:
    """Refuse a piece that rounds a client's whole model, and stands behind one that takes tensors out of it."""
    if private := [p.name for p in plan.before if isinstance(p, ClientPiece) and p.enters]:
        raise AskewError(f"{name} behind {private[0]} would round what stays at the client and send the error of it; "
                         f"put {private[0]} behind {name}")


@dataclass(frozen=True, repr=False)
class OnGradient(ClientPiece):
    """A piece that acts on the gradient, and so stands before the optimiser."""


@dataclass(frozen=True, repr=False)
class Optimiser(ClientPiece):
    """The piece that turns a gradient into an update: exactly one per chain.

    Args:
        momentum: of steps that are those of SGD with momentum from 0 in each round; None: steps of another form.
    """

    momentum: float | Tensor | None = 0.0


@dataclass(frozen=True, repr=False)
class OnUpdate(ClientPiece):
    """A piece that acts on the optimiser's update, and so stands behind it."""


def check_once(where: str, pieces: Sequence[ClientPiece | ServerPiece]) -> None:
    """Refuse the second of pieces that make no sense twice."""
    names = [p.name for p in pieces if p.once]
    if twice := [name for name in names if names.count(name) > 1]:
        raise AskewError(f"{where}: {twice[0]} stands twice, which makes no sense; keep one of them (or leave one of "
                         "two methods out)")


def _check_message(p: ClientPiece, message: Message, given: Message) -> None:
    """Refuse a message that a piece has spoilt."""
    for part, what in (("update", "an update"), ("buffers", "buffers")):
        tensors, sent = given.get(part, {}), message.get(part, {})
        if (part in given and part not in message) or list(sent) != list(tensors):
            raise AskewError(f"client: {p.name}'s `end` sends {what} of {', '.join(sent) or 'nothing'}; it must have "
                             f"all of the model's tensors, in their order: {', '.join(tensors) or 'an empty dict'}")
    for name, tree in message.items():
        if odd := [leaf for leaf in tree_leaves(tree) if not isinstance(leaf, Tensor)]:
            raise AskewError(f"client: {p.name}'s `end` puts {shown(odd[0])} into the message as {name!r}; messages "
                             f"hold tensors: torch.tensor({shown(odd[0])})")


def check_sent(where: str, pieces: Sequence[ClientPiece | ServerPiece]) -> None:
    """Refuse two pieces that send something of one name: one would take the other's place."""
    sent = [name for p in pieces for name in p.sends]
    if twice := [name for name in sent if sent.count(name) > 1]:
        raise AskewError(f"{where}: two pieces send {twice[0]!r}; keep one of them")


def _is_update(made: Any, names: Sequence[str]) -> bool:
    """Whether it is all of the model's tensors, and a state."""
    return (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], dict) and len(made[0]) == len(names)
            and not [name for name in names if not isinstance(made[0].get(name), Tensor)])


def _mistake(p: ClientPiece, made: Any, names: Sequence[str]) -> str:
    """What is wrong with what a piece's `update` has returned."""
    if not (isinstance(made, tuple) and len(made) == 2):
        return f"client: {p.name} returns {shown(made)}; `update` must return (update, state)"
    if not isinstance(made[0], dict):
        return f"client: {p.name}'s update is {shown(made[0])}; it must be a dict of the model's tensors by name"
    odd = next(name for name in {**dict.fromkeys(names), **made[0]}
               if name not in names or not isinstance(made[0].get(name), Tensor))
    given = shown(made[0][odd]) if odd in made[0] else "nothing"
    return (f"client: {p.name} returns {given} of {odd!r}, where the model has "
            f"{'a tensor' if odd in names else 'nothing'}; keep names and tensors as they come")


class ClientChain:
    """Client pieces, one after the other: each sees the update that the one before it returned."""

    def __init__(self, pieces: Sequence[ClientPiece]) -> None:
        self.pieces = tuple(pieces)
        self.enters = any(p.enters for p in self.pieces)
        self.ends = any(p.end is not _same_message for p in self.pieces)

    def keep(self, model: ModelState) -> Tree:
        kept = tuple(with_numbers(p.keep(model), lambda: model.params) for p in self.pieces)
        for p, memory in zip(self.pieces, kept, strict=True):
            if odd := [leaf for leaf in tree_leaves(memory) if not isinstance(leaf, Tensor)]:
                raise AskewError(f"client: {p.name} keeps {shown(odd[0])}; what a client remembers must be tensors, in "
                                 f"dicts and tuples: torch.tensor({shown(odd[0])})")
        return kept

    def enter(self, model: ModelState, kept: Tree) -> ModelState:
        for p, memory in zip(self.pieces, kept, strict=True):
            model = p.enter(model, memory)
        return model

    def begin(self, kept: Tree, ctx: ClientContext) -> Tree:
        return tuple(with_numbers(p.begin(memory, ctx), lambda: ctx.params)
                     for p, memory in zip(self.pieces, kept, strict=True))

    def update(self, u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        states, names = [], list(u)
        for p, before in zip(self.pieces, state, strict=True):
            made = p.update(u, before, ctx)
            if not _is_update(made, names):
                raise AskewError(_mistake(p, made, names))
            u, after = made
            states.append(after)
        return u, tuple(states)

    def end(self, message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        memories, update = [], message["update"]
        for p, piece_state, memory in zip(self.pieces, state, kept, strict=True):
            given = message
            message, memory = with_numbers(p.end(message, piece_state, memory, ctx), lambda: update)
            _check_message(p, message, given)
            memories.append(memory)
        return message, tuple(memories)

    @property
    def payload(self) -> Callable[[Mapping[str, Tensor]], int] | None:
        return next((p.payload for p in reversed(self.pieces) if p.payload), None)

    @cached_property  # one and the same each time, so that what engines find out about it is found out once
    def optimiser(self) -> ClientChain:
        """Its optimiser alone, as the server trains."""
        return ClientChain([p for p in self.pieces if isinstance(p, Optimiser)])

    def check(self, plan: Plan) -> None:
        """Refuse none or two optimisers, a piece on the wrong side of it, and what a piece itself refuses."""
        at = [i for i, p in enumerate(self.pieces) if isinstance(p, Optimiser)]
        names = [p.name for p in self.pieces]
        if not at:
            raise AskewError("client: no piece makes an update; add one, such as sgd(lr=0.1)")
        if len(at) > 1:
            raise AskewError(f"client: {names[at[0]]} and {names[at[1]]} both make the update; keep one of them")
        check_once("client", self.pieces)
        check_sent("client", self.pieces)
        for i, p in enumerate(self.pieces):
            if isinstance(p, OnGradient) and i > at[0]:
                raise AskewError(f"client: {p.name} acts on the gradient; put it before {names[at[0]]}")
            if isinstance(p, OnUpdate) and i < at[0]:
                raise AskewError(f"client: {p.name} acts on an update; put it after {names[at[0]]}")
            sent = {name for other in plan.server for name in other.sends}
            if missing := [name for name in p.wants if name not in sent]:
                raise AskewError(f"client: {p.name} wants {missing[0]!r} from the server; "
                                 "add the server piece that sends it")
            p.check(replace(plan, before=self.pieces[:i], after=self.pieces[i + 1 :]))

"""Adversities: what goes wrong with clients in a simulation.

    drop_out(share=0.3)                 each client of a round fails with that chance
    straggle(deadline=60)               who is too slow is not in the round
    send_nan(share=0.05)                nonsense in place of an update
    flip_labels(share=0.2)              examples with wrong labels

An adversity strikes some clients, and says what that does to them: they do not report, their messages are spoilt, or
their labels are wrong. Whom it strikes is a function of (seed, place in the recipe, round, client), whatever the
engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from askew.core import rng
from askew.core.client_piece import Message
from askew.core.errors import AskewError, shown
from askew.core.registry import Spec

if TYPE_CHECKING:
    from askew.core.population import Population
    from askew.core.recipe import Recipe


@dataclass(frozen=True)
class AdversityContext:
    """What an adversity may look at.

    Args:
        clients: [K] those of the round; where labels are concerned, all of the federation.
        examples: [K] how many each trains on.
        epochs: that each trains in a round.
        federation: clients in all.
        groups: [K] the archetype of each, where the population has archetypes.
        key: random stream of this adversity in this round.
        lasting_key: its stream for what stays as it is over the rounds.
    """

    clients: Tensor
    examples: Tensor
    epochs: int
    federation: int
    groups: Tensor | None
    key: Tensor
    lasting_key: Tensor

    @classmethod
    def of(cls, recipe: Recipe, population: Population, at: int, round: int = 0,
           clients: Sequence[int] | None = None) -> AdversityContext:
        """For the recipe's adversity number `at` and these clients; default: all."""
        who = torch.arange(population.num_clients) if clients is None else torch.tensor(clients, dtype=torch.int64)
        groups = None if population.groups is None else torch.as_tensor(population.groups)[who]
        return cls(who, torch.as_tensor(population.sizes)[who], recipe.epochs, population.num_clients, groups,
                   rng.key(recipe.seed, f"adversity {at}", round), rng.key(recipe.seed, f"lasting adversity {at}"))


def mask_of(where: str, value: Any, length: int) -> Tensor:
    """[K] true and false, as a piece must give them: nothing else is read as one."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool or tuple(value.shape) != (length,):
        form = f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else shown(value)
        raise AskewError(f"{where} must give one true or false per client, a bool tensor of shape ({length},), "
                         f"not {form}")
    return value


def _nothing_to_measure(ctx: AdversityContext, gone: Tensor) -> Mapping[str, float]:
    return {}


def _no_objection(ctx: AdversityContext) -> None:
    return None


@dataclass(frozen=True)
class Adversity:
    """Something that goes wrong.

    Args:
        struck: context -> [K] whom it strikes.
        reason: those do not report, and the round's record counts them under this word. They have been sent the model,
            send nothing, and remember what they did before the round.
        spoil: those send this in place of their message, of which every tensor has a row per client. They remember
            what they would otherwise.
        relabel: (labels [n], one key per label [n], number of classes) -> the labels [n] that those train on.
        measure: (context, [K] who is gone for another reason) -> numbers for the round's record.
        check: raises `AskewError` where it makes no sense for a federation; its context has all clients.
        spec: how it was made, set by `@piece`.
    """

    struck: Callable[[AdversityContext], Tensor]
    reason: str | None = None
    spoil: Callable[[Message], Message] | None = None
    relabel: Callable[[Tensor, Tensor, int], Tensor] | None = None
    measure: Callable[[AdversityContext, Tensor], Mapping[str, float]] = _nothing_to_measure
    check: Callable[[AdversityContext], None] = _no_objection
    spec: Spec | None = None

    def __post_init__(self) -> None:
        does = [name for name in ("reason", "spoil", "relabel") if getattr(self, name) is not None]
        if len(does) != 1:
            raise AskewError(f"an adversity has one of reason, spoil and relabel, not {' and '.join(does) or 'none'}")
        if self.reason is not None and not (isinstance(self.reason, str) and self.reason.isidentifier()):
            raise AskewError(f"an adversity's reason is one word, such as dropped_out, not {shown(self.reason)}")

    def strikes(self, ctx: AdversityContext) -> Tensor:
        """[K] whom it strikes."""
        return mask_of(f"adversity {self.name}: struck", self.struck(ctx), len(ctx.clients))

    @property
    def name(self) -> str:
        return self.spec.name if self.spec else "of your own"


@dataclass(frozen=True)
class Who:
    """Whom an adversity strikes, by chance.

    Args:
        share: the chance that a client is struck in a round; a list has one for each client of the federation.
        clients: only these can be struck; default: all.
        groups: archetype -> its clients' chance in place of `share`.
        lasting: draw once, for all rounds: `share` is then that of the clients, to the nearest whole number of them,
            but at least one unless it is 0.

    Example:
        >>> Who(share=[1.0, 0.0, 1.0])(adversity_context(3))
        tensor([ True, False,  True])
        >>> Who(clients=[2])(adversity_context(3))
        tensor([False, False,  True])
        >>> Who(share=0.0, groups={1: 1.0})(adversity_context(3, groups=[0, 1, 1]))
        tensor([False,  True,  True])
        >>> int(Who(share=0.25, lasting=True)(adversity_context(8)).sum())
        2
    """

    share: float | Sequence[float] = 1.0
    clients: Sequence[int] | None = None
    groups: Mapping[int, float] | None = None
    lasting: bool = False

    def __call__(self, ctx: AdversityContext) -> Tensor:
        """[K] whether each is struck."""
        able = torch.ones(len(ctx.clients), dtype=torch.bool)
        if self.clients is not None:
            able = torch.isin(ctx.clients, torch.tensor(self.clients, dtype=torch.int64))
        if self.lasting:
            return able & torch.isin(ctx.clients, self._chosen(ctx))
        if isinstance(self.share, Sequence):
            chance = torch.tensor(self.share, dtype=torch.float64)[ctx.clients]
        else:
            chance = torch.full((len(ctx.clients),), float(self.share), dtype=torch.float64)
        for group, value in (self.groups or {}).items():
            assert ctx.groups is not None, "`check` has seen to that"
            chance[ctx.groups == group] = value
        return able & (rng.uniform(rng.fold(ctx.key, ctx.clients), 1)[:, 0] < chance)

    def _chosen(self, ctx: AdversityContext) -> Tensor:
        """The clients that are struck in every round."""
        assert isinstance(self.share, int | float), "no piece that lasts takes a list"
        able = torch.arange(ctx.federation)
        if self.clients is not None:
            able = torch.tensor(sorted(set(self.clients)), dtype=torch.int64)
        count = max(1, int(self.share * len(able) + 0.5)) if self.share else 0
        return able[rng.choose(ctx.lasting_key, len(able), count)] if count else able[:0]

    def check(self, name: str, ctx: AdversityContext) -> None:
        """Refuse, for the piece of that name, what is no chance and who does not exist.

        Args:
            ctx: with all clients.
        """
        if not isinstance(self.groups, Mapping | None):
            raise AskewError(f"{name}: groups must be a share for each group, such as {{1: 0.8}}, not {self.groups!r}")
        shares = self.share if isinstance(self.share, Sequence) else [self.share]
        for value in (*shares, *(self.groups or {}).values()):
            if not _is_share(value):
                raise AskewError(f"{name}: a share must be a number in [0, 1], got {value!r}")
        if isinstance(self.share, Sequence) and len(shares) != ctx.federation:
            raise AskewError(f"{name}: share has {len(shares)} numbers for {ctx.federation} clients; give one number, "
                             "or one for each")
        for client in self.clients or ():
            if not 0 <= client < ctx.federation:
                raise AskewError(f"{name}: there is no client {client}; the federation has 0 to {ctx.federation - 1}")
        if self.clients is not None and not len(self.clients):
            raise AskewError(f"{name}: clients is empty, so that nobody can be struck; name some, or leave it out")
        groups = [] if ctx.groups is None else ctx.groups.unique().tolist()
        for group in self.groups or {}:
            if group not in groups:
                has = f"has {', '.join(map(str, groups))}" if groups else "has none; use one with archetypes"
                raise AskewError(f"{name}: there is no group {group!r}; the population {has}")


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1

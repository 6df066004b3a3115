"""How a recipe writes a federation: a scheme, and what is changed about what it gives.

`shards(clients=10, shards_per_client=2) + hold_out(0.05) + share(0.5)`
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from askew.core import calls, registry
from askew.core.dataset import Source
from askew.core.errors import AskewError, shortened, shown
from askew.core.population import Population
from askew.core.registry import Spec


@dataclass(frozen=True)
class Combinator:
    """One change to a federation: before the scheme divides the examples, or after it.

    Args:
        split: (source, seed) -> indices of the server's examples and of those that the scheme divides.
        change: (population, source, seed) -> population; its indices point into the source.
        spec: how it was made, set by `@piece`.
    """

    split: Callable[[Source, int], tuple[np.ndarray, np.ndarray]] | None = None
    change: Callable[[Population, Source, int], Population] | None = None
    spec: Spec | None = None


@dataclass(frozen=True)
class PopulationSpec:
    """A scheme and the combinators behind it, in their order.

    Example:
        >>> population = PopulationSpec.of("iid(clients=4) + hold_out(0.1)") + "share(0.5)"
        >>> str(population), population.name
        ('iid(clients=4) + hold_out(fraction=0.1) + share(fraction=0.5)', 'iid')
        >>> population.get("share")
        Spec(name='share', args={'fraction': 0.5})
    """

    scheme: Spec
    combinators: tuple[Spec, ...] = ()

    def __post_init__(self) -> None:
        names = [spec.name for spec in self.combinators]
        for name in names:
            if names.count(name) > 1:
                raise AskewError(f"population: {name} stands twice in {str(self)!r}; keep one of them")

    @classmethod
    def of(cls, value: Any) -> PopulationSpec:
        """From text, a scheme's `Spec` or a value of this type; names and arguments are checked."""
        if isinstance(value, PopulationSpec):
            return cls(_scheme(value.scheme), tuple(_combinator(spec) for spec in value.combinators))
        if isinstance(value, Spec | Combinator):
            return cls(_scheme(value))
        if not isinstance(value, str):
            raise AskewError("population must be a scheme such as iid(clients=10), with + hold_out(0.05) where wanted, "
                             f"not {shown(value)}")
        scheme, *combinators = _terms(value)
        return cls(_scheme(scheme), tuple(map(_combinator, combinators)))

    @property
    def name(self) -> str:
        """Of the scheme."""
        return self.scheme.name

    @property
    def args(self) -> Mapping[str, Any]:
        """Of the scheme."""
        return self.scheme.args

    def __str__(self) -> str:
        return " + ".join(map(str, (self.scheme, *self.combinators)))

    def __add__(self, combinator: str | Spec | Combinator) -> PopulationSpec:
        return replace(self, combinators=(*self.combinators, _combinator(combinator)))

    def with_args(self, **changes: Any) -> PopulationSpec:
        """With other arguments of the scheme."""
        return replace(self, scheme=self.scheme.with_args(**changes))

    def with_first(self, *combinators: str | Spec | Combinator) -> PopulationSpec:
        """With these before all others, in place of those of the same names."""
        first = tuple(map(_combinator, combinators))
        names = [spec.name for spec in first]
        return replace(self, combinators=(*first, *(spec for spec in self.combinators if spec.name not in names)))

    def get(self, name: str) -> Spec | None:
        """The combinator of that name, if it is there."""
        return next((spec for spec in self.combinators if spec.name == name), None)

    def argument(self, combinator: str, name: str, default: Any = None) -> Any:
        """An argument of a combinator, or the default where there is none."""
        spec = self.get(combinator)
        return default if spec is None else spec.args.get(name, default)


def _scheme(value: str | Spec | Combinator) -> Spec:
    name = calls.read_call("partition", value)[0] if isinstance(value, str) else _spec(value).name
    if name in registry.names("combinator") and name not in registry.names("partition"):
        raise AskewError(f"population: {name} is a combinator; put it behind a scheme: iid(clients=10) + "
                         f"{_text(value)}")
    return registry.parse("partition", value if isinstance(value, str) else registry.without_tensors(_spec(value)))


def _combinator(value: str | Spec | Combinator) -> Spec:
    return registry.parse("combinator", value if isinstance(value, str) else registry.without_tensors(_spec(value)))


def _spec(value: Any) -> Spec:
    spec = value.spec if isinstance(value, Combinator) else value
    if not isinstance(spec, Spec):
        raise AskewError(f"population: {shown(value)} is no piece; write a call such as hold_out(0.05), or make it by "
                         "a function with @piece")
    return spec


def _text(value: str | Spec | Combinator) -> str:
    return shortened(value if isinstance(value, str) else str(_spec(value)), 80)


def _terms(text: str) -> list[str]:
    """`a() + b(1)` as ["a()", "b(1)"]; what cannot be read is left to the reader of the scheme, who names it."""
    node = calls.expression(text) if len(text) <= calls.LONGEST else None
    terms: list[str] = []
    try:
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            terms.append(ast.unparse(node.right))
            node = node.left
        return [ast.unparse(node), *reversed(terms)] if node and terms else [text]
    except RecursionError:
        return [text]

"""Who takes part in a contest: methods, each with the same number of settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from askew.core import registry
from askew.core.client_piece import Optimiser
from askew.core.errors import AskewError
from askew.core.population_spec import PopulationSpec
from askew.core.recipe import Recipe
from askew.runs.ranking import recording_held_out

OPPONENT = "fedavg"
HELD_OUT = "validation"  # the combinator by which clients keep examples that nobody trains on
# Multiples of the recipe's own rate: half a decade apart, one step down and two up, since recipes err on the safe side.
RATES = (1 / 3, 1.0, 3.0, 10.0)
# The same range in twice as many steps, for a method without a setting of its own: every method has as many settings.
FINE_RATES = (1 / 6, 1 / 3, 0.6, 1.0, 1.8, 3.0, 6.0, 10.0)
SETTINGS = len(FINE_RATES)
# Method -> what all its settings have, and two values of its own. Those of the papers, or half a decade around them;
# none was chosen by looking at a federation of the proof (docs/advise.md).
OWN: dict[str, tuple[dict[str, Any], tuple[dict[str, Any], ...]]] = {
    "fedavg": ({}, ()),
    "fedavgm": ({}, ({"beta": 0.9}, {"beta": 0.7})),
    "fednnnn": ({}, ({"gamma": 0.8}, {"gamma": 0.5})),
    "fedprox": ({}, ({"mu": 0.01}, {"mu": 0.1})),
    "fednova": ({}, ()),
    "fedadam": ({}, ({"lr": 0.03}, {"lr": 0.1})),
    "scaffold": ({}, ()),
    "feddyn": ({}, ({"alpha": 0.1}, {"alpha": 0.01})),
    "server_training": ({"hold_out": 0.05}, ({"epochs": 1}, {"epochs": 3})),
    "data_sharing": ({"hold_out": 0.05, "warm_up_until": 0.0}, ({"alpha": 0.5}, {"alpha": 1.0})),
    "fedper": ({}, ()),
}
METHODS = tuple(OWN)


@dataclass(frozen=True)
class Candidate:
    """One setting of one method.

    Args:
        method: its name.
        setting: what distinguishes it from the method's other settings.
        recipe: what it runs, but for the seed and the number of rounds.
    """

    method: str
    setting: str
    recipe: Recipe

    @property
    def key(self) -> str:
        return f"{self.method} {self.setting}"


def candidates_of(base: Recipe, method: str) -> list[Candidate]:
    """A method's settings, the plainest first.

    Args:
        base: what all methods start from; its rate is the middle of the rates.
        method: a name, or a call such as `fedprox(mu=0.3)`, whose arguments then stay as they are.
    """
    call = registry.parse("method", method)
    fixed, values_of = OWN.get(call.name, ({}, ()))
    fixed = {key: value for key, value in fixed.items() if key not in call.args} | dict(call.args)
    values_of = tuple(values for values in values_of if not values.keys() & call.args.keys())
    rates = sorted(RATES if values_of else FINE_RATES, key=lambda rate: (abs(math.log(rate)), rate))
    made = []
    for values, rate in product(values_of or ({},), rates):  # the recipe's own rate and the paper's own setting first
        recipe = registry.build("method", registry.Spec(call.name, {**fixed, **values}), base=with_rate(base, rate))
        setting = ", ".join([f"rate x {rate:.3g}", *(f"{key} = {value:g}" for key, value in values.items())])
        recipe = recipe.replace(population=held_out_first(recipe.population))
        made.append(Candidate(str(call).removesuffix("()"), setting, recording_held_out(recipe)))
    return made


def held_out_first(population: PopulationSpec) -> PopulationSpec:
    """With what clients hold out taken before they are handed examples of the server's, which others have, too.

    Example:
        >>> str(held_out_first(PopulationSpec.of("iid(4) + hold_out(0.1) + share(0.5) + validation(0.2)")))
        'iid(clients=4) + hold_out(fraction=0.1) + validation(fraction=0.2) + share(fraction=0.5)'
    """
    places = {HELD_OUT: 1, **{spec.name: 0 for spec in population.combinators
                              if registry.build("combinator", spec).split is not None}}
    return replace(population, combinators=tuple(sorted(population.combinators,
                                                        key=lambda spec: places.get(spec.name, 2))))


def with_rate(recipe: Recipe, times: float) -> Recipe:
    """With a multiple of the clients' rate, to three digits; a schedule is scaled by its first number."""
    changed = []
    for spec in recipe.client:
        if isinstance(registry.build("client", spec), Optimiser):
            rate = _rate_of(spec)
            spec = registry.with_argument(spec, spec.name, "lr", float(f"{times * rate:.3g}"))
        changed.append(spec)
    return recipe.replace(client=tuple(changed))


def _rate_of(spec: registry.Spec) -> float:
    """The rate that an optimiser starts from."""
    numbers = registry.numbers_of(registry.Spec(spec.name, {"lr": spec.args["lr"]} if "lr" in spec.args else {}))
    if not numbers:
        raise AskewError(f"client: {spec} names no rate lr, of which multiples could be tried; write sgd(lr=0.1)")
    return next(iter(numbers.values()))

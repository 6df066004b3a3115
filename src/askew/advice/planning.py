"""A contest that fits into a number of minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from askew.advice.contest import Plan
from askew.core import files
from askew.core.errors import AskewError

RESERVE = 0.8  # part of the budget that a plan may fill: times are estimates
COST_RUNS = 9  # FedAvg on the federation, without its skew and in one place, three seeds each
FEWEST_ROUNDS = 4
ABOUT = ("how much of a contest is held: rounds of a whole trial, the share of them after which all but a few settings "
         "go, how many stay, and the seeds of selection, comparison and confirmation")
PLAN = "plan.json"  # in a contest's folder: a resumed one keeps its plan, however fast the machine is now


def plans(rounds: int) -> list[Plan]:
    """From the whole contest to the smallest that still has intervals: fewer seeds, then fewer rounds.

    Never fewer settings: a FedAvg that is not tuned is beaten by whatever takes longer steps.
    """
    whole = Plan(rounds)
    smaller = [whole, replace(whole, selection=2, comparison=5, confirmation=8),
               replace(whole, keep=1, selection=1, comparison=4, confirmation=6)]
    return smaller + [replace(smaller[-1], rounds=rounds // by) for by in (2, 4, 8) if rounds // by >= FEWEST_ROUNDS]


def estimate(plan: Plan, seconds: Mapping[str, float], settings: Mapping[str, int]) -> float:
    """Seconds that a plan takes.

    Args:
        seconds: method -> those of one round of one trial, trained with as many others as there are.
        settings: method -> how many it has.
    """
    trials = plan.trials(settings)
    slowest = max(seconds.values())
    return plan.rounds * (sum(seconds[method] * number for method, number in trials.items())
                          + slowest * (2 * plan.confirmation + COST_RUNS))


def fitting(rounds: int, budget: float, seconds: Mapping[str, float], settings: Mapping[str, int]) -> Plan:
    """The largest plan that fits.

    Args:
        budget: seconds that are left.
    """
    made = plans(rounds)
    for plan in made:
        if estimate(plan, seconds, settings) <= RESERVE * budget:
            return plan
    need = estimate(made[-1], seconds, settings) / RESERVE / 60
    raise AskewError(f"--budget: {max(budget, 0) / 60:.2g} minutes are left for trials, and the smallest contest of "
                     f"{len(seconds)} methods takes about {need:.2g}; give more, name fewer --methods, or add "
                     "+ subset(0.1) to the population")


def keep_plan(plan: Plan, folder: Path | None) -> None:
    """Write a plan to a contest's folder, where there is one."""
    if folder is not None:
        files.write_json(folder / PLAN, {"about": ABOUT, **asdict(plan)})


def kept_plan(folder: Path | None) -> Plan | None:
    """The plan of a contest that is resumed; None where there is none."""
    return None if folder is None or not (folder / PLAN).exists() else read_plan(folder / PLAN)


def read_plan(path: Path) -> Plan:
    """What `keep_plan` wrote."""
    written, known = files.read_json(path, "plan of a contest"), asdict(Plan(1))
    written.pop("about", None)
    if written.keys() != known.keys() or any(type(written[name]) is not type(value) or not 0 < written[name] < 10**6
                                             for name, value in known.items()):
        raise AskewError(f"{str(path)!r} is damaged; name another folder")
    return Plan(**written)

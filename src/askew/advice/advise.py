"""`askew.advise`: which remedy should this federation use, what will it gain, what does it ask for?"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from askew.advice.advice import Advice, Cost, Place
from askew.advice.candidates import HELD_OUT, METHODS, OPPONENT, Candidate, candidates_of
from askew.advice.contest import COMPARISON, Contest, Plan, hold
from askew.advice.demanding import Limits, demandingness, in_words
from askew.advice.facts import Facts, facts_of
from askew.advice.gains import Scale
from askew.advice.planning import fitting, keep_plan, kept_plan
from askew.advice.proxy import like_counts
from askew.advice.trials import JOURNAL, OutOfTime, Trials
from askew.core import registry
from askew.core.arguments import checked
from askew.core.dataset import Dataset
from askew.core.errors import AskewError, first_line
from askew.core.recipe import Recipe
from askew.data.skew_table import CountsTable, read_counts
from askew.engine.build import build_task
from askew.engine.choice import check_engine
from askew.engine.task import Task
from askew.engine.threads import use_threads
from askew.partition.natural import natural
from askew.pieces.methods import centralised
from askew.pieces.probe import update_norms
from askew.rounds.record import Record
from askew.runs.cluster import Cluster
from askew.runs.configuration import Configuration, Means
from askew.runs.demands import Demands, demands_of
from askew.runs.driver import drive
from askew.runs.folders import check_many, held
from askew.runs.result import Result

HELD_OUT_SHARE = 0.1  # of each client's examples, by which settings and methods are chosen
FIRST_ROUNDS = 3  # of the trial by which methods' times, bytes and N/E are known
COST_SEEDS = 3
KIND = "advice"  # of a folder


@dataclass(frozen=True)
class _Entrant:
    """A method that can run here."""

    candidates: list[Candidate]
    plain: list[Candidate]  # the same on the whole of the clients' examples, for the recipe that is handed out
    task: Task
    demands: Demands | None = None
    seconds: float = 0.0


@dataclass
class _Field:
    """All methods that were asked for."""

    entrants: dict[str, _Entrant] = field(default_factory=dict)
    struck: dict[str, str] = field(default_factory=dict)

    def strike(self, method: str, reason: str) -> None:
        self.struck[method] = reason
        self.entrants.pop(method, None)


@checked
def advise(base: Recipe | None = None, *, methods: Sequence[str] | None = None, margin: float = 1.0,
           budget: float = 5.0, limits: Limits | None = None, counts: str | Path | None = None,
           data: Dataset | None = None, model: nn.Module | None = None, engine: str = "auto", device: str = "cpu",
           data_dir: str | None = None, out: str | Path | None = None, go_on: bool = False,
           on_round: Callable[[Record, Recipe], None] | None = None,
           on_plan: Callable[[int], None] | None = None, cluster: Cluster | None = None) -> Advice:
    """Which remedy this federation should use.

    Facts are measured, methods that the federation cannot have are struck out, the others meet tuned FedAvg in a fair
    contest (`askew.advice.contest`), and the least demanding one that is worth it is named, with what it gains on seeds
    that nothing was chosen by.

    Args:
        base: data, federation, network, rounds and the rate around which others are tried; its seed is the first.
        methods: names or calls; default: `askew.advice.candidates.METHODS`.
        margin: what a remedy must gain to be worth it: points of accuracy (of any share), else percent of the error.
        budget: minutes for everything. Where the whole contest does not fit, a smaller one is held, and the advice says
            so; with the same seed and the same plan the advice is the same.
        limits: what the federation cannot give.
        counts: a file of client x class counts, where nothing else is known: the same label skew is made on the
            recipe's data.
        data, model: objects in place of what the recipe names.
        out: a folder, which gets advice.json, recipe.toml and the journal of trials; nothing is written without one.
        go_on: the folder holds an interrupted contest of the same settings: its finished trials are not trained again.
        on_round: called with each round's record.
        on_plan: called with the number of rounds that all trials have together, when it is known.
        cluster: a Ray cluster whose machines train the trials; the first few, by which time is planned, train here.

    Example:
        >>> advice = askew.advise(askew.Recipe(population="iid(clients=2)", rounds=1), methods=["fedavgm"])
        >>> advice.method is None or advice.method == "fedavgm"
        True
    """
    began = time.monotonic()
    base = base or Recipe()
    if not margin >= 0:
        raise AskewError(f"--margin must be 0 or more, got {margin:g}")
    if not budget > 0:
        raise AskewError(f"--budget must be a number of minutes above 0, got {budget:g}")
    check_engine(engine, "fp32", several=True)
    if cluster is not None and not (data is None and model is None and counts is None):
        raise AskewError("--ray: data and networks of your own, and data made from counts, cannot be sent to other "
                         "machines; name them in the recipe, or leave --ray out")
    folder = None if out is None else Path(out)
    check_many(folder, go_on, KIND)
    table = None if counts is None else read_counts(counts)
    if table is not None:
        base, data = _from_counts(base, table, data, data_dir)
    limits = limits or Limits()
    base = base.replace(stop_after_no_gain=0, probes=(), evaluate_every=base.rounds)
    means = Means(engine, device=device, data_dir=data_dir, data=data, model=model)
    with held(folder, KIND):
        with use_threads(1):
            entered, task = _field(base, methods, data, model, device, data_dir)
            facts = facts_of(task.population, task.data, base.seed)
        facts = replace(facts, norm_ratio=_first_trial(entered, base, means, limits, 60 * budget))
        if set(entered.entrants) <= {OPPONENT}:
            raise AskewError("advise: the demands leave no method but FedAvg: "
                             + "; ".join(f"{name}: {why}" for name, why in entered.struck.items()))
        settings = {name: len(entrant.candidates) for name, entrant in entered.entrants.items()}
        seconds = {name: entrant.seconds for name, entrant in entered.entrants.items()}
        left = 60 * budget - (time.monotonic() - began)
        plan = kept_plan(folder) or fitting(base.rounds, left, seconds, settings)
        keep_plan(plan, folder)
        trials = Trials(means, began + 60 * budget, None if folder is None else folder / JOURNAL, on_round, cluster)
        if on_plan is not None:
            runs = sum(plan.trials(settings).values()) + 2 * plan.confirmation + COST_SEEDS * len(Cost.PLACES)
            on_plan(round(plan.rounds * runs))
        try:
            contest = _contest(entered, trials, plan, base, margin)
            cost = _cost(contest, trials, base, plan)
        except OutOfTime as ended:
            if ended.by_hand:
                raise KeyboardInterrupt from None
            remedy = f"continue with the same options, --resume and --out {folder}" if folder else "give more"
            raise AskewError(f"--budget: {budget:g} minutes ended before the contest did, although "
                             f"{trials.seconds / 60:.2g} were spent on trials; {remedy}") from None
        advice = _advice(entered, facts, contest, cost, plan, base, task, time.monotonic() - began,
                         None if table is None else str(counts))
        if folder is not None:
            advice.write(folder)
    return advice


def _from_counts(base: Recipe, table: CountsTable, data: Dataset | None,
                 data_dir: str | None) -> tuple[Recipe, Dataset]:
    proxy = registry.build("data", base.data, data_dir=data_dir) if data is None else data
    return base.replace(population=f"{natural.__name__}()"), like_counts(table, proxy, base.seed)


def _field(base: Recipe, methods: Sequence[str] | None, data: Dataset | None, model: nn.Module | None, device: str,
           data_dir: str | None) -> tuple[_Field, Task]:
    """Methods that can be built, and FedAvg's task, whose errors are everybody's."""
    asked = [str(registry.parse("method", name)).removesuffix("()") for name in methods or METHODS]
    if twice := [name for name in asked if asked.count(name) > 1]:
        raise AskewError(f"--methods names {twice[0]} twice")
    names = [OPPONENT, *(name for name in asked if name != OPPONENT)]
    if data is None:
        data = registry.build("data", base.data, data_dir=data_dir)

    def built(recipe: Recipe) -> Task:
        return build_task(recipe, data=data, model=model, device=device)

    plain = built(registry.build("method", OPPONENT, base=base))  # what is wrong with the recipe is told first
    if plain.num_clients < 2:
        raise AskewError("advise: the federation has one client, so there is no skew to remedy; train it with askew "
                         "run")
    held_out = f"{HELD_OUT}({HELD_OUT_SHARE})"
    inner = base if plain.population.validation is not None else base.replace(population=base.population + held_out)
    entered = _Field()
    for name in names:
        try:
            candidates, whole = candidates_of(inner, name), candidates_of(base, name)
            entrant = _Entrant(candidates, [replace(c, recipe=c.recipe.replace(stop_after_no_gain=0)) for c in whole],
                               built(candidates[0].recipe))
        except AskewError as error:
            if name == OPPONENT:
                raise
            entered.strike(name, f"it cannot run here: {first_line(error)}")
            continue
        if entrant.task.personal and not _by_devices(base, plain):
            entered.strike(name, "it gives each client a model of its own, and one model is judged here, on the whole "
                               "test set (judge = \"devices\" lets it in)")
        else:
            entered.entrants[name] = entrant
    return entered, plain


def _by_devices(base: Recipe, task: Task) -> bool:
    return base.judge == "devices" or (base.judge == "auto" and task.population.test is not None)


def _first_trial(entered: _Field, base: Recipe, means: Means, limits: Limits, budget: float) -> float | None:
    """A few rounds of each method: what it sends, what it costs in time, and whether FedAvg's updates cancel out.

    Args:
        budget: seconds for everything.
    """
    rounds = min(FIRST_ROUNDS, base.rounds)
    names = list(entered.entrants)
    recipes = [entered.entrants[name].candidates[0].recipe for name in names]
    results, times = _short([recipes[0].replace(probes=(update_norms(),)), *recipes[1:]], rounds, means)
    for name, result, time_of_round in zip(names, results, times, strict=True):
        if result.failed:
            if name == OPPONENT:
                raise AskewError(f"advise: FedAvg fails on this federation: {result.failed}")
            entered.strike(name, f"it cannot run here: {result.failed}")
        elif result.records:  # else it diverged at once at the recipe's own rate; at others it may not
            entrant = entered.entrants[name]
            demands = demands_of(entrant.task, result.records[-1])
            entered.entrants[name] = replace(entrant, demands=demands, seconds=time_of_round)
            sent = result.records[-1]["bytes_up"] / entrant.task.cohort_size
            if name != OPPONENT and (why := limits.strike(entrant.task, demands, sent)):
                entered.strike(name, why)
    _time_together(entered, means, budget)
    ratios = [record["N/E"] for record in results[0].records if record.get("N/E") is not None]
    return float(sum(ratios) / len(ratios)) if ratios else None


def _time_together(entered: _Field, means: Means, budget: float) -> None:
    """What a round of a trial takes among others, as the contest trains it: less than alone, and not the first time.

    Where two rounds of all settings would take more than a thirtieth of the budget, times are left as they are: too
    high.
    """
    alone = sum(entrant.seconds * len(entrant.candidates) for entrant in entered.entrants.values())
    if 2 * alone > budget / 30:
        return
    each = [(name, c.recipe) for name, entrant in entered.entrants.items() for c in entrant.candidates]
    _, times = _short([recipe for _, recipe in each], 2, means)
    for name, entrant in entered.entrants.items():
        times_of = [seconds for (owner, _), seconds in zip(each, times, strict=True) if owner == name and seconds > 0]
        if times_of:
            entered.entrants[name] = replace(entrant, seconds=sum(times_of) / len(times_of))


def _short(recipes: Sequence[Recipe], rounds: int, means: Means) -> tuple[list[Result], list[float]]:
    """A few rounds of each, and the seconds that one takes, the first not counted: it loads and builds much that the
    others find; what is wrong with recipes is told by their results."""
    ends: list[list[float]] = [[] for _ in recipes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = drive([Configuration(recipe.replace(rounds=rounds, evaluate_every=rounds, stop_after_no_gain=0))
                         for recipe in recipes], means, keep=False,
                        on_round=lambda i, record, recipe: ends[i].append(time.monotonic()))
    if any(result.interrupted for result in results):
        raise KeyboardInterrupt
    times = [(at[-1] - at[0]) / (len(at) - 1) / result.together if len(at) > 1
             else result.seconds / max(1, len(at)) / result.together for at, result in zip(ends, results, strict=True)]
    return results, times


def _contest(entered: _Field, trials: Trials, plan: Plan, base: Recipe, margin: float) -> Contest:
    objective = entered.entrants[OPPONENT].task.objective
    scale = Scale(objective.higher_is_better, objective.is_share)
    settings = {name: entrant.candidates for name, entrant in entered.entrants.items()}
    order = {name: demandingness(entrant.task) for name, entrant in entered.entrants.items()}
    return hold(settings, trials, plan, scale, demands=order, margin=margin, seed=base.seed)


def _cost(contest: Contest, trials: Trials, base: Recipe, plan: Plan) -> Cost:
    """Tuned FedAvg here, on the same examples dealt at random, and on all of them in one place; on the test set."""
    tuned = contest.opponent.recipe.replace(stop_after_no_gain=0, judge="global", rounds=plan.rounds,
                                          evaluate_every=plan.rounds)
    places = {"here": tuned, "iid": tuned.replace(population=tuned.population + "shuffle()"),
              "centralised": centralised(tuned)}
    seeds = [base.seed + COMPARISON + i for i in range(COST_SEEDS)]
    results = trials.results([recipe.replace(seed=seed) for recipe in places.values() for seed in seeds])
    scores = {name: [result.score for result in results[at * COST_SEEDS : (at + 1) * COST_SEEDS] if result.finished]
              for at, name in enumerate(places)}
    return Cost({name: Place.of(values) for name, values in scores.items()}, results[0].objective)


def _advice(entered: _Field, facts: Facts, contest: Contest, cost: Cost, plan: Plan, base: Recipe, task: Task,
            seconds: float, counts: str | None) -> Advice:
    name = contest.chosen or OPPONENT
    finalist = contest.opponent if contest.chosen is None else contest.entry(name).finalist
    recipe = _whole(entered.entrants[name], finalist)
    demands: Mapping[str, list[str]] = {method: [] if entrant.demands is None else in_words(entrant.demands)
                                        for method, entrant in entered.entrants.items()}
    notes: list[str] = []
    whole = Plan(base.rounds)
    if plan != whole:
        cut = f" and {plan.rounds} of {base.rounds} rounds" if plan.rounds < base.rounds else ""
        notes.append(f"the budget holds a smaller contest: {plan.selection}, {plan.comparison} and "
                     f"{plan.confirmation} seeds in place of {whole.selection}, {whole.comparison} and "
                     f"{whole.confirmation}{cut}")
    notes += [f"{method}: {why}" for method, why in contest.dropped.items()]
    struck = dict(entered.struck)
    about: dict[str, Any] = {"data": task.data.name, "population": str(base.population), "clients": task.num_clients,
                             "rounds": plan.rounds, "seed": base.seed}
    return Advice(facts, cost, contest, struck, demands, recipe, _whole(entered.entrants[OPPONENT], contest.opponent),
                  task.objective, about, tuple(notes), round(seconds, 1), counts)


def _whole(entrant: _Entrant, finalist: Candidate) -> Recipe:
    """A finalist's recipe on all of the clients' examples."""
    return next(c.recipe for c in entrant.plain if c.setting == finalist.setting).replace(evaluate_every=1)

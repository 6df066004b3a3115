"""The one driver: what `run`, `resume`, `sweep` and `compare` train with.

Configurations whose local training has the same shape (network, data, batches, pieces) train together, all clients of
all of them in one computation, each with its own weights, rates, streams and population; the others go one after the
other. A configuration's result is what it would be alone.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from askew.core import interrupt, registry
from askew.core.dataset import Dataset
from askew.core.errors import AskewError, DivergedError, InUseError, LostError, UnwritableError, first_line
from askew.core.interrupt import shielded
from askew.core.recipe import Recipe
from askew.core.start import Start
from askew.core.tensors import ModelState
from askew.engine.build import build_task
from askew.engine.choice import check_engine, choose, make_engine
from askew.engine.device import available
from askew.engine.distributed import Distributed
from askew.engine.peers import DISTRIBUTED, Peers, in_step
from askew.engine.protocol import Engine
from askew.engine.start import first_weights, start_context
from askew.engine.task import Task
from askew.engine.threads import examples_per_step, threads_for, use_threads
from askew.rounds.lasting import check_lasting
from askew.rounds.record import Record
from askew.rounds.simulation import Simulation
from askew.runs.cluster import Cluster, Part
from askew.runs.configuration import Configuration, Means, OnEnd, OnRound, shape_of, untrained
from askew.runs.data_prints import print_of_data, print_of_population
from askew.runs.earlier import OtherRecipeError, look
from askew.runs.environment import describe_environment
from askew.runs.lockstep import Lockstep
from askew.runs.result import Result
from askew.runs.run_folder import FAILED, INTERRUPTED, RunFolder
from askew.runs.running import Running


def drive(configurations: Sequence[Configuration], means: Means, *, keep: bool = True, limit_s: float | None = None,
          stop_at_failure: bool = False, on_round: OnRound | None = None, on_end: OnEnd | None = None,
          cluster: Cluster | None = None) -> list[Result]:
    """Train configurations, those of equal shape together.

    Ctrl-C, SIGTERM and SIGHUP stop it; whatever stops it, what there is has been saved in the folders.

    Args:
        keep: whether results hold their simulations; else numbers and weights only.
        limit_s: stop, as Ctrl-C would, at the end of the round in which so many seconds are over.
        stop_at_failure: raise the first error that breaks a configuration off; else it is in its result's `failed`, and
            the others go on.
        on_round: called with (number of the configuration, record, recipe); rounds of earlier sessions come first.
        on_end: called with (number of the configuration, result) when it is finished, diverged, failed or interrupted.
        cluster: machines that train them in place of this process; results hold no simulations then.

    Returns:
        one result per configuration, in their order; one that diverges or fails does not stop the others. On Ctrl-C,
        what there is so far: the results of what was not finished are `interrupted`.
    """
    check_engine(means.engine, means.precision, several=len(configurations) > 1)
    with in_step(means.engine) as peers:
        if peers is not None:
            means = replace(means, device=peers.device(means.device))
        if peers is not None and not peers.leads:  # one process writes files and speaks
            configurations = [replace(configuration, path=None) for configuration in configurations]
            on_round = on_end = None
        course = _Course(configurations, means, peers, keep, limit_s, stop_at_failure, on_round, on_end, cluster)
        try:
            # Local training seeds the global generator.
            with interrupt.as_ctrl_c(), torch.random.fork_rng(devices=[]):
                course.run()
        except KeyboardInterrupt:
            pass  # what was under way has been kept, and its result says that it was interrupted
        except _CallersError as error:
            raise error.error from None
        return [course.result(i) for i in range(len(configurations))]


class _CallersError(Exception):
    """Raised by a function of the caller's: no configuration failed, but everything ends."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@contextlib.contextmanager
def _of_the_caller() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _CallersError(error) from error


# No other configuration would fare better
CONCERNS_ALL = (UnwritableError, InUseError, _CallersError, OtherRecipeError)


class _Course:
    """The configurations on their way: which are over, which have a folder to go on from."""

    def __init__(self, configurations: Sequence[Configuration], means: Means, peers: Peers | None, keep: bool,
                 limit_s: float | None, stop_at_failure: bool, on_round: OnRound | None, on_end: OnEnd | None,
                 cluster: Cluster | None) -> None:
        self.configurations, self.means, self._keep, self.peers = configurations, means, keep, peers
        self._cluster = cluster
        self._deadline = None if limit_s is None else time.monotonic() + limit_s
        self._on_round, self._on_end, self._stop_at_failure = on_round, on_end, stop_at_failure
        self._earlier: dict[int, RunFolder] = {}  # with a checkpoint
        self._over: dict[int, Result] = {}
        self._data: dict[str, Dataset] = {}
        self._prints: dict[str, str] = {}
        self._starts: dict[Hashable, ModelState] = {}
        self.running: dict[int, Running] = {}
        self._errors: list[Exception] = []
        self._engine_of: dict[int, str] = {}

    def run(self) -> None:
        for i, configuration in enumerate(self.configurations):
            if configuration.go_on and configuration.path is not None:
                with self._failing(i):
                    self._look(i, configuration, configuration.path)
        if self.peers is not None:
            self._share_what_is_over(self.peers)
        groups: dict[Hashable, list[int]] = {}  # what may train together
        for i, configuration in enumerate(self.configurations):
            groups.setdefault((configuration.wave, shape_of(configuration.recipe)), []).append(i)
        left = [i for i in range(len(self.configurations)) if i not in self._over]
        if self._cluster is not None:
            self._hand_out(list(groups.values()), self._cluster)
        else:
            self._load([self.configurations[i].recipe for i in left])
            for numbers in groups.values():
                tasks = self._tasks([i for i in numbers if i not in self._over])
                # The rule is asked as for all of them, so that it says the same where some are over already.
                siblings = max(len(numbers), *(self.configurations[i].siblings for i in numbers))
                for engine, members in self._engines(tasks, siblings):
                    self._train(engine, {i: tasks[i] for i in members})
        if self._errors and all(result.failed and not result.records for result in self._over.values()):
            raise self._errors[0]  # none could be begun: what is wrong is wrong with all of them

    def _hand_out(self, groups: Sequence[Sequence[int]], cluster: Cluster) -> None:
        """Groups to the machines of a cluster, wave by wave, each in as many parts as keep all devices busy."""
        if self.means.replaced:
            raise AskewError(f"--ray: {', '.join(self.means.replaced)} of your own cannot be sent to other machines; "
                             "let the recipe name it, and give the module that files it")
        slots = cluster.slots(self.means.device)
        for wave in dict.fromkeys(self.configurations[numbers[0]].wave for numbers in groups):
            of_wave = [numbers for numbers in groups if self.configurations[numbers[0]].wave == wave]
            parts: list[Part] = []
            for numbers in of_wave:
                left = [(i, replace(self.configurations[i], siblings=len(numbers))) for i in numbers
                        if i not in self._over]
                number = min(len(left), -(-slots // len(of_wave)))
                parts += [left[at::number] for at in range(number)]
            try:
                cluster.train(parts, self.means, lambda i, record: self.tell(i, record, self.configurations[i].recipe),
                              self._part_over, self.check_time)
            finally:
                for i, configuration in enumerate(self.configurations):  # what was begun there and is not over
                    if i not in self._over and configuration.path is not None:
                        with contextlib.suppress(AskewError):
                            self._earlier[i] = RunFolder.open(configuration.path)

    def _part_over(self, part: Part, outcome: list[Result] | Exception) -> None:
        if isinstance(outcome, CONCERNS_ALL):
            raise outcome
        for at, (i, _) in enumerate(part):
            if isinstance(outcome, Exception):
                self._fail(i, outcome)
            elif not outcome[at].interrupted:
                self.end(i, replace(outcome[at], folder=self.configurations[i].path))

    def _share_what_is_over(self, peers: Peers) -> None:
        """The first process alone looks at folders."""
        for i, (records, model, diverged, failed) in peers.first(
                {i: (result.records, result.model, result.diverged, result.failed)
                 for i, result in self._over.items()}).items():
            if not peers.leads:
                self._over[i] = Result(self.configurations[i].recipe, records, model, 0.0, diverged=diverged,
                                       failed=failed)

    @contextlib.contextmanager
    def _failing(self, *numbers: int) -> Iterator[None]:
        """A block whose errors end these configurations, not the others."""
        try:
            yield
        except CONCERNS_ALL:
            raise
        except Exception as error:
            for i in numbers:
                self._fail(i, error)

    def _train(self, engine: Engine, tasks: Mapping[int, Task]) -> None:
        """Together; where an error breaks that off, one by one, so that only those fail that fail alone."""
        try:
            Lockstep(self, engine, tasks).train()
        except BaseException as error:
            if self.peers is not None:  # the others break off where they next wait for this one
                self.peers.tell(error)
                if self.peers.lost is not None and not isinstance(error, CONCERNS_ALL):
                    # torchrun stops those that are left: that is not why it ends.
                    self._fail(next(iter(tasks)), LostError(self.peers.lost))
                    return
            if not isinstance(error, Exception) or isinstance(error, CONCERNS_ALL):  # Ctrl-C and its like
                self._interrupt()
                raise
            if interrupt.came():  # what it raised has come out as another error
                self._interrupt()
                raise KeyboardInterrupt from error
            if len(tasks) == 1:
                self._fail(next(iter(tasks)), error)
                return
            warnings.warn(f"{len(tasks)} configurations could not go on together ({first_line(error)}): one by one",
                          stacklevel=2)
            for i in [i for i in tasks if i not in self._over]:
                for alone, _ in self._engines({i: tasks[i]}, 1):
                    self._train(alone, {i: tasks[i]})

    def _interrupt(self) -> None:
        """Keep what is under way, as far as it can be written; one that cannot keeps no other from it."""
        with shielded():
            for i in list(self.running):
                try:
                    self.leave(i, INTERRUPTED)
                except Exception as error:
                    where = self.configurations[i].path or self.configurations[i].recipe.name
                    warnings.warn(f"{where} could not be kept as it was when it was stopped: {first_line(error)}",
                                  stacklevel=2)

    def _fail(self, i: int, error: Exception) -> None:
        """An error broke a configuration off: keep how far it came."""
        configuration, kept = self.configurations[i], i in self.running
        if isinstance(error, DivergedError) and kept:  # of a piece that found it out itself
            self.leave(i, str(error))
            return
        reason = first_line(error) if isinstance(error, AskewError) else f"{type(error).__name__}: {first_line(error)}"
        failed = Result(configuration.recipe, [], {}, 0.0, folder=configuration.path, failed=reason)
        try:
            if kept:
                self.leave(i, FAILED, failed=reason)
            elif not self._stop_at_failure:
                self.end(i, failed)
        except CONCERNS_ALL:
            raise
        except Exception as second:  # its state cannot be saved, either: the last checkpoint stays
            kept = False
            if not self._stop_at_failure:
                self.end(i, replace(failed, failed=f"{reason}; it could not be saved, either: {first_line(second)}"))
        if self._stop_at_failure:
            if kept and configuration.path is not None:
                error.add_note(f"what there was of the run has been kept; askew resume {configuration.path} goes on "
                               "from there")
            raise error
        self._errors.append(error)
        warnings.warn(f"{configuration.path or configuration.recipe.name} failed: {reason}", stacklevel=2)

    def leave(self, i: int, stopped: str | None = None, together: int = 1, failed: str | None = None) -> None:
        """One that was under way is over: what is finished on disk is so here, too, also where Ctrl-C comes now."""
        if stopped is None:  # it may take as long as a round's evaluation, and may be stopped like that
            self.running[i].evaluate()
        with shielded():
            result = self.running[i].end(stopped, together, failed)
            del self.running[i]
            self.end(i, result)

    def _look(self, i: int, configuration: Configuration, path: Path) -> None:
        """What an earlier session left in a folder."""
        earlier = look(configuration, path, self.means.replaced)
        if isinstance(earlier, Result):
            for record in earlier.records:
                self.tell(i, record, configuration.recipe)
            self.end(i, earlier)
        elif earlier is not None:
            self._earlier[i] = earlier

    def _load(self, recipes: Iterable[Recipe]) -> None:
        """All data before the first round: what is missing should be missed now."""
        for name in dict.fromkeys(str(recipe.data) for recipe in recipes):
            data = self.means.data
            data = registry.build("data", name, data_dir=self.means.data_dir) if data is None else data
            if any(configuration.path is not None for configuration in self.configurations):
                self._prints[name] = print_of_data(data)
            self._data[name] = data.to(available(self.means.device))

    def _tasks(self, numbers: Iterable[int]) -> dict[int, Task]:
        """Of those that can be built; the others have failed."""
        means, tasks = self.means, {}
        for i in numbers:
            recipe = self.configurations[i].recipe
            # A few examples to see what a network takes; training has threads of its own
            with self._failing(i), use_threads(1):
                tasks[i] = build_task(recipe, data=self._data[str(recipe.data)], population=means.population,
                                      model=means.model, device=means.device)
        return tasks

    def _engines(self, tasks: Mapping[int, Task], lanes: int) -> Iterator[tuple[Engine, list[int]]]:
        """Engines for tasks of equal shape, and whom they train at once: all where the engine batches them, else one by
        one."""
        chosen: dict[Hashable, str] = {}  # the rule is asked once for tasks that do not differ in its eyes

        def choice(task: Task, shared: str) -> str:
            alone = self.means.as_alone
            key = (shared, task.cohort_size, examples_per_step(task)) if alone else ()
            if key not in chosen:
                chosen[key] = choose(task, lanes=1 if alone else lanes, processes=self.peers.world if self.peers else 1)
            return chosen[key]

        def needs(i: int) -> tuple[str, str, str]:
            environment = self._earlier[i].environment if i in self._earlier else {}
            name, shared = self.means.engine, untrained(tasks[i])
            # What goes on keeps its engine, also alone where the others were stopped by an error.
            if name in ("auto", DISTRIBUTED):
                if i not in self._engine_of:
                    self._engine_of[i] = environment.get("engine") or choice(tasks[i], shared)
                name = self._engine_of[i]
            # An engine has one network for all that it trains together: what is not trained must be alike.
            needed = name, environment.get("precision", self.means.precision), shared
            return needed if self.peers is None else tuple(self.peers.first(needed))

        groups: dict[tuple[str, str, str], list[int]] = {}
        for i in tasks:
            with self._failing(i), use_threads(1):
                groups.setdefault(needs(i), []).append(i)
        for (name, precision, _), members in groups.items():
            compiled = next((self._earlier[i].was_compiled for i in members if i in self._earlier), None)
            engine: Engine | None = None
            with self._failing(*members), use_threads(1):
                if self.peers is not None:
                    compiled = self.peers.first(compiled)
                engine = make_engine(name, tasks[members[0]], precision, len(members), compiled)
                if self.peers is not None:
                    engine = Distributed(tasks[members[0]], engine, self.peers)
            if engine is not None:
                for part in [members] if engine.batches_lanes else [[i] for i in members]:
                    yield engine, part

    def begin(self, i: int, task: Task, engine: Engine) -> Running:
        if i in self.running:  # it was under way with others, and goes on alone
            self.running[i].simulation.engine = engine
        else:
            self.running[i] = self._begun(i, task, engine)
        return self.running[i]

    def _begun(self, i: int, task: Task, engine: Engine) -> Running:
        configuration, means = self.configurations[i], self.means
        recipe, path = configuration.recipe, configuration.path
        about = {} if path is None else {"data": self._prints[str(recipe.data)],
                                         "population": print_of_population(task.population)}
        if self.peers is not None:
            self.peers.check_same("the recipe", recipe.to_toml())
            self.peers.check_same("the population", print_of_population(task.population))
        goes_on = i in self._earlier if self.peers is None else self.peers.decide(i in self._earlier)
        if goes_on:  # its start lies behind: a warm-up need not be trained again
            simulation = Simulation(task, engine, start=task.fresh)
            running = (Running.from_checkpoint(simulation, recipe, self._earlier[i], about) if i in self._earlier
                       else Running(simulation, recipe))
            if self.peers is not None:
                running.spread(self.peers)
            for record in running.records:
                self.tell(i, record, recipe)
            return running
        with use_threads(threads_for(task, engine).training):
            start = self._start(task)
        simulation = Simulation(task, engine, start=start)
        if path is None:
            return Running(simulation, recipe)
        check_lasting(task, simulation.state)
        environment = describe_environment(means.device, engine=engine.name,
                                           compiled=getattr(engine, "compiled", False),
                                           training_threads=simulation.threads.training, precision=means.precision,
                                           data_dir=means.data_dir, replaced=means.replaced,
                                           **({"processes": self.peers.world} if self.peers else {}))
        folder = RunFolder.create(path, recipe, environment, overwrite=configuration.overwrite or configuration.go_on)
        return Running(simulation, recipe, folder, about=about)

    def _start(self, task: Task) -> ModelState:
        """The first weights; one start for all that would have the same."""
        start: Start = registry.build("start", task.recipe.start)
        ctx = start_context(task)
        if start.depends_on is None:
            return first_weights(start, ctx)
        key = str(task.recipe.start), start.depends_on(ctx)
        if key not in self._starts:
            self._starts[key] = first_weights(start, ctx)
        return self._starts[key]

    def tell(self, i: int, record: Record, recipe: Recipe) -> None:
        if self._on_round is not None:
            with _of_the_caller():
                self._on_round(i, record, recipe)

    def end(self, i: int, result: Result) -> None:
        data = self.means.data
        named = result if data is None else replace(result, data_name=data.name)
        self._over[i] = named if self._keep else replace(named, simulation=None)
        if self._on_end is not None:
            with _of_the_caller():
                self._on_end(i, self._over[i])

    def check_time(self) -> None:
        interrupt.check()
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise KeyboardInterrupt

    def result(self, i: int) -> Result:
        """What became of a configuration; one that was not reached has what an earlier session left."""
        if i in self._over:
            return self._over[i]
        recipe, folder, records, seconds = self.configurations[i].recipe, self._earlier.get(i), [], 0.0
        if folder is not None:
            with contextlib.suppress(AskewError):
                records, seconds = folder.records(), folder.seconds
        return Result(recipe, records, {}, seconds, interrupted=True, folder=self.configurations[i].path)

"""Configurations that train at once, round by round."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from askew.core.errors import DivergedError
from askew.core.interrupt import shielded
from askew.core.recipe import Recipe
from askew.engine.peers import Peers
from askew.engine.protocol import Engine
from askew.engine.task import Task
from askew.engine.threads import use_threads
from askew.rounds.record import Record
from askew.rounds.round import one_round
from askew.rounds.simulation import Launched, Simulation
from askew.runs.configuration import Means
from askew.runs.pace import Pace
from askew.runs.running import Running


class Course(Protocol):
    """Whoever keeps the books of all configurations: the driver."""

    means: Means
    peers: Peers | None

    def begin(self, i: int, task: Task, engine: Engine) -> Running:
        """One under way, from its start, its checkpoint, or where it was."""

    def leave(self, i: int, stopped: str | None = None, together: int = 1) -> None:
        """One that was under way is over."""

    def tell(self, i: int, record: Record, recipe: Recipe) -> None:
        """A round is done."""

    def check_time(self) -> None:
        """Raise KeyboardInterrupt where it is time to stop."""


class Lockstep:
    """Configurations that train at once, round by round; one leaves when it is finished or diverges."""

    def __init__(self, course: Course, engine: Engine, tasks: Mapping[int, Task]) -> None:
        self._course, self._engine, self._tasks = course, engine, tasks
        self._running: dict[int, Running] = {}
        self._ahead: dict[int, Launched] = {}  # the coming round, where the device has it already

    def train(self) -> None:
        pace = Pace(self._course.means.checkpoint_every)
        for i, task in self._tasks.items():
            self._course.check_time()
            self._running[i] = self._course.begin(i, task, self._engine)
        while self._unfinished():
            peers = self._course.peers
            # Before the first round, too: a start may have been trained.
            if pace.due if peers is None else peers.decide(pace.due):
                began = time.monotonic()
                for running in self._running.values():
                    running.save()
                pace.saved(time.monotonic() - began)
            self._course.check_time()
            self._round()
            pace.round_done()

    def _unfinished(self) -> bool:
        """Whether some are left when those at their last round have gone."""
        for i in [i for i, running in self._running.items() if running.simulation.finished]:
            self._leave(i)
        return bool(self._running)

    def _leave(self, i: int, stopped: str | None = None) -> None:
        del self._running[i]
        self._course.leave(i, stopped, len(self._tasks))

    def _round(self) -> None:
        """One round of all; of those that lag behind, where some do: a step has one round number, for the rates'
        decay."""
        simulations = {i: running.simulation for i, running in self._running.items()}
        last = min(simulation.round for simulation in simulations.values())
        level = {i: simulation for i, simulation in simulations.items() if simulation.round == last}
        launched = {i: self._ahead[i] for i in level} if level.keys() <= self._ahead.keys() else self._launch(level)
        coming = {i: simulation for i, simulation in level.items() if simulation.foresees(launched[i])}
        # Those that wait for the others join them in the next round: it cannot be begun without them.
        self._ahead = self._launch(coming, launched) if coming and len(level) == len(simulations) else {}
        for i, simulation in level.items():
            try:
                record = simulation.complete(launched[i])
            except DivergedError as error:
                self._leave(i, str(error))
            else:
                with shielded():
                    self._running[i].add(record)
                self._course.tell(i, record, self._running[i].recipe)

    def _launch(self, simulations: Mapping[int, Simulation],
                behind: Mapping[int, Launched] | None = None) -> dict[int, Launched]:
        """Hand a round of each to the device, all at the same one.

        Args:
            behind: the rounds before them, where they are not complete yet.
        """
        with use_threads(max(simulation.threads.training for simulation in simulations.values())):
            gatherings = {i: simulation.begin(behind[i] if behind else None) for i, simulation in simulations.items()}
            made = one_round(list(gatherings.values()), self._engine)
            return {i: simulations[i].launched(gathering, after)
                    for (i, gathering), after in zip(gatherings.items(), made, strict=True)}

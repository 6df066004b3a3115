"""A recipe tried on this machine: SuperLink and SuperNodes as processes with TLS and node keys, beside a simulation."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.data.locate import below
from askew.engine.build import build_task
from askew.flower.app_folder import write_app
from askew.flower.local_federation import LocalFederation
from askew.flower.preparation import prepare
from askew.flower.server_task import check_recipe
from askew.runs.result import Result
from askew.runs.run import run

ROUND_S = 120.0  # of one round of real processes at most
MOST_NODES = 16  # processes of some hundred MB each


@dataclass(frozen=True)
class Trial:
    """What came of it.

    Args:
        records: of the deployment.
        simulated: the same recipe, by the reference engine.
        seconds: of the deployment: until all nodes are registered, and all its rounds.
    """

    records: list[dict[str, Any]]
    simulated: Result
    start_s: float
    run_s: float

    @property
    def largest_difference(self) -> float:
        """Between the two curves."""
        headline = self.simulated.headline
        pairs = zip(self.records, self.simulated.records, strict=True)
        return max(abs(one[headline] - other[headline]) for one, other in pairs)


def try_recipe(recipe: Recipe, say: Callable[[str], None], on_round: Callable[[dict[str, Any]], None],
               keep: Path | None = None, modules: Sequence[str] = ()) -> Trial:
    """Deploy a recipe on this machine, each of its clients a node, and simulate it.

    Args:
        say: told what is being done.
        on_round: called with each record of the deployment.
        keep: a new folder for app, keys, logs and run, which stay there; else they go.
        modules: as `write_app` takes them.
    """
    recipe = prepare(recipe.replace(data=below(Path.cwd(), recipe.data))).recipe  # nodes run in another folder
    check_recipe(recipe, parts=True)
    clients = build_task(recipe).num_clients
    if clients > MOST_NODES:
        raise AskewError(f"population: {clients} clients would be {clients} processes here; try it with at most "
                         f"{MOST_NODES}")
    simulated = run(recipe, engine="sequential", progress=False)
    folder = Path(tempfile.mkdtemp(prefix="askew-deploy-")) if keep is None else keep
    try:
        app = folder if keep is not None else folder / "app"
        write_app(app, recipe, parts=True, modules=modules)
        began = time.monotonic()
        with LocalFederation(app) as federation:
            say("starting the SuperLink (TLS, node keys)")
            federation.start_link()
            for k in range(clients):
                say(f"registering and starting node {k + 1} of {clients}")
                federation.add_node(f"node-{k}", {"part": k, "report-labels": True})
            start_s = time.monotonic() - began
            number = federation.run({"clients": clients, "min-clients": clients, "data": "recipe",
                                     "deadline": ROUND_S, "out": str(app / "run")})
            say("running")
            records = federation.wait(number, app / "run", ROUND_S * (recipe.rounds + 2), on_round)
            if len(records) < len(simulated.records):
                raise AskewError(f"the deployment stopped after {len(records)} rounds: {federation.last_words(number)}")
            return Trial(records, simulated, start_s, time.monotonic() - began - start_s)
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)

"""Deployments of real processes (SuperLink, SuperNodes, TLS, node keys, on loopback): equal curves, and faults.

    python benchmarks/deploy.py equality [--out results/deploy/equality.json]
    python benchmarks/deploy.py faults [--out results/deploy/faults.json]
    python benchmarks/deploy.py tables    # of what is stored, as docs/deploy.md has them

`equality`: five recipes on the embedded digits, 5 clients, 5 rounds, beside the reference engine. `faults`: what
happens when a node or the server fails, how much accuracy it costs after the last round, and how long until the next
round is done. Seconds hang on the machine: each message starts a Python process with torch on its node.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import askew
from askew.core import registry
from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.flower.app_folder import PACKAGE, write_app
from askew.flower.local_federation import LocalFederation
from askew.runs.environment import describe_environment

RESULTS = Path(__file__).parents[1] / "results" / "deploy"
RECIPES = ("fedavg", "fednnnn", "fedcd(milestones=[1, 3])", "scaffold", "server_training")
CLIENTS, ROUNDS = 5, 5
FAULT_CLIENTS, FAULT_ROUNDS = 4, 3
ROUND_S = 240.0  # of a round without a fault, on a busy machine


def say(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")


def recipe_of(method: str, clients: int, rounds: int) -> Recipe:
    base = Recipe(population=f"dirichlet(clients={clients}, alpha=0.5)", rounds=rounds)
    recipe: Recipe = registry.build("method", method, base=base)
    return recipe


class Site:
    """A federation in a folder, on which one recipe after the other is run."""

    def __init__(self, folder: Path, clients: int) -> None:
        self.app, self.clients, self.runs = folder / "app", clients, 0
        write_app(self.app, recipe_of("fedavg", clients, 1))
        shutil.copy(Path(__file__).with_name("deploy_faulty_client.py"), self.app / PACKAGE / "client_app.py")
        self.federation = LocalFederation(self.app)
        self.federation.start_link()
        for k in range(clients):
            self.federation.add_node(f"node-{k}", {"part": k, "report-labels": True})

    def begin(self, recipe: Recipe, **config: Any) -> tuple[str, Path]:
        self.runs += 1
        file, out = self.app / f"recipe-{self.runs}.toml", self.app / f"run-{self.runs}"
        file.write_text(recipe.to_toml())
        told = {"recipe": str(file), "out": str(out), "clients": self.clients, "data": "recipe", "deadline": ROUND_S,
                **config}
        return self.federation.run(told), out

    def fault(self, node: int, what: str | None) -> None:
        file = self.app / "nodes" / f"node-{node}" / "fault"
        file.write_text(what) if what else file.unlink(missing_ok=True)


def equality(site: Site) -> dict[str, Any]:
    rows = {}
    for method in RECIPES:
        recipe = recipe_of(method, CLIENTS, ROUNDS)
        began = time.monotonic()
        run, out = site.begin(recipe)
        records = site.federation.wait(run, out, ROUND_S * (2 * ROUNDS + 2))
        seconds = time.monotonic() - began
        theirs = {engine: [record["accuracy"] for record in askew.run(recipe, engine=engine).records]
                  for engine in ("sequential", "vectorised", "parallel")}
        ours = [record["accuracy"] for record in records]
        rows[method] = {"flower": ours, **theirs, "seconds": round(seconds, 1), "largest_difference": {
            engine: float(np.abs(np.array(ours) - curve).max()) for engine, curve in theirs.items()}}
        say(f"{method}: {rows[method]['largest_difference']} in {seconds:.0f} s")
    return {"clients": CLIENTS, "rounds": ROUNDS, "rows": rows}


def faults(site: Site) -> dict[str, Any]:
    federation, last = site.federation, FAULT_CLIENTS - 1
    recipe = recipe_of("scaffold", FAULT_CLIENTS, FAULT_ROUNDS)
    plain = [record["accuracy"] for record in askew.run(recipe, engine="sequential").records]
    rows: list[dict[str, Any]] = []

    def row(fault: str, happened: str, curve: list[float], seconds: float | None) -> None:
        rows.append({"fault": fault, "happened": happened, "curve": curve,
                     "accuracy_lost": None if len(curve) < FAULT_ROUNDS else round(plain[-1] - curve[-1], 4),
                     "seconds_to_recover": None if seconds is None else round(seconds, 1)})
        say(f"{fault}: {rows[-1]}")

    def left_out(run: str) -> str:
        lines = [line.partition("askew: ")[2] for line in federation.log_of(run).splitlines()
                 if "is left out" in line or "has lost its memory" in line]
        return "; ".join(dict.fromkeys(lines)) or "nothing was left out"

    def with_fault(name: str, begin: Callable[[], None], **config: Any) -> None:
        """A run of which one client misbehaves in round 2."""
        begin()
        run, out = site.begin(recipe, **{"min-clients": FAULT_CLIENTS - 1, **config})
        federation.wait(run, out, ROUND_S * 3, rounds=1)
        began = time.monotonic()
        federation.wait(run, out, ROUND_S * 3, rounds=2)
        seconds = time.monotonic() - began
        records = federation.wait(run, out, ROUND_S * 3)
        site.fault(last, None)
        row(name, left_out(run), [record["accuracy"] for record in records], seconds)

    with_fault("none", lambda: None)
    for kind, name in (("nan", "a client sends NaN"), ("shapes", "wrong shapes"), ("truncated", "cut off half-way"),
                       ("long", "an update 1000 times as long")):
        with_fault(name, lambda kind=kind: site.fault(last, f"{kind} 1"))
    with_fault("slow past the deadline (90 s)", lambda: site.fault(last, "slow 1"), deadline=90.0)

    rows.append(killed(site))

    run, out = site.begin(recipe)
    federation.wait(run, out, ROUND_S * 3, rounds=1)
    began = time.monotonic()
    federation.kill_link()
    federation.start_link()
    run = federation.run({"out": str(out), "resume": True, "clients": FAULT_CLIENTS, "data": "recipe",
                          "deadline": ROUND_S})
    (out / "summary.json").unlink(missing_ok=True)
    federation.wait(run, out, ROUND_S * 3, rounds=2)
    seconds = time.monotonic() - began
    records = federation.wait(run, out, ROUND_S * 3)
    row("the server killed after round 1, started again, resumed", left_out(run),
        [record["accuracy"] for record in records], seconds)

    run, out = site.begin(recipe)
    federation.wait(run, out, ROUND_S * 3, rounds=1)
    began = time.monotonic()
    shutil.rmtree(site.app / "nodes" / f"node-{last}" / "memory")
    records = federation.wait(run, out, ROUND_S * 3)
    row("a node loses its memory after round 1", left_out(run), [record["accuracy"] for record in records], None)

    return {"clients": FAULT_CLIENTS, "rounds": FAULT_ROUNDS, "recipe": recipe.name, "reference": plain,
            "rows": rows + refusals(site)}


def killed(site: Site) -> dict[str, Any]:
    """A node killed when it has the message of a round and has not replied."""
    federation, last = site.federation, f"node-{FAULT_CLIENTS - 1}"
    recipe = recipe_of("scaffold", FAULT_CLIENTS, FAULT_ROUNDS)
    plain = [record["accuracy"] for record in askew.run(recipe, engine="sequential").records]
    run, out = site.begin(recipe, **{"min-clients": FAULT_CLIENTS - 1, "deadline": 90.0})
    while f"[RUN {run}, ROUND 1]" not in federation.lines(last):  # Flower's name for our second round
        time.sleep(0.1)
    federation.kill(last)
    began = time.monotonic()
    federation.wait(run, out, ROUND_S * 3, rounds=2)
    seconds = time.monotonic() - began
    records = federation.wait(run, out, ROUND_S * 3)
    began = time.monotonic()
    federation.restart_node(last)
    say(f"the node is back after {time.monotonic() - began:.0f} s")
    dropped = "; ".join(f"round {record['round']}: {record['dropped_clients']}" for record in records
                        if "dropped_clients" in record)
    return {"fault": "a node killed in mid-round (deadline 90 s), not started again",
            "happened": f"left out: {dropped}", "curve": [record["accuracy"] for record in records],
            "accuracy_lost": round(plain[-1] - records[-1]["accuracy"], 4), "seconds_to_recover": round(seconds, 1)}


def refusals(site: Site) -> list[dict[str, Any]]:
    """Nodes that must not take part, while a run waits for one client more than there are."""
    federation, rows = site.federation, []
    began = time.monotonic()
    for name, options in (("unknown-key", {"register": False}),
                          ("wrong-authority", {"authority": site.app / "nodes" / "node-0" / "ca.crt"})):
        federation.add_node(name, {"part": 0}, **options)
    while time.monotonic() - began < 60 and not all(
            federation.nodes[name].poll() is not None for name in ("unknown-key", "wrong-authority")):
        time.sleep(0.5)
    run, out = site.begin(recipe_of("fedavg", site.clients, 1), clients=site.clients + 1, wait=60.0)
    records = federation.wait(run, out, ROUND_S * 3)
    for name in ("unknown-key", "wrong-authority"):
        said = [line for line in federation.lines(name).splitlines() if line.strip()]
        ended = federation.nodes[name].poll()
        state = "still trying" if ended is None else f"exit code {ended}"
        rows.append({"fault": f"a node with {name.replace('-', ' ')}", "accuracy_lost": None,
                     "happened": f"it is refused ({state}); the run has {records[-1]['clients']} clients",
                     "seconds_to_recover": None, "said": said[-3:]})
        say(str(rows[-1]))
    return rows


def equality_table(stored: dict[str, Any]) -> str:
    """The largest difference of the accuracy curve on Flower from that of each engine."""
    engines = list(next(iter(stored["rows"].values()))["largest_difference"])
    lines = [f"| recipe | accuracy after round {stored['rounds']} | {' | '.join(engines)} |",
             "|---|---|" + "---|" * len(engines)]
    for method, row in stored["rows"].items():
        differences = " | ".join(f"{row['largest_difference'][engine]:.2g}" for engine in engines)
        lines.append(f"| `{method}` | {row['flower'][-1]:.4f} | {differences} |")
    return "\n".join(lines)


def faults_table(stored: dict[str, Any]) -> str:
    """Fault, what happened, accuracy lost after the last round, seconds until the round was done."""
    lines = ["| fault | what happened | accuracy lost, points | seconds to recover |", "|---|---|---|---|"]
    for row in stored["rows"]:
        lost, seconds = row["accuracy_lost"], row["seconds_to_recover"]
        happened = re.sub(r" \(node \d+\)| \(Error: [^;]*", "", row["happened"])
        lines.append(f"| {row['fault']} | {happened} | {'' if lost is None else f'{100 * lost:.1f}'} | "
                     f"{'' if seconds is None else f'{seconds:.0f}'} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["equality", "faults", "killed", "refusals", "tables"])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    out = given.out or RESULTS / f"{given.what}.json"
    if given.what == "tables":
        for what, table in (("equality", equality_table), ("faults", faults_table)):
            sys.stdout.write(table(json.loads((RESULTS / f"{what}.json").read_text())) + "\n\n")
        return
    with tempfile.TemporaryDirectory(prefix="askew-deploy-", ignore_cleanup_errors=True) as folder:
        site = Site(Path(folder), {"equality": CLIENTS, "refusals": 2}.get(given.what, FAULT_CLIENTS))
        try:
            found = {"equality": equality, "faults": faults, "killed": lambda site: {"rows": [killed(site)]},
                     "refusals": lambda site: {"rows": refusals(site)}}[given.what](site)
        except AskewError:
            for file in sorted((site.app / "logs").iterdir()):
                say(f"{file.name}: {file.read_text(errors='replace')[-2000:]}")
            raise
        finally:
            site.federation.close()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"command": f"python benchmarks/deploy.py {given.what}", "flwr": version("flwr"), **found,
                               "environment": describe_environment("cpu")}, indent=1) + "\n")


if __name__ == "__main__":
    main()

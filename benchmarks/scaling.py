"""How cost grows: with configurations trained together, with the cohort, the population and the size of the network.

    python benchmarks/scaling.py [--json FILE] [--plot FILE]

Each row is measured in a process of its own, so that peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BATCH = 10
WIDTH = 64  # of the MLP 64-64-10 of W3


def _sweep(configurations: int, engine: str) -> dict[str, Any]:
    """So many learning rates of the small MLP on the digits, 10 rounds each."""
    from askew.core.recipe import Recipe
    from askew.runs.sweep import grid, sweep

    recipes = grid(Recipe(rounds=10, model=f"mlp(hidden=[{WIDTH}])", batch_size=BATCH),
                   {"sgd.lr": [0.01 * 1.2 ** (i * 24 / configurations) for i in range(configurations)]})
    sweep(recipes[:2], engine=engine)  # warm up
    began = time.perf_counter()
    if engine == "vectorised":
        sweep(recipes, engine=engine)
    else:
        for recipe in recipes:
            sweep([recipe], engine=engine)
    return {"seconds": time.perf_counter() - began, "seconds_each": (time.perf_counter() - began) / configurations}


def task_of(clients: int, cohort: int, width: int = WIDTH, device: str = "cpu", method: str = "fedavg",
            evaluated: bool = False, rounds: int = 10**9) -> Any:
    """W3's clients (100 samples of 64 numbers, one hidden layer, B 10), with that many of them in a round."""
    import numpy as np
    import torch

    from askew.core import registry
    from askew.core.dataset import Dataset, Examples
    from askew.core.population import Ownership, Population
    from askew.core.recipe import Recipe
    from askew.engine.build import build_task

    examples = 100_000  # clients beyond a thousand share them: owning is two integers an example, not the data
    x, y = torch.randn(examples, 64, generator=torch.Generator().manual_seed(0)), torch.arange(examples) % 10
    data = Dataset("W3", Examples(x, y), Examples(x[:100], y[:100]), tuple(map(str, range(10))))
    offsets = np.arange(clients + 1, dtype=np.int64) * 100
    owned = Ownership((np.arange(clients * 100, dtype=np.int64) * 7) % examples, offsets)
    counts = np.full((clients, 10), 10)
    population = Population(owned, counts, scheme="W3")
    recipe = Recipe(fraction=cohort / clients, evaluate_every=1 if evaluated else 10**9, rounds=rounds,
                    model=f"mlp(hidden=[{width}])", batch_size=BATCH)
    return build_task(registry.find("method", method)(recipe), data=data.to(torch.device(device)),
                      population=population, device=device)


def _rounds(clients: int, cohort: int, width: int = WIDTH, engine: str = "vectorised",
            rounds: int = 5) -> dict[str, Any]:
    """How long they take."""
    from askew.engine.choice import make_engine
    from askew.rounds.simulation import Simulation

    task = task_of(clients, cohort, width)
    simulation = Simulation(task, make_engine(engine, task, "fp32"))
    before = _peak()
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        simulation.advance()
        times.append(time.perf_counter() - began)
    return {"round_s": statistics.median(times[1:]), "peak_mib": _peak(), "before_mib": before,
            "weights": sum(p.numel() for p in task.module.parameters())}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


ROWS: dict[tuple[str, str, int], Any] = {  # (what grows, engine, how much)
    **{("configurations", "vectorised", n): lambda n=n: _sweep(n, "vectorised") for n in (1, 3, 8, 24, 96)},
    **{("configurations", "sequential", n): lambda n=n: _sweep(n, "sequential") for n in (1, 24)},
    **{("cohort of 10,000 clients", "vectorised", n): lambda n=n: _rounds(10_000, n, rounds=3)
       for n in (10, 100, 1_000, 10_000)},
    **{("clients, 100 a round", "vectorised", n): lambda n=n: _rounds(n, 100)
       for n in (1_000, 10_000, 100_000, 1_000_000)},
    **{("width of the MLP", engine, n): lambda n=n, engine=engine: _rounds(1_000, 100, n, engine)
       for engine in ("vectorised", "sequential") for n in (16, 64, 256, 1_024)},
}


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Four panels on logarithmic axes: what a round (or a configuration) costs over what grows."""
    from matplotlib.ticker import LogLocator, NullLocator

    from askew.report.canvas import save_figure
    from askew.report.palette import class_colours

    def draw(figure: Any) -> None:
        names = list(dict.fromkeys(row["what"] for row in rows))
        panels = figure.subplots(1, len(names))
        colours = dict(zip(("vectorised", "sequential"), class_colours(3)[::2], strict=True))
        for axes, name in zip(panels, names, strict=True):
            for engine, colour in colours.items():
                mine = [row for row in rows if row["what"] == name and row["engine"] == engine]
                if mine:
                    axes.plot([row["at"] for row in mine],
                              [1e3 * row.get("round_s", row.get("seconds_each")) for row in mine], "o-", color=colour,
                              markersize=4, linewidth=1.4, label=engine)
            axes.set(xscale="log", yscale="log", xlabel=name,
                     ylabel="ms a configuration" if name == "configurations" else "ms a round")
            low, high = axes.get_ylim()
            if high < 10 * low:  # what hardly grows should look like it
                axes.set_ylim((low * high / 10) ** 0.5, (low * high * 10) ** 0.5)
            for axis, marks in ((axes.xaxis, (1.0,)), (axes.yaxis, (1.0, 2.0, 5.0))):
                axis.set_major_locator(LogLocator(subs=marks))
                axis.set_minor_locator(NullLocator())
                axis.set_major_formatter("{x:,.0f}")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False)

    save_figure(path, draw, (11, 3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--row", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row is not None:
        print(json.dumps(list(ROWS.values())[options.row]()))  # noqa: T201
        return
    from askew.runs.environment import describe_environment

    rows: list[dict[str, Any]] = []
    for number, (what, engine, at) in enumerate(ROWS):
        done = subprocess.run([sys.executable, str(HERE / "scaling.py"), "--row", str(number)], capture_output=True,
                              text=True, check=True)
        rows.append({"what": what, "engine": engine, "at": at, **json.loads(done.stdout.splitlines()[-1])})
        print({key: round(value, 4) if isinstance(value, float) else value  # noqa: T201
               for key, value in rows[-1].items()}, flush=True)
    found = {(row["what"], row["engine"], row["at"]): row for row in rows}
    one_by_one, together = (found["configurations", engine, 24]["seconds"] for engine in ("sequential", "vectorised"))
    many, few = (found["cohort of 10,000 clients", "vectorised", n]["peak_mib"] for n in (10_000, 1_000))
    most, least = (found["clients, 100 a round", "vectorised", n]["round_s"] for n in (1_000_000, 1_000))
    ratios = {"together": one_by_one / together, "memory_10000_to_1000": many / few,
              "time_1000000_to_1000_clients": most / least}
    print({key: round(value, 2) for key, value in ratios.items()})  # noqa: T201
    if options.json:
        result = {"environment": describe_environment("cpu"), "rows": rows, "ratios": ratios}
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()

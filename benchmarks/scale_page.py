"""The figures and tables of docs/scaling.md: measures, fits a small model of a round's time, and applies it.

    python benchmarks/scale_page.py               measure (some minutes), then fit and draw
    python benchmarks/scale_page.py --from-files  fit and draw what results/scale holds

    time of a round = t0 + n (c0 + c1 P)                     one process, n clients, P weights
                    + x0 + 8 P / s                           several: what each does for the exchange
                    + 2 (W - 1) / W 8 P / b                  their sum over a network of b bytes per second

n is the number of clients of the busiest process, as far as a random draw can be foreseen. t0, c0, c1 and x0 are fitted
to processor time, of which other programs on the machine take little; s is the speed of a sum that two processes
have taken here. Measured and extrapolated numbers never stand in one table or picture.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = ROOT / "results" / "scale"
PROCESSES, MILLION, MODEL = (RESULTS / f"{name}.json" for name in ("cpu-processes", "million-clients", "model"))
COHORT_ROWS, WIDTH_ROWS = "clients per round, of 10,000", "width of the MLP, 100 clients"
GIGABIT = 1e9 / 8  # bytes per second
WORKLOAD_CLIENTS = {"W1": 50, "W2": 10, "W3": 100}  # per round, of
POPULATIONS = {"W1": 1_000, "W2": 100, "W3": 1_000}


def busiest(clients: int, population: int, workers: int) -> float:
    """Clients of the worker that has most of those drawn: the mean, and what the largest of normal numbers exceeds it
    by; two of them by 0.8 standard deviations."""
    left = (population - clients) / max(1, population - 1)
    spread = math.sqrt(clients / workers * (1 - 1 / workers) * left)
    return clients / workers + spread * (0.8 if workers == 2 else math.sqrt(2 * math.log(workers)))


def busiest_of(row: dict[str, Any]) -> float:
    """Of a measured row."""
    return busiest(*((row["at"], 10_000) if row["what"] == COHORT_ROWS else (100, 1_000)), row["processes"])


def fit(rows: list[dict[str, Any]], speed: float) -> dict[str, float]:
    """Non-negative least squares on relative errors.

    Args:
        speed: of a sum, in bytes per second.
    """
    from scipy.optimize import nnls

    terms, seconds = [], []
    for row in rows:
        n, weights, several = busiest_of(row), row["weights"], float(row["processes"] > 1)
        terms.append([1.0, n, n * weights, several])
        seconds.append(row["processor_s"] - several * 8 * weights / speed)
    scaled = np.array(terms) / np.array(seconds)[:, None]
    size = scaled.max(axis=0)
    values, _ = nnls(scaled / size, np.ones(len(rows)))
    return {**dict(zip(("t0", "c0", "c1", "x0"), (values / size).tolist(), strict=True)), "speed": speed}


def speed_of_sums(rows: list[dict[str, Any]]) -> float:
    """Bytes per second of a large sum between two processes; each number is sent and received once."""
    largest = max((row for row in rows if row["what"] == "exchange"), key=lambda row: row["bytes"])
    return largest["bytes"] / largest["seconds_fastest"]


def predicted(model: dict[str, float], n: float, weights: int, workers: int, per_second: float = math.inf) -> float:
    """Seconds of a round; of a processor, where the network takes none."""
    one = model["t0"] + n * (model["c0"] + model["c1"] * weights)
    return one if workers == 1 else one + exchanged(model, weights, workers, per_second)


def exchanged(model: dict[str, float], weights: int, workers: int, per_second: float) -> float:
    return model["x0"] + 8 * weights / model["speed"] + 2 * (workers - 1) / workers * 8 * weights / per_second


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)])


def ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.1f}" if seconds < 0.1 else f"{1e3 * seconds:,.0f}"


def measured_tables(rows: list[dict[str, Any]], model: dict[str, float]) -> list[str]:
    by = {(row["what"], row["at"], row["processes"], row["threads"]): row for row in rows}
    lines = []
    for what, ats in ((COHORT_ROWS, (10, 100, 1_000, 10_000)), (WIDTH_ROWS, (16, 64, 256, 1_024))):
        body = []
        for at in ats:
            one, two = by[what, at, 1, 1], by[what, at, 2, 1]
            guess = [predicted(model, busiest_of(row), row["weights"], row["processes"]) for row in (one, two)]
            body.append([f"{at:,}", f"{one['weights']:,}", ms(one["processor_s"]), ms(two["processor_s"]),
                         f"{one['processor_s'] / two['processor_s']:.2f}", ms(one["round_s"]), ms(two["round_s"]),
                         f"{one['round_s'] / two['round_s']:.2f}", " / ".join(ms(g) for g in guess)])
        lines.append(table([what, "weights", "processor, 1", "2 (busiest)", "ratio", "clock, 1", "2", "ratio",
                            "model, 1 / 2"], body))
    body = []
    for name in ("W1", "W2", "W3"):
        one, threads, two = (by["workload", name, *kind] for kind in ((1, 1), (1, 2), (2, 1)))
        body.append([name, one["engine"], ms(one["processor_s"]), ms(two["processor_s"]),
                     f"{one['processor_s'] / two['processor_s']:.2f}", ms(one["round_s"]),
                     f"{ms(threads['round_s'])} ({threads['engine']})", ms(two["round_s"]),
                     f"{one['round_s'] / two['round_s']:.2f}"])
    lines.append(table(["workload", "engine", "processor, 1", "2 (busiest)", "ratio", "clock, 1", "1 with 2 threads",
                        "2", "ratio"], body))
    sums = [[f"{row['at']:,}", f"{row['bytes'] / 1e6:,.2f}", ms(row["seconds"]), ms(row["seconds_fastest"])]
            for row in rows if row["what"] == "exchange"]
    lines.append(table(["numbers summed by 2 processes", "MB", "ms, median", "ms, fastest"], sums))
    return lines


def million_table(rows: list[dict[str, Any]]) -> str:
    return table(["method", "clients", "processor, ms per round", "clock, ms per round", "population, MiB",
                  "more during the rounds, MiB", "clients that remember", "of that their memory, MiB"],
                 [[row["method"], f"{row['clients']:,}", ms(row["processor_s"]), ms(row["round_s"]),
                   f"{row['population_mib']:,.0f}", f"{row['rounds_mib']:,.0f}", f"{row['rows_of_memory']:,}",
                   f"{row['memory_mib']:,.0f}"] for row in rows])


def extrapolated_table(rows: list[dict[str, Any]], model: dict[str, float]) -> str:
    """The workloads with more workers, over networks: per-client time as measured in one process, the rest by the
    model."""
    body = []
    for name, clients in WORKLOAD_CLIENTS.items():
        one = next(row for row in rows if (row["what"], row["at"], row["processes"], row["threads"]) == (
            "workload", name, 1, 1))
        each = max(0.0, one["processor_s"] - model["t0"]) / clients
        for scale in (1, 100):
            cohort = scale * clients
            alone = model["t0"] + cohort * each
            cells = []
            for workers in (8, 64):
                for gigabits in (1, 10, 100):
                    most = busiest(cohort, scale * POPULATIONS[name], workers)
                    round_s = (model["t0"] + most * each
                               + exchanged(model, one["weights"], workers, gigabits * GIGABIT))
                    cells.append(f"{alone / round_s:.1f}")
            body.append([f"{name}, {one['weights']:,} weights", f"{cohort:,}", ms(alone), *cells])
    return table(["workload", "clients per round", "1 worker, ms", *(f"{w} workers, {g} Gbit/s" for w in (8, 64)
                                                                    for g in (1, 10, 100))], body)


def draw_measured(rows: list[dict[str, Any]], model: dict[str, float], path: Path) -> None:
    from askew.report.canvas import save_figure
    from askew.report.palette import class_colours

    colours = dict(zip((1, 2), class_colours(3)[::2], strict=True))

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, 2)
        for axes, what in zip(panels, (COHORT_ROWS, WIDTH_ROWS), strict=True):
            for workers, colour in colours.items():
                some = [row for row in rows if row["what"] == what and row["processes"] == workers
                        and row["threads"] == 1]
                ats = [row["at"] for row in some]
                axes.plot(ats, [1e3 * row["processor_s"] for row in some], "o", color=colour, markersize=4,
                          label=f"{workers} process{'es' * (workers > 1)}, measured")
                axes.plot(ats, [1e3 * predicted(model, busiest_of(row), row["weights"], workers) for row in some], "-",
                          color=colour, linewidth=1, label="fitted")
            axes.set(xscale="log", yscale="log", xlabel=what, ylabel="processor time per round, ms")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=4, frameon=False)

    save_figure(path, draw, (9, 3.2))


def draw_extrapolated(model: dict[str, float], path: Path) -> None:
    from askew.report.canvas import save_figure
    from askew.report.palette import class_colours

    workers = 2 ** np.arange(0, 9)

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, 1)
        for colour, (cohort, weights) in zip(class_colours(4), ((100, 4_810), (10_000, 4_810), (100, 76_810),
                                                               (10_000, 76_810)), strict=True):
            alone = predicted(model, cohort, weights, 1, 10 * GIGABIT)
            times = [predicted(model, busiest(cohort, 10 * cohort, int(w)), weights, int(w), 10 * GIGABIT)
                     for w in workers]
            axes.plot(workers, alone / np.array(times), "-", color=colour,
                      label=f"{cohort:,} clients, {weights:,} weights")
        axes.plot(workers, workers, ":", color="grey", linewidth=1)
        axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="times as fast as one: extrapolated, 10 Gbit/s")
        axes.legend(frameon=False, fontsize=8)

    save_figure(path, draw, (6, 4))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from-files", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if not options.from_files:
        for script, file in (("million_clients.py", MILLION), ("distributed.py", PROCESSES)):
            subprocess.run([sys.executable, str(HERE / script), "--json", str(file)], check=True)
    measured = json.loads(PROCESSES.read_text())
    rows, million = measured["rows"], json.loads(MILLION.read_text())["rows"]
    fitted = [row for row in rows if row["what"] in (COHORT_ROWS, WIDTH_ROWS) and row["threads"] == 1]
    model = fit(fitted, speed_of_sums(rows))
    errors = [abs(predicted(model, busiest_of(row), row["weights"], row["processes"]) / row["processor_s"] - 1)
              for row in fitted]
    MODEL.write_text(json.dumps({"model": model, "rows_fitted": len(fitted),
                                 "median_relative_error": float(np.median(errors)),
                                 "largest_relative_error": max(errors), "from": PROCESSES.name,
                                 "environment": measured["environment"]}, indent=1) + "\n")
    images = ROOT / "docs" / "img"
    draw_measured(fitted, model, images / "scale-measured.png")
    draw_extrapolated(model, images / "scale-extrapolated.png")
    print("\n\n".join([*measured_tables(rows, model), million_table(million),  # noqa: T201
                       extrapolated_table(rows, model), json.dumps(json.loads(MODEL.read_text()), indent=1)]))


if __name__ == "__main__":
    main()

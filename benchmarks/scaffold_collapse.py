"""When SCAFFOLD collapses: momentum, the formula of the control variates, participation, rate, what public programs do.

    python benchmarks/scaffold_collapse.py results/scaffold/collapse.json [--data-dir DIR]
        [--picture docs/img/scaffold-collapse.svg]

About 8 minutes on one core; with --data-dir (a folder with MNIST) one more. `--parts NAME,...` trains these parts again
and leaves the others of the file as they are; `--parts none` only draws the picture.

The federation is small on purpose: 20 clients of 72 digits, one hidden layer. A run that stops since something is not
finite counts as chance (0.1). Every number is the accuracy after the last round, of three seeds. With a part of the
clients there are more rounds, so that each client takes part about as often.

`correct_after_step` and `sum_of_changes` are NIID-Bench's SCAFFOLD (github.com/Xtra-Computing/NIID-Bench,
experiments.py), as it stands and as it stood before 2022-08-17 (`divide_by="cohort"`); `correct_from_model` is that of
Flower's baseline niid_bench (github.com/adap/flower, baselines/niid_bench). See docs/methods/scaffold.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from askew.core import rng
from askew.core.client_piece import ClientContext, Message, OnUpdate
from askew.core.recipe import Recipe
from askew.core.registry import piece
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import ModelState, Params, Tree, subtract, zeros_like
from askew.pieces.statistic.mean_of import MeanOf
from askew.runs.environment import describe_environment
from askew.runs.sweep import sweep

SEEDS = (0, 1, 2)
CHANCE = 0.1
NIID_RATE = 0.03  # of the picture
POPULATIONS = {"iid": "iid(clients=20)", "two classes": "shards(clients=20, shards_per_client=2, distinct=true)",
               "one class": "shards(clients=20, shards_per_client=1)"}
ROUNDS = {1.0: 20, 0.5: 40, 0.1: 100}  # so that a client takes part 20, 20 and 10 times
BASE: dict[str, Any] = {"data": "digits()", "model": "mlp(hidden=[32])", "epochs": 4, "batch_size": 10}
UNIFORM = "mean(weights='uniform')"
Control = Literal["zeros", "random", "model"]


@piece("client")
def correct_after_step(lr: float, start: Control = "zeros") -> OnUpdate:
    """u <- u - lr (c - c_k), behind an optimiser whose momentum knows nothing of it; c_k by the printed formula."""

    def update(u: Params, control: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        everyone = ctx.shared["control"]
        return {name: v - lr * (everyone[name] - control[name]) for name, v in u.items()}, control

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        everyone = ctx.shared["control"]
        new = {name: kept[name] - everyone[name] - u / (ctx.steps * lr) for name, u in message["update"].items()}
        return {**message, "control": subtract(new, kept)}, new

    def keep(model: ModelState) -> Tree:
        return first_control(model.params, start)

    return OnUpdate(update, keep, begin=lambda kept, ctx: kept, end=end, sends=["control"], wants=["control"])


@piece("client")
def correct_from_model(lr: float) -> OnUpdate:
    """`correct_after_step`, where c_k begins as the weights of the model that the client is first sent."""
    inner = correct_after_step(lr)

    def keep(model: ModelState) -> Tree:
        return {"c": zeros_like(model.params), "seen": torch.zeros(())}

    def begin(kept: Tree, ctx: ClientContext) -> Tree:
        return {name: torch.where(kept["seen"] > 0, c, ctx.start[name]) for name, c in kept["c"].items()}

    def end(message: Message, control: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        message, new = inner.end(message, control, control, ctx)
        return message, {"c": new, "seen": torch.ones_like(kept["seen"])}

    return OnUpdate(inner.update, keep, begin=begin, end=end, sends=["control"], wants=["control"])


@piece("server")
def sum_of_changes(divide_by: Literal["all", "cohort"] = "all", start: Control = "zeros") -> ServerPiece:
    """c <- c + sum of the clients' changes / N (all clients) or / |S| (the round's)."""
    change = MeanOf("control")

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        share = len(ctx.cohort) / ctx.clients if divide_by == "all" else 1.0
        return u, {name: c + share * ctx.cohort[change][name] for name, c in state.items()}

    return ServerPiece(update, lambda params: first_control(params, start), needs=[change],
                       broadcast=lambda c: {"control": c}, sends=["control"], wants=["control"], watches=True)


def first_control(params: Params, start: Control) -> Params:
    """Zeros as in the paper; the model's first weights; or numbers drawn as weights are, alike at all clients."""
    if start != "random":
        return zeros_like(params) if start == "zeros" else params
    drawn = {name: rng.uniform(rng.key(0, "control", i), p.numel()).view(p.shape)
             for i, (name, p) in enumerate(params.items())}
    return {name: (2 * v - 1) * (params[name].shape[1] if v.ndim > 1 else 32) ** -0.5 for name, v in drawn.items()}


def amplification(momentum: float, steps: int) -> float:
    """How many times as far as without momentum a round of equal gradients goes: FedNova's walk per step."""
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum) / steps


def chains(method: str, lr: float, momentum: float, weight_decay: float = 0.0) -> dict[str, Any]:
    """The pieces of a method: FedAvg, SCAFFOLD in two forms, and NIID-Bench's with what it may get wrong."""
    local = f"sgd(lr={lr}, momentum={momentum}, weight_decay={weight_decay})"
    if method == "fedavg":
        return {"client": [local], "server": [UNIFORM]}
    if method in ("measured", "printed"):
        drift = f"correct_drift(lr={lr})" if method == "printed" else "correct_drift()"
        return {"client": [drift, local], "server": [UNIFORM, "update_control()"]}
    if method == FROM_MODEL:
        return {"client": [local, f"correct_from_model(lr={lr})"], "server": [UNIFORM, "sum_of_changes(start='model')"]}
    start = "random" if "random" in method else "zeros"
    divide_by = "cohort" if "/ |S|" in method else "all"
    return {"client": [local, f"correct_after_step(lr={lr}, start={start!r})"],
            "server": [UNIFORM, f"sum_of_changes(divide_by={divide_by!r}, start={start!r})"]}


FROM_MODEL = "after step, c_k from the model"
AFTER_STEP = ("after step", "after step, random c", "after step, / |S|", "after step, random c, / |S|")
Row = dict[str, Any]


def case(part: str, method: str, lr: float, momentum: float, population: str, fraction: float = 1.0,
         **rest: Any) -> Row:
    return {"part": part, "method": method, "lr": lr, "momentum": momentum, "population": population,
            "fraction": fraction, **rest}


def cases() -> Iterator[Row]:
    """What is trained on the digits."""
    both = list(POPULATIONS)[:2]
    for lr, fraction, population in itertools.product((0.01, 0.03, 0.1), ROUNDS, POPULATIONS):
        for method, momentum in (("fedavg", 0.0), ("fedavg", 0.9), ("measured", 0.0), ("measured", 0.9),
                                 ("printed", 0.9)):
            yield case("rates and participation", method, lr, momentum, population, fraction)
    for momentum, method, population in itertools.product((0.3, 0.5, 0.6, 0.7, 0.8), ("measured", "printed"), both):
        yield case("momentum", method, 0.03, momentum, population)
    for batch, method, population in itertools.product((36, 24, 18, 10), ("measured", "printed"), both):
        yield case("steps", method, 0.03, 0.9, population, epochs=1, batch_size=batch, rounds=60)
    for lr, fraction, method, population in itertools.product((0.01, 0.03, 0.1), (1.0, 0.1), AFTER_STEP, both):
        yield case("NIID-Bench", method, lr, 0.9, population, fraction)
    for lr, fraction, population in itertools.product((0.01, 0.03, 0.1), (1.0, 0.1), both):
        yield case("Flower's baseline", FROM_MODEL, lr, 0.9, population, fraction)
    for decay, method in itertools.product((0.001, 0.01), ("measured", "printed")):
        yield case("weight decay", method, 0.03, 0.0, "two classes", weight_decay=decay)


def mnist_cases() -> Iterator[Row]:
    for method, momentum in (("fedavg", 0.9), ("measured", 0.0), ("measured", 0.9), ("printed", 0.9)):
        for population in ("iid", "two classes"):
            yield case("MNIST", method, 0.01, momentum, population, data="mnist()", epochs=1, batch_size=64, rounds=8)


def recipes(row: Mapping[str, Any]) -> list[Recipe]:
    """One recipe per seed."""
    fields = ("data", "epochs", "batch_size", "rounds")
    given = {**BASE, "rounds": ROUNDS[row["fraction"]], **{name: row[name] for name in fields if name in row}}
    pieces = chains(row["method"], row["lr"], row["momentum"], row.get("weight_decay", 0.0))
    return [Recipe(name=row["method"], population=POPULATIONS[row["population"]], fraction=row["fraction"], seed=seed,
                   evaluate_every=given["rounds"], **given, **pieces) for seed in SEEDS]


def train(rows: Iterable[Row], data_dir: str | None) -> list[Row]:
    """The rows with the accuracies of each."""
    rows, trained = list(rows), []
    results = iter(sweep([recipe for row in rows for recipe in recipes(row)], data_dir=data_dir))
    for row in rows:
        of_seeds = [next(results) for _ in SEEDS]
        accuracies = [CHANCE if one.diverged else float(one.records[-1]["accuracy"]) for one in of_seeds]
        stopped = sum(one.diverged is not None for one in of_seeds)
        trained.append({**row, "accuracies": accuracies, "mean": float(np.mean(accuracies)),
                        "std": float(np.std(accuracies, ddof=1)),
                       "not_finite": stopped})
        sys.stderr.write(f"{np.mean(accuracies):.3f}  {row}\n")
    return trained


def mean_of(rows: Iterable[Row], **wanted: Any) -> tuple[float, float]:
    """Mean and standard deviation of the one row that fits."""
    (row,) = (row for row in rows if all(row.get(name) == value for name, value in wanted.items()))
    return 100 * row["mean"], 100 * row["std"]


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Three pictures: momentum, participation, NIID-Bench's program."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"axes.titlesize": 10, "legend.fontsize": 8, "svg.hashsalt": "askew"})
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained", sharey=True)
    _draw_momentum(left, result["rows"])
    _draw_participation(middle, result["rows"])
    _draw_niid_bench(right, result["rows"])
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def tables(rows: list[Row]) -> list[str]:
    """The page's tables in Markdown: accuracy in percent, mean and standard deviation over the seeds."""
    def cell(**wanted: Any) -> str:
        return "{:.1f} ± {:.1f}".format(*mean_of(rows, **wanted))

    grid = "rates and participation"
    both = list(POPULATIONS)[:2]
    result = [_table(["momentum", "A", *(f"{p}: {m}" for p in both for m in ("measured", "printed"))],
                     [[m, f"{amplification(m, 32):.2f}",
                       *(cell(part="momentum" if m < 0.9 else grid, method=method, momentum=m, lr=0.03,
                              fraction=1.0, population=population)
                         for population in both for method in ("measured", "printed"))]
                      for m in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)]),
              _table(["local steps", "A", *(f"{p}: {m}" for p in both for m in ("measured", "printed"))],
                     [[-(-72 // batch), f"{amplification(0.9, -(-72 // batch)):.2f}",
                       *(cell(part="steps", method=method, batch_size=batch, population=population)
                         for population in both for method in ("measured", "printed"))] for batch in (36, 24, 18, 10)]),
              _table(["clients have", "in a round", "rate", "FedAvg, 0", "FedAvg, 0.9", "measured, 0", "measured, 0.9",
                      "printed, 0.9"],
                     [[population, f"{fraction:.0%}", lr,
                       *(cell(part=grid, method=method, momentum=m, lr=lr, fraction=fraction, population=population)
                         for method, m in (("fedavg", 0.0), ("fedavg", 0.9), ("measured", 0.0), ("measured", 0.9),
                                           ("printed", 0.9)))]
                      for population in POPULATIONS for fraction in ROUNDS for lr in (0.01, 0.03, 0.1)]),
              _table(["program", "rate", *(f"{p}, {f:.0%}" for p in both for f in (1.0, 0.1))],
                     [[PROGRAMS[method], lr, *(cell(method=method, lr=lr, fraction=fraction, population=population)
                                               for population in both for fraction in (1.0, 0.1))]
                      for method in PROGRAMS for lr in (0.01, 0.03, 0.1)])]
    if any(row["part"] == "MNIST" for row in rows):
        methods = (("fedavg", 0.9), ("measured", 0.0), ("measured", 0.9), ("printed", 0.9))
        result.append(_table(["MNIST", *(f"{method}, {m}" for method, m in methods)],
                             [[population,
                               *(cell(part="MNIST", method=method, momentum=m, population=population)
                                 for method, m in methods)]
                              for population in both]))
    return result


def _table(head: list[str], lines: list[list[Any]]) -> str:
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in (head, ["---"] * len(head), *lines))


PROGRAMS = {"after step": "corrects after the step; c from 0, changes / N",
            "after step, random c": "c random, changes / N", "after step, / |S|": "c from 0, changes / \\|S\\|",
            "after step, random c, / |S|": "c random, changes / \\|S\\|",
            FROM_MODEL: "c_k from the model first sent, changes / N"}
COLOURS = {"measured": "#3f90da", "printed": "#bd1f01", "fedavg": "#717581"}
BARS = {"after step": "c from 0,\nchanges / N", "after step, random c": "c random,\nchanges / N\n(since 2022)",
        "after step, / |S|": "c from 0,\nchanges / |S|",
        "after step, random c, / |S|": "c random,\nchanges / |S|\n(as published)"}


def _draw_momentum(axes: Any, rows: list[Row]) -> None:
    momenta = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)
    for method, (population, line) in itertools.product(("measured", "printed"),
                                                        {"iid": "-", "two classes": "--"}.items()):
        values = [mean_of(rows, part="momentum" if m < 0.9 else "rates and participation", method=method, momentum=m,
                          lr=0.03, fraction=1.0, population=population) for m in momenta]
        axes.errorbar(momenta, [v for v, _ in values], [s for _, s in values], color=COLOURS[method], linestyle=line,
                      marker="o", markersize=4, capsize=2, label=f"$c_k$ {method}, {population}")
    edge = next(m / 1000 for m in range(1000) if amplification(m / 1000, 32) > 2)
    axes.axvline(edge, color="0.6", linewidth=1)
    axes.annotate("A = 2", (edge, 106), xytext=(4, 0), textcoords="offset points", color="0.4")
    axes.set(title="All of 20 clients, 32 local steps, rate 0.03", xlabel="momentum of the local steps",
             ylabel="accuracy, %", ylim=(0, 118), yticks=range(0, 101, 20))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 0.12))


def _draw_participation(axes: Any, rows: list[Row]) -> None:
    contestants = (("fedavg", 0.9), ("measured", 0.0), ("measured", 0.9), ("printed", 0.9))
    for (method, momentum), shift in zip(contestants, (-3, -1, 1, 3), strict=True):
        values = [mean_of(rows, part="rates and participation", method=method, momentum=momentum, lr=0.03, fraction=f,
                          population="two classes") for f in ROUNDS]
        label = "FedAvg" if method == "fedavg" else f"$c_k$ {method}"
        axes.errorbar([i + shift / 60 for i in range(3)], [v for v, _ in values], [s for _, s in values],
                      color=COLOURS[method], marker="o", linestyle="-" if momentum else ":", markersize=4, capsize=2,
                      label=f"{label}, momentum {momentum}")
    axes.set(title="A part of the clients, two classes each, rate 0.03", xlabel="clients of a round", xticks=range(3),
             xticklabels=[f"{f:.0%}" for f in ROUNDS])
    axes.legend(loc="lower left", bbox_to_anchor=(0, 0.12))


def _draw_niid_bench(axes: Any, rows: list[Row]) -> None:
    for shift, fraction, colour in ((-0.2, 1.0, "#3f90da"), (0.2, 0.1, "#ffa90e")):
        values = [mean_of(rows, part="NIID-Bench", method=method, lr=NIID_RATE, fraction=fraction, population="iid")
                  for method in BARS]
        axes.bar([i + shift for i in range(4)], [v for v, _ in values], 0.4, yerr=[s for _, s in values], color=colour,
                 capsize=2, label=f"{fraction:.0%} of the clients")
    axes.axhline(10, color="0.6", linewidth=1)
    axes.set(title=f"NIID-Bench's program, IID, momentum 0.9, rate {NIID_RATE}", xticks=range(4),
             xticklabels=BARS.values())
    axes.tick_params(axis="x", labelsize=8)
    axes.legend(loc="upper center", ncols=2)


def main() -> None:
    parser = argparse.ArgumentParser(description="when SCAFFOLD collapses")
    parser.add_argument("out", type=Path)
    parser.add_argument("--data-dir")
    parser.add_argument("--parts", help="parts to train, with commas; default: all")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row for row in (*cases(), *(mnist_cases() if given.data_dir else ()))
            if given.parts is None or row["part"] in given.parts.split(",")]
    before = (json.loads(given.out.read_text()) if given.parts and given.out.exists()
              else {"environments": [], "rows": []})
    again = list(dict.fromkeys(row["part"] for row in rows))
    if rows:
        began = time.process_time()
        kept = [row for row in before["rows"] if row["part"] not in again]
        environment = describe_environment("cpu")  # now: it notes when it began, and the commit
        trained = train(rows, given.data_dir)
        others = [{**one, "parts": [part for part in one["parts"] if part not in again]}
                  for one in before["environments"]]
        write(given.out, [one for one in others if one["parts"]]
              + [{"parts": again, **environment, "cpu_seconds": round(time.process_time() - began)}], kept + trained)
    if given.picture:
        draw(json.loads(given.out.read_text()), given.picture)


def write(path: Path, environments: list[dict[str, Any]], rows: list[Row]) -> None:
    """One line per row, and where and with what the parts were trained."""
    head = json.dumps({"what": str(__doc__).splitlines()[0], "base": BASE, "populations": POPULATIONS, "seeds": SEEDS,
                       "chance": CHANCE, "environments": environments, "rows": []}, indent=1).removesuffix("[]\n}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + "[\n  " + ",\n  ".join(map(json.dumps, rows)) + "\n ]\n}\n")


if __name__ == "__main__":
    main()

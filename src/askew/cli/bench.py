"""`askew bench`: how fast is this machine for a recipe, engine by engine, and against plain centralised training."""

from __future__ import annotations

import timeit
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.text import Text

from askew.cli.common import AsJson, DataDir, Imports, import_modules, out, print_json, table
from askew.cli.run import Device, RecipeFile, Settings
from askew.engine.build import build_task
from askew.engine.choice import TRY_CLIENTS, TRY_STEPS, calibrate, choose
from askew.engine.local import train_pooled
from askew.engine.sample import sample
from askew.engine.task import Task
from askew.runs.environment import describe_environment
from askew.runs.load import load_recipe

app = typer.Typer()


@app.command()
def bench(
    file: RecipeFile = None,
    settings: Settings = None,
    method: Annotated[str | None, typer.Option(help="A method of the papers.")] = None,
    repeats: Annotated[int, typer.Option(help="Timed repeats; the best counts.", min=1)] = 5,
    device: Device = "cpu",
    imports: Imports = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Time each engine on a few steps of a recipe.

    `--engine auto` goes by a rule, which need not take the fastest: name that one.

    Beside it, one model trained on as many examples with batches as large as all clients' together: what the same
    images cost without a federation.
    """
    import_modules(imports)
    task = build_task(load_recipe(file, settings or [], method), device=device, data_dir=data_dir)
    timings = calibrate(task, repeats)
    clients = min(TRY_CLIENTS, task.cohort_size)
    sizes = [min(int(task.population.sizes[c]), TRY_STEPS * task.recipe.batch_size or 10**9)
             for c in sample(task, 0)[:clients]]
    examples = sum(sizes)
    central = _centralised(task, examples, clients, repeats)
    rows: list[dict[str, Any]] = [{"engine": t.engine, "ms": None if t.seconds is None else round(1e3 * t.seconds, 3),
             "examples_per_s": None if t.seconds is None else round(examples / t.seconds), "note": t.note}
                                  for t in timings]
    rows.append({"engine": "centralised", "ms": round(1e3 * central, 3), "examples_per_s": round(examples / central),
                 "note": f"one model, batch {clients * (task.recipe.batch_size or max(sizes))}"})
    chosen = choose(task)
    if as_json:
        print_json({"rows": rows, "auto": chosen, "clients": clients, "examples": examples,
                    "environment": describe_environment(device)})
        return
    timed = table("engine", "ms", "examples/s", "of centralised", "", left=("engine", ""))
    for row in rows:
        style = "bold" if row["engine"] == chosen else None
        rate = row["examples_per_s"]
        share = "" if rate is None else f"{rate * central / examples:.2f}"
        timed.add_row(str(row["engine"]), "" if row["ms"] is None else f"{row['ms']:.1f}",
                      "" if rate is None else f"{rate:,}", share, str(row["note"]), style=style)
    out.print(timed)
    out.print(Text.assemble(f"{clients} clients, {examples} examples; --engine auto takes ", (chosen, "bold"),
                            ", by rule; if another is faster here, name it with --engine"))


def _centralised(task: Task, examples: int, clients: int, repeats: int) -> float:
    """Seconds for one model on as many examples, batches as large as the clients' together."""
    indices = task.population.train.indices[:examples]
    plain = replace(task, recipe=task.recipe.replace(epochs=1))
    _, *times = timeit.repeat(  # the first one warms up
        lambda: train_pooled(plain, plain.fresh, indices, epochs=1, role="bench", number=0,
                             batch_size=clients * task.recipe.batch_size), number=1, repeat=repeats + 1)
    return min(times)

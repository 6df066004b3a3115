"""`askew advise`: which remedy should I use, what will it gain, what does it ask of me?"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from askew.advice.advice import RECIPE, Advice
from askew.advice.advise import advise as ask
from askew.advice.demanding import Limits
from askew.cli.common import AsJson, DataDir, Imports, Missing, err, given, import_modules, out, page, print_json, table
from askew.cli.progress import Quiet, RunProgress
from askew.cli.ray import Ray, WithRay, cluster_of
from askew.cli.report import page_of
from askew.cli.run import Device, Engine, Settings
from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.rounds.record import Record
from askew.runs.load import load_recipe, places

app = typer.Typer()


@app.command(cls=WithRay)
def advise(
    file: Annotated[Path | None, typer.Argument(
        help="A recipe in TOML: data, federation, network, rounds; without one, the embedded digits.")] = None,
    data: Annotated[str | None, typer.Option(help="The data set, by name or call.")] = None,
    population: Annotated[str | None, typer.Option(help="How clients share the data.")] = None,
    methods: Annotated[str | None, typer.Option(
        help="Names or calls with commas between; else those of askew.advice.candidates.")] = None,
    margin: Annotated[float, typer.Option(
        help="What a remedy must gain: points of accuracy, or percent of an error.")] = 1.0,
    budget: Annotated[float, typer.Option(metavar="MINUTES", help="For everything.")] = 5.0,
    counts: Annotated[Path | None, typer.Option(
        metavar="FILE",
        help="A CSV file of client x class counts is all there is: its label skew on proxy data.")] = None,
    no_server_data: Annotated[bool, typer.Option(
        "--no-server-data", help="No examples at the server, and none handed to clients.")] = False,
    single_model: Annotated[bool, typer.Option(
        "--single-model", help="One model for all; no layers that stay at clients.")] = False,
    stateless_clients: Annotated[bool, typer.Option(
        "--stateless-clients", help="Clients remember nothing between rounds.")] = False,
    upload_budget: Annotated[float | None, typer.Option(
        metavar="MB", help="Megabytes that a client may send per round.")] = None,
    secure_aggregation: Annotated[bool, typer.Option(
        "--secure-aggregation", help="The server sees sums over clients alone.")] = False,
    seed: Annotated[int | None, typer.Option(help="The first of all seeds.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Communication rounds of a trial.")] = None,
    settings: Settings = None,
    missing: Missing = None,
    folder: Annotated[Path | None, typer.Option(
        "--out", metavar="DIR", help="Keep advice, recipe, page and journal here; else nothing is written.")] = None,
    go_on: Annotated[bool, typer.Option(
        "--resume", help="Continue an interrupted contest in DIR (same options).")] = False,
    engine: Engine = "auto",
    device: Device = "cpu",
    ray: Ray = None,
    imports: Imports = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Which remedy should this federation use, what will it gain, and what does it ask for?

    Measures the skew and what it costs, strikes out methods that the federation cannot have, lets the others meet tuned
    FedAvg in a contest, and names the least demanding one that is worth it, or none.

    Examples:

      askew advise --population "shards(clients=10, shards_per_client=1)"

      askew advise hospital.toml --no-server-data --stateless-clients --out advice

      askew advise --counts clinics.csv --budget 3
    """
    import_modules(imports)
    named = given(data=data, population=population, rounds=rounds, seed=seed)
    pairs = [*(settings or []), *(f"{key}={value}" for key, value in named.items())]
    recipe = load_recipe(file, pairs, None)
    if missing is not None:
        recipe = recipe.with_setting("data.missing", missing)
    if counts is not None and (population is not None or missing is not None):
        raise AskewError("advise: --counts says who has what; leave --population and --missing out")
    limits = Limits(no_server_data, single_model, stateless_clients, upload_budget, secure_aggregation)
    progress: RunProgress | None = None  # once it is known how long the contest will be

    def on_plan(rounds: int) -> None:
        nonlocal progress
        progress = shown.enter_context(RunProgress(rounds, "advise", quiet))

    def on_round(record: Record, recipe: Recipe) -> None:
        if progress is not None:
            progress.on_round(record, recipe)

    try:
        with ExitStack() as shown, cluster_of(ray, imports) as cluster:
            advice = ask(recipe, methods=None if methods is None else places("--methods", methods, ","), margin=margin,
                         budget=budget, limits=limits, counts=counts, engine=engine, device=device, data_dir=data_dir,
                         out=folder, go_on=go_on, on_plan=on_plan, on_round=on_round, cluster=cluster)
    except KeyboardInterrupt:
        remedy = (f"continue with the same options and --resume --out {folder}" if folder
                  else "with --out DIR it could be continued")
        err.print(f"interrupted; {remedy}", soft_wrap=True)
        raise typer.Exit(130) from None
    written = None if folder is None else page_of(folder)
    if as_json:
        print_json(advice.as_mapping())
    else:
        show(advice, folder)
        if written is not None:
            out.print(f"page: {written}", soft_wrap=True)


def show(advice: Advice, folder: Path | None) -> None:
    """For a person: facts, cost, ranking, decision, recipe."""
    shown = page(110)
    if advice.counts is not None:
        shown.print(f"From the counts in {advice.counts} alone: the same label skew on {advice.recipe.data.name}, in "
                    "place of your data. Skew of features is not in it.", soft_wrap=True)
    facts = Table(box=None, show_header=False, title="The federation", title_justify="left", title_style="bold")
    for row in advice.facts.rows():
        facts.add_row(*row)
    for row in cost_rows(advice):
        facts.add_row(*row)
    shown.print(facts)
    shown.print()
    shown.print(_ranking(advice))
    for name, why in advice.struck.items():
        shown.print(f"struck out: {name}: {why}", soft_wrap=True)
    for note in advice.notes:
        shown.print(f"note: {note}", soft_wrap=True)
    shown.print()
    shown.print(advice.reason[0].upper() + advice.reason[1:] + ".", style="bold", soft_wrap=True)
    shown.print(f"{advice.contest.runs} runs in {advice.seconds:.0f} s; settings and nominee were chosen on held-out "
                f"training examples, gains are on test data that nothing was chosen by.", style="dim", soft_wrap=True)
    if folder is None:
        shown.print("The recipe (--out DIR writes it to a file):", style="dim")
        shown.print(advice.recipe.to_toml().rstrip(), soft_wrap=True)
    else:
        shown.print(f"recipe: {folder / RECIPE}   (askew run {folder / RECIPE})", soft_wrap=True)


def cost_rows(advice: Advice) -> list[tuple[str, str]]:
    """What skew costs, in words."""
    cost, shown = advice.cost, advice.objective.shown
    unit = "points" if advice.objective.is_share else advice.objective.headline.replace("_", " ")
    rows = [("tuned FedAvg here", shown(cost.places["here"].mean))]
    for name, text in (("iid", "the same clients without skew"), ("centralised", "all data in one place")):
        if cost.places[name].seeds:
            rows.append((f"  {text}", f"{shown(cost.places[name].mean)}  ({cost.lost(name):+.3g} {unit})"))
    return rows


def _ranking(advice: Advice) -> Table:
    entries = table("method", f"gain, {advice.unit}", "95% interval", "seeds", "chance of being best", "asks for",
                    left=("method", "asks for"))
    for entry in advice.contest.entries:
        gain = entry.gain
        nominee = " *" if entry.method == advice.contest.nominee else ""
        entries.add_row(f"{entry.method}{nominee}", f"{gain.mean:+.1f}", f"{gain.low:+.1f} to {gain.high:+.1f}",
                        str(gain.seeds), f"{entry.chance:.0%}",
                        "; ".join(advice.demands[entry.method]) or "nothing more")
    entries.add_row("FedAvg, tuned", "0", "", "", f"{advice.contest.chance_of_opponent:.0%}", "")
    if advice.contest.nominee is not None:
        entries.caption = "* measured again on fresh seeds"
        entries.caption_justify = "left"
    return entries

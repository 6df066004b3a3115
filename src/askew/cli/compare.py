"""`askew compare`: methods side by side on one federation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from askew.cli.common import AsJson, DataDir, Imports, err, given, import_modules, out, page, print_json
from askew.cli.progress import Quiet, RunProgress
from askew.cli.ray import Ray, WithRay, cluster_of
from askew.cli.report import page_of
from askew.cli.run import CheckpointEvery, Device, Engine, Settings
from askew.cli.sweep import RetryFailed, check_retry
from askew.core import registry
from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.core.skew import mean_emd
from askew.engine.build import draw_population
from askew.engine.choice import check_engine
from askew.runs import default_job
from askew.runs.compare import compare as run_all
from askew.runs.compare import write_table
from askew.runs.comparison import Comparison, Contender
from askew.runs.folders import check_many, default_folder
from askew.runs.load import load_recipe, method_calls, places

app = typer.Typer()
_LADDER = "fedavg, "


@app.command(cls=WithRay)
def compare(
    file: Annotated[Path | None, typer.Argument(help="A recipe in TOML that all methods start from.")] = None,
    data: Annotated[str | None, typer.Option(help="The data set, by name or call; else the embedded digits.")] = None,
    population: Annotated[str | None, typer.Option(
        help="How clients share the data; else one class per client.")] = None,
    methods: Annotated[str | None, typer.Option(
        help="Names or calls with commas between, + for a combination: 'fedavg,fedprox(mu=0.1)+fedavgm'; "
             "else those of the five papers.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 3,
    seed: Annotated[int | None, typer.Option(help="The first of them.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Communication rounds.")] = None,
    settings: Settings = None,
    target: Annotated[float | None, typer.Option(
        help="Count rounds to this accuracy; else to 95% of what centralised training reaches.")] = None,
    folder: Annotated[Path | None, typer.Option(
        "--out", metavar="DIR", help="Where it all goes; else a new folder under runs/.")] = None,
    go_on: Annotated[bool, typer.Option(
        "--resume", help="Go on with an interrupted comparison in DIR (same options).")] = False,
    retry_failed: RetryFailed = False,
    checkpoint_every: CheckpointEvery = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it here too: .png, .svg or .pdf.")] = None,
    engine: Engine = "auto",
    device: Device = "cpu",
    ray: Ray = None,
    imports: Imports = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run methods side by side on one federation: same data, clients, first weights and rounds for all.

    Without options: what skew costs FedAvg, then the five papers' methods on ten clients with one class of digit each.

    Examples:

      askew compare

      askew compare --methods "fedavg,fedprox(mu=0.1),fednnnn" --rounds 50 --seeds 5

      askew compare --data mnist --population "dirichlet(clients=100, alpha=0.1)" --set fraction=0.1
    """
    from askew.report.canvas import check_plot_path

    import_modules(imports)
    if seeds < 1:
        raise AskewError(f"--seeds must be at least 1, got {seeds}")
    if plot is not None:
        check_plot_path(plot)
    named = given(data=data, population=population, rounds=rounds, seed=seed)
    pairs = [*(settings or []), *(f"{key}={value}" for key, value in named.items())]
    recipes = make_recipes(file, pairs, methods)
    plain = all(value is None for value in (file, data, population, methods))
    skews = _skewed(recipes["fedavg"]) if plain else {}
    check_retry(retry_failed, go_on)
    check_many(folder, go_on, "comparison")
    check_engine(engine, "fp32", several=True)
    with cluster_of(ray, imports) as cluster, nullcontext(folder) if folder else default_folder("compare") as place:
        shared: Any = {"go_on": go_on, "retry_failed": retry_failed, "checkpoint_every": checkpoint_every,
                       "engine": engine, "device": device, "data_dir": data_dir, "cluster": cluster}
        result, ladder, table = _compared(recipes, skews, seeds, target, place, shared, quiet)
        written = _draw(result, place, plot)
    folder = place
    if as_json:
        print_json(table)
    else:
        _show(table, folder)
        if written is not None:
            out.print(f"page: {written}", soft_wrap=True)
    if result.interrupted or (ladder is not None and ladder.interrupted):
        err.print(f"interrupted: this is what was finished; continue with the same options and --resume --out {folder}",
                  soft_wrap=True)
        raise typer.Exit(130)
    if not any(contender.finished for contender in result.contenders):
        raise typer.Exit(3)  # as `askew run` does when training diverges


def _compared(recipes: Mapping[str, Recipe], skews: Mapping[str, Recipe], seeds: int, target: float | None,
              folder: Path, shared: Mapping[str, Any],
              quiet: bool) -> tuple[Comparison, Comparison | None, dict[str, Any]]:
    """The comparison, the one of FedAvg on less skewed federations where it is wanted, and the table of both."""
    first = next(iter(recipes.values())).seed
    rounds = seeds * sum(recipe.rounds for recipe in (*recipes.values(), *skews.values()))
    with RunProgress(rounds, "compare", quiet) as progress:
        result = run_all(recipes, range(first, first + seeds), target=target, out=folder,
                         on_round=progress.on_round, **shared)
        ladder = None
        if skews and not result.interrupted:
            ladder = run_all(skews, result.seeds, out=folder / "skew", on_round=progress.on_round,
                             **{**shared, "go_on": shared["go_on"] and (folder / "skew").is_dir()})
    table = result.as_mapping()
    if ladder is not None:
        table["skew"] = skew_table(result, ladder, shared["data_dir"])
        write_table(folder, table, shared["device"], shared["engine"])
    return result, ladder, table


def make_recipes(file: Path | None, pairs: Sequence[str], methods: str | None) -> dict[str, Recipe]:
    """Label -> recipe for each method that was asked for.

    Args:
        file: what all methods start from; without one, the default job's recipe (of which, for other data than the
            digits that it was made for, only the federation is kept).
        pairs: `key=value` settings.
        methods: as `--methods` writes them; None takes all.
    """
    if any(pair.partition("=")[0].strip() == "method" for pair in pairs):
        raise AskewError("compare takes --methods a,b,c, not --set method=...")
    plain = [pair for pair in pairs if "." not in pair.partition("=")[0]]  # arguments of pieces need the method first
    defaults: Mapping[str, Any] = {} if file else default_job.JOB
    tuned = file is None and load_recipe(None, plain, None, defaults).data.name == "digits"
    if not tuned and file is None:
        defaults = {"population": default_job.ONE_CLASS}
    asked = places("--methods", methods, ",") if methods is not None else list(
        default_job.METHODS if tuned else (call.partition("(")[0] for call in default_job.METHODS))
    recipes = {}
    for text in asked:
        parts = method_calls(text)
        specs = [registry.parse("method", part) for part in parts]
        label = "+".join(str(spec).removesuffix("()") for spec in specs)
        if label in recipes:
            raise AskewError(f"--methods names {label} twice")
        recipes[label] = load_recipe(file, pairs, parts, defaults)
    return recipes


def skew_table(result: Comparison, ladder: Comparison, data_dir: str | None) -> list[dict[str, Any]]:
    """What skew costs FedAvg: training in one place, then federations from none to the job's own."""
    rungs: dict[str, Contender] = {c.label.removeprefix(_LADDER): c for c in ladder.contenders}
    ceiling, last = result.named("centralised"), result.named("fedavg")
    rows = [("training in one place", ceiling)]
    rows += [(f"FedAvg, {name}", rungs.get(name, last)) for name in default_job.SKEWS]
    top = ceiling.mean("global") if ceiling else None
    table = []
    for name, contender in rows:
        mean = contender.mean("global") if contender else None
        if contender is None or mean is None:
            continue
        table.append({"name": name, "population": str(contender.recipe.population), "emd": _emd(contender, data_dir),
                      "accuracy_mean": mean, "accuracy_std": contender.std("global"),
                      "loss": None if top is None or contender is ceiling else mean - top})
    return table


def _skewed(fedavg: Recipe) -> dict[str, Recipe]:
    """FedAvg on the federations of the first table that are not the job's own."""
    return {f"{_LADDER}{name}": fedavg.replace(population=scheme) for name, scheme in default_job.SKEWS.items()
            if scheme != default_job.ONE_CLASS}


def _emd(contender: Contender, data_dir: str | None) -> float | None:
    """Mean EMD of the clients, mean over the seeds; of clients, so not where there is but one."""
    if contender.is_ceiling:
        return None
    data = registry.build("data", contender.recipe.data, data_dir=data_dir)
    drawn = [draw_population(contender.recipe.replace(seed=result.recipe.seed), data) for result in contender.finished]
    return sum(mean_emd(population.counts, population.class_totals) for population in drawn) / len(drawn)


def _draw(result: Comparison, folder: Path, plot: Path | None) -> Path | None:
    """The pictures and the page, where anything has finished; the page's path."""
    from askew.report.comparison import plot_comparison

    if not any(contender.finished for contender in result.contenders):
        return None
    plot_comparison(result, folder / "curves.png", folder / "curves.svg", *([plot] if plot else []))
    return page_of(folder)


def _show(table: Mapping[str, Any], folder: Path) -> None:
    from askew.report.comparison_table import divergence_lines, method_rows, needs_line, skew_rows

    shown = page()
    if table.get("skew"):
        shown.print(skew_rows(table["skew"], title="What skew costs FedAvg"))
        shown.print()
    title = f"{table['data'].removesuffix('()')}: {table['population']}, {table['rounds']} rounds"
    shown.print(method_rows(table, title))
    shown.print()
    for line in divergence_lines(table["methods"]):
        shown.print(line, style="red")
    for line in filter(None, (needs_line(table["methods"]), _about_judge(table), _about_fairness(table))):
        shown.print(line, style="dim")
    shown.print(f"run folder: {folder}", soft_wrap=True)


def _about_judge(table: Mapping[str, Any]) -> str:
    if table["judge"] != "devices":
        return ""
    personal = ", ".join(row["method"] for row in table["methods"] if row["personal"])
    because = (f"since under {personal} each client has a model of its own" if personal
               else "since the federation is about devices")
    return (f"own data: accuracy on data like each client's own, mean over the clients; all are judged so, {because}. "
            f"Always answering a client's most frequent class would score {table['majority_class_accuracy']:.1%}.")


def _about_fairness(table: Mapping[str, Any]) -> str:
    number = max(len(row["seeds"]) for row in table["methods"])  # fewer, where it was interrupted
    spread = f"± standard deviation over {number} seeds" if number > 1 else "one seed, so no spread is known"
    target = f"; to {table['target']:.1%}: rounds until {table['target_is']}" if table["target"] else ""
    return ("For each seed all have the same data, clients, first weights and rounds; what a method keeps at the "
            f"server or for validation comes out of its clients' share; {spread}{target}.")

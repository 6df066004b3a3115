"""`askew partition`: make a federation and see how skewed it is."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import askew.data
import askew.partition
from askew.cli.common import OVERWRITE, AsJson, DataDir, Imports, Overwrite, err, given, import_modules, out, print_json
from askew.core import registry, skew
from askew.core.calls import read_call
from askew.core.dataset import Dataset, Source
from askew.core.errors import AskewError
from askew.core.files import check_new
from askew.core.population import Population
from askew.core.population_spec import PopulationSpec
from askew.core.recipe import parse_value
from askew.core.registry import INJECTED, Spec
from askew.runs.load import split_outside_brackets

app = typer.Typer()


@app.command()
def partition(
    scheme: Annotated[str, typer.Option(
        help="A scheme by name or as a call, with combinators where wanted: "
             "'dirichlet(clients=100, alpha=0.1) + hold_out(0.05)'.")],
    data: Annotated[str, typer.Option(help="The data set, by name or call.")] = "digits",
    clients: Annotated[int | None, typer.Option(help="How many clients.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Dirichlet concentration: 0 one class, inf all alike.")] = None,
    emd: Annotated[float | None, typer.Option(help="Distance of each client from the whole, for emd.")] = None,
    classes: Annotated[int | None, typer.Option(
        help="Classes per client, for classes_per_client and power_law.")] = None,
    shards: Annotated[int | None, typer.Option(help="Shards per client, for shards.")] = None,
    settings: Annotated[list[str] | None, typer.Option(
        "--set", metavar="KEY=VALUE", help="Any other argument of the scheme, e.g. min_examples=5.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of every random stream.")] = 0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep it: an .npz file, for diagnose.")] = None,
    overwrite: Overwrite = False,
    imports: Imports = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a federation and see how skewed it is.

    Schemes: iid, shards, classes_per_client, label_blocks, dirichlet, dirichlet_per_class,
    dirichlet_sizes, emd, power_law, hierarchical, hypergeometric, natural, pooled. Combinators: hold_out, share,
    validation, subset, feature_noise, shuffle.

    Examples:

      askew partition --scheme dirichlet --clients 100 --alpha 0.1

      askew partition --data cifar10 --scheme "shards(clients=10, shards_per_client=2)" --plot shards.png

      askew partition --data mnist --scheme emd --clients 10 --emd 1.44 --save emd.npz

      askew partition --scheme "iid(clients=10) + hold_out(0.2, use=200) + share(0.5)"
    """
    import_modules(imports)
    options = given(clients=clients, alpha=alpha, emd=emd, classes=classes, shards_per_client=shards)
    spec = complete(scheme, options | _settings(settings))
    _check_files(plot, save, overwrite)
    loaded = askew.data.load(data, data_dir=data_dir)
    population = askew.partition.draw(spec, Source.of(loaded), seed)
    _write(population, loaded, plot, save, overwrite)
    if as_json:
        print_json(as_mapping(population, loaded))
    else:
        _show(population, loaded)


def complete(scheme: str, options: dict[str, Any]) -> PopulationSpec:
    """The scheme with the options put into its call, combinators behind it; an option beats what the call says."""
    text, *combinators = split_outside_brackets(scheme, "+")
    name, positional, named = read_call("partition", text)
    if options and name in registry.names("partition"):
        signature = inspect.signature(registry.find("partition", name))
        parameters = [key for key in signature.parameters if key not in INJECTED]
        if len(positional) <= len(parameters):  # else the call itself is refused below
            text = str(Spec(name, {**dict(zip(parameters, positional, strict=False)), **named, **options}))
    return PopulationSpec.of(" + ".join([text, *combinators]))


def as_mapping(population: Population, data: Dataset) -> dict[str, Any]:
    """All that `--json` prints."""
    from askew.report.population_table import summary

    counts, totals = population.counts, population.class_totals
    return {
        "data": data.name, **population.describe(), **summary(counts, totals), "class_names": list(data.class_names),
        "client_names": population.names(data),
        "class_totals": totals, "sizes": population.sizes, "counts": counts, "emd": skew.emd(counts, totals),
        "entropy": skew.entropy(counts), "classes_per_client": skew.classes_per_client(counts),
        "groups": population.groups,
        "validation_sizes": None if population.validation is None else population.validation.sizes,
        "test_sizes": None if population.test is None else population.test.sizes,
    }


def _settings(settings: list[str] | None) -> dict[str, Any]:
    values = {}
    for setting in settings or []:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip().isidentifier():
            raise AskewError(f"--set takes key=value, got {setting!r}")
        values[key.strip()] = None if text.strip().lower() == "none" else parse_value(text.strip())
    return values


def _check_files(plot: Path | None, save: Path | None, overwrite: bool) -> None:
    """All that could go wrong with the files to write, before anything is done."""
    from askew.report.canvas import check_plot_path

    if plot is not None:
        check_plot_path(plot, overwrite=overwrite, remedy=OVERWRITE)
    if save is not None:
        check_new(save, "--save", OVERWRITE, overwrite)
        if plot is not None and os.path.abspath(save) == os.path.abspath(plot):
            raise AskewError(f"--save and --plot name one file, {str(save)!r}; name two")


def _write(population: Population, data: Dataset, plot: Path | None, save: Path | None, overwrite: bool) -> None:
    from askew.report.population_plot import plot_population

    if plot is not None:
        plot_population(plot, population.counts, reference=population.class_totals, class_names=data.class_names,
                        client_names=population.names(data),
                        title=f"{data.name}: {population.scheme}, seed {population.seed}")
        err.print(f"drawn in {plot}", soft_wrap=True, markup=False)
    if save is not None:
        population.save(save, overwrite)
        err.print(f"kept in {save}", soft_wrap=True, markup=False)


def _show(population: Population, data: Dataset) -> None:
    from askew.report.population_table import MOST_ROWS, client_rows, summary_rows

    number = population.num_clients
    shown = np.arange(min(number, MOST_ROWS))
    names, column = population.names(data), data.columns.client if data.columns is not None else None
    out.print(f"{data.name}: {population.scheme}, seed {population.seed}", markup=False, style="bold",
              soft_wrap=True)
    out.print(client_rows(population.counts, population.class_totals, names, shown, column=column or "client"))
    if number > MOST_ROWS:
        out.print(f"... and {number - MOST_ROWS:,} more")
    out.print()
    out.print(summary_rows(population.counts, population.class_totals))
    if len(population.server):
        out.print(f"The server keeps {len(population.server):,} examples.")

"""`askew diagnose`: how skewed is a federation that already exists?"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from askew.cli.common import OVERWRITE, AsJson, Missing, Overwrite, err, out, print_json
from askew.core import skew
from askew.core.errors import AskewError
from askew.core.files import check_regular
from askew.core.population import Population
from askew.data.skew_table import CountsTable, count_rows, read_counts
from askew.papers.skew_cost import SOURCE, expected_loss, verdict

app = typer.Typer()


@app.command()
def diagnose(
    file: Annotated[Path, typer.Argument(
        help="A saved population (.npz), a CSV file of client x class counts, or, with --label and --client, a table "
             "of rows (CSV, Parquet).")],
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="Of rows: the column of the classes.")] = None,
    client: Annotated[str | None, typer.Option(metavar="COLUMN", help="Of rows: the column of the clients.")] = None,
    missing: Missing = None,
    delimiter: Annotated[str | None, typer.Option(help="Of rows: between cells; else as the header has it.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """How skewed is my federation, and what will it cost?

    A CSV file has one row per client and one column per class, with the number of examples in each cell. A header row
    and a first column of client names may be there. No example needs to be seen: counts are enough.

    With --label and --client, a table with one row per example is counted; no other column is looked at.

    Examples:

      askew diagnose clinics.csv

      askew diagnose visits.csv --label diagnosis --client hospital

      askew diagnose population.npz --plot skew.svg
    """
    from askew.report.canvas import check_plot_path
    from askew.report.population_plot import plot_population

    if plot is not None:
        check_plot_path(plot, overwrite=overwrite, remedy=OVERWRITE)
    if label is None and client is None:
        table, reference = _read(file)
    elif label is None or client is None:
        raise AskewError("diagnose: rows are counted by --label and --client; name both columns")
    else:
        table, reference = count_rows(file, label, client, missing or "refuse", delimiter), None
    if plot is not None:
        plot_population(plot, table.counts, reference=reference, class_names=table.classes, client_names=table.clients,
                        title=file.name)
        err.print(f"drawn in {plot}", soft_wrap=True, markup=False)
    if as_json:
        print_json(as_mapping(table, reference))
    else:
        _show(table, reference)


def as_mapping(table: CountsTable, reference: np.ndarray | None) -> dict[str, Any]:
    """All that `--json` prints."""
    from askew.report.population_table import summary

    counts = table.counts
    facts = summary(counts, reference)
    cost = expected_loss(facts["weighted_mean_emd"], counts.shape[1])
    return {
        **facts, "class_names": table.classes, "client_names": table.clients,
        "client_column": table.client_column, "label_column": table.label_column, "sizes": counts.sum(axis=1),
        "counts": counts,
        "emd": skew.emd(counts, reference), "entropy": skew.entropy(counts),
        "classes_per_client": skew.classes_per_client(counts),
        "missing_classes": [table.classes[c] for c in skew.missing_classes(counts)],
        "most_unusual": [table.clients[k] for k in skew.most_unusual(counts, reference)],
        "expected_loss": {"points": cost.points, "at_emd": cost.table_emd, "scaled_to_10_classes": cost.scaled,
                          "source": SOURCE},
        "verdict": _verdict(facts),
    }


def _read(file: Path) -> tuple[CountsTable, np.ndarray | None]:
    """The table of counts, and the class totals of the whole where the file knows them."""
    check_regular(file, "population saved by 'askew partition --save', or a CSV file of client x class counts")
    if file.suffix == ".npz" or zipfile.is_zipfile(file):
        population = Population.load(file)
        clients = [str(k) for k in range(population.num_clients)]
        classes = [str(c) for c in range(population.num_classes)]
        return CountsTable(clients, classes, population.counts), population.class_totals
    return read_counts(file), None


def _verdict(facts: dict[str, Any]) -> str:
    return verdict(facts["mean_emd"], facts["weighted_mean_emd"], facts["classes"], facts["chance_emd"])


def _show(table: CountsTable, reference: np.ndarray | None) -> None:
    from askew.report.population_table import client_rows, summary, summary_rows

    counts = table.counts
    out.print(summary_rows(counts, reference))
    missing = skew.missing_classes(counts)
    if len(missing):
        out.print(f"Nobody has an example of class {', '.join(table.classes[c] for c in missing)}.", markup=False)
    lacking = int((skew.classes_per_client(counts) < counts.shape[1] - len(missing)).sum())
    out.print(f"{lacking:,} of {len(counts):,} clients lack at least one class that others have.")
    out.print()
    unusual = skew.most_unusual(counts, reference)
    out.print(client_rows(counts, reference, table.clients, unusual, "Most unusual clients", table.client_column))
    if counts.shape[1] <= 10 and table.classes != [str(c) for c in range(counts.shape[1])]:
        shown = ", ".join(f"{c} {name}" for c, name in enumerate(table.classes))
        out.print(f"{table.label_column}: {shown}", markup=False)
    out.print()
    out.print(_verdict(summary(counts, reference)), markup=False, style="bold")

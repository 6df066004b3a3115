"""`askew predict`: what a trained model says of the rows of a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from askew.cli.common import OVERWRITE, AsJson, Imports, Overwrite, err, import_modules, out, print_json
from askew.core.cells import Values, named, words
from askew.core.errors import AskewError
from askew.core.files import check_new, csv_text, write_text
from askew.data.table import label_values
from askew.runs.trained import Trained, load

app = typer.Typer()


@app.command()
def predict(
    folder: Annotated[Path, typer.Argument(help="The folder of a finished run.", metavar="RUN")],
    file: Annotated[Path, typer.Argument(help="CSV or Parquet with the columns that the run had, or .npz with x.")],
    client: Annotated[str | None, typer.Option(
        help="Whose model, where clients have models of their own; else that of each row's client.")] = None,
    to: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write CSV there, not to stdout.")] = None,
    proba: Annotated[bool, typer.Option("--proba", help="How likely each class is, too.")] = False,
    overwrite: Overwrite = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """What a trained model says of each row, as CSV: the row's number, its client if it names one, and the prediction
    under the label's own name.

    Where the file has the label, too, the share of rows that are right is said on stderr.

    Examples:

      askew predict runs/first new.csv --out predicted.csv

      askew predict runs/first new.csv --client north --proba
    """
    import_modules(imports)
    if to is not None:
        check_new(to, "--out", OVERWRITE, overwrite)
    model = load(folder)
    if proba and model.about.targets == "tokens":
        raise AskewError("--proba: a model of tokens has too many chances for a table; use askew.load in Python")
    columns = _columns(model, file, client, proba)
    if as_json:
        print_json({_free("run", columns): str(folder), _free("file", columns): str(file), **columns})
    else:
        text = csv_text([columns, *zip(*(_plain(values) for values in columns.values()), strict=True)])
        if to is None:
            out.file.write(text)
        else:
            write_text(to, text)
            err.print(f"written: {to}", soft_wrap=True)


def _columns(model: Trained, file: Path, client: str | None, proba: bool) -> dict[str, Any]:
    """Name -> one value per row."""
    about, table = model.about, model.about.table
    predictions = model.predict(file, client)
    rows = model.read(file) if table is not None and file.suffix != ".npz" else {}
    result: dict[str, Any] = {}
    if table is not None and table.client is not None and (owners := rows.get(table.client)) is not None:
        result[table.client] = [name or "" for name in named(owners)]
    label = table.label[0] if table is not None else "prediction"
    names = [label] if predictions.ndim == 1 else list(about.classes)
    if about.targets == "tokens":
        names = [str(place) for place in range(predictions.shape[1])]
    result |= dict(zip(names, [predictions] if predictions.ndim == 1 else predictions.T, strict=True))
    if proba:
        chances = model.predict_proba(file, client)
        result |= {f"{label}={name}" if about.targets == "classes" else f"P({name})": chances[:, c]
                   for c, name in enumerate(about.classes)}
    if about.targets == "classes" and (truth := rows.get(label)) is not None:
        _compare(label, _as_trained(truth, about.classes), [str(said) for said in predictions])
    return {_free("row", result): np.arange(1, len(predictions) + 1), **result}


def _free(name: str, taken: Iterable[str]) -> str:
    """A name of ours that no column of the table has: row, row_, ..."""
    while name in taken:
        name += "_"
    return name


def _plain(values: Any) -> list[str]:
    """As short as it can be written and read again as the same number of 32 bits: a price has more than six digits."""
    return [str(value) for value in values]


def _as_trained(labels: Values, classes: Sequence[str]) -> list[str | None]:
    """Labels under the names that the model's classes have, each cell by itself: a gap, or a word that no class has,
    must not keep 1.0, or Parquet's true, from being the class 1.

    Example:
        >>> _as_trained(["1.0", "", "01", "?"], ("0", "1"))
        ['1', None, '01', '?']
    """
    cells = named(labels)
    known = {word: word if word in classes else words(label_values([word], float))[0] for word in {*cells} - {None}}
    return [None if word is None else known[word] for word in cells]


def _compare(label: str, truth: list[str | None], said: list[str]) -> None:
    """How many classes are right, where the file knows them."""
    pairs = [pair for pair in zip(truth, said, strict=True) if pair[0] is not None]
    if pairs:
        right = sum(true == other for true, other in pairs)
        err.print(f"{label} is right in {right:,} of {len(pairs):,} rows ({right / len(pairs):.2%})")

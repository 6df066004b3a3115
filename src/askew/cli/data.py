"""`askew data`: which data sets are here, get one, check one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from askew.cli.common import AsJson, DataDir, err, out, print_json
from askew.data.downloads import DATA_SETS, find_data_set
from askew.data.fetch import fetch
from askew.data.locate import data_root
from askew.data.verify import present
from askew.data.verify import verify as verify_files

app = typer.Typer(no_args_is_help=True, help="List, download and verify data sets.")
Name = Annotated[str, typer.Argument(help="Name of a data set, as 'askew data list' shows it.")]
Mirror = Annotated[str | None, typer.Option(help="Address of a folder with the same files.", metavar="URL")]


@app.command("list")
def list_(data_dir: DataDir = None, json: AsJson = False) -> None:
    """Which data sets there are, which are on this machine, and where they come from."""
    rows = [_digits(), *(_describe(data_set.name, data_dir) for data_set in DATA_SETS)]
    if json:
        print_json({"root": str(data_root(data_dir)), "data": rows})
        return
    table = Table(Column("name", no_wrap=True), Column("MB", justify="right", no_wrap=True),
                  Column("where", overflow="fold"), "licence; origin", box=None)
    for row in rows:
        size = row["bytes"] if row["present"] else row["download_bytes"]
        table.add_row(row["name"], f"{size / 1e6:,.1f}", row["where"] or "not here",
                      f"{row['licence']}; {row['origin']}")
    out.print(table)


@app.command()
def get(name: Name, data_dir: DataDir = None, mirror: Mirror = None, json: AsJson = False) -> None:
    """Download a data set, check its SHA-256 and unpack it."""
    if name == "digits":
        row = _digits()
    else:
        data_set = find_data_set(name)
        is_present = present(data_set.name, data_dir) is not None
        if not is_present:
            err.print(f"{data_set.name}: {data_set.size / 1e6:,.1f} MB to {data_root(data_dir)}", soft_wrap=True)
        fetch(data_set.name, data_dir, mirror=mirror, progress=not is_present and sys.stderr.isatty())
        row = _describe(data_set.name, data_dir)
    if json:
        print_json(row)
    else:
        out.print(f"{row['name']}: {row['where']}", soft_wrap=True)


@app.command()
def verify(name: Name, data_dir: DataDir = None, json: AsJson = False) -> None:
    """Read a data set and compare it with its published SHA-256 or numbers of examples."""
    checks = verify_files(name, data_dir)
    if json:
        print_json({"name": name, "ok": True, "checks": checks})
        return
    for check in checks:
        out.print(f"ok  {check['file']}: {check['check']}", soft_wrap=True)


def _describe(name: str, data_dir: str | None) -> dict[str, Any]:
    data_set, where = find_data_set(name), present(name, data_dir)
    return {"name": data_set.name, "present": where is not None, "where": None if where is None else str(where),
            "bytes": None if where is None else sum(f.stat().st_size for f in where.rglob("*") if f.is_file()),
            "download_bytes": data_set.size, "licence": data_set.licence, "origin": data_set.origin}


def _digits() -> dict[str, Any]:
    import askew.data

    size = Path(askew.data.__path__[0], "digits.npz").stat().st_size
    return {"name": "digits", "present": True, "where": "embedded", "bytes": size, "download_bytes": 0,
            "licence": "CC BY 4.0", "origin": "E. Alpaydin, C. Kaynak 1998, via scikit-learn"}

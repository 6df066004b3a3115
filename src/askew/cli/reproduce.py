"""`askew reproduce`: a paper's tables and figures, its numbers beside ours."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from askew.cli.common import AsJson, DataDir, Imports, err, import_modules, page, print_json, table
from askew.cli.progress import Quiet, RunProgress
from askew.cli.ray import Ray, WithRay, cluster_of
from askew.cli.run import Device, Engine, Precision
from askew.core.errors import AskewError, suggest
from askew.engine.choice import check_engine
from askew.papers import papers
from askew.papers.item import Item
from askew.papers.plan import needs
from askew.papers.rates import INPUTS, Rates, estimated_seconds, kind, known_rates, try_out
from askew.papers.run import WORK
from askew.papers.run import reproduce as run_missing
from askew.papers.store import SCALES, Results, Scale
from askew.papers.summary import ItemSummary, RowSummary, counts, summarise

app = typer.Typer()
QUICK = "quick: a reduced version, whose numbers are not the paper's"
VARIANT = "a variant: not the paper's set-up, and not counted among its numbers and claims"


@app.command(cls=WithRay)
def reproduce(
    address: Annotated[str | None, typer.Argument(
        metavar="[PAPER[/ITEM]]", help="What to run; without it, the list of all.")] = None,
    scale: Annotated[str, typer.Option(
        help="full: the paper's experiment; quick: a reduced version that shows the ordering.")] = "full",
    seeds: Annotated[int | None, typer.Option(
        help="Run each with seeds 0 .. N-1; else as often as the paper did.", metavar="N")] = None,
    rows: Annotated[list[str] | None, typer.Option(
        metavar="PATTERN", help="Run only rows with such names: \"FedAvgM*\"; may be repeated.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Only list, run nothing.")] = False,
    estimate: Annotated[bool | None, typer.Option(
        "--estimate/--no-estimate",
        help="Time networks that were not run here yet, once, for seconds each; a list does, --json does not.",
        show_default=False)] = None,
    limit: Annotated[str | None, typer.Option(
        metavar="TIME", help="Stop cleanly after 90s, 30m, 2h; the same command goes on.")] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where results files are.")] = Path("results"),
    work: Annotated[Path, typer.Option(metavar="DIR", help="Where runs under way are kept.")] = WORK,
    engine: Engine = "auto",
    precision: Precision = "fp32",
    device: Device = "cpu",
    ray: Ray = None,
    imports: Imports = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run a paper's experiment and show its numbers beside ours; without an argument, list what there is.

    What has been measured is not run again; what was interrupted goes on.

    Examples:

      askew reproduce

      askew reproduce zhao2018/table3-mnist --scale quick

      askew reproduce zhao2018/table3-cifar10 --seeds 3 --device cuda --limit 30m

      askew reproduce hsu2019/figure5-c0.05-e1 --rows "FedAvgM*" --seeds 1
    """
    import_modules(imports)
    if scale not in SCALES:
        raise AskewError(f"--scale must be {' or '.join(SCALES)}, got {scale!r}")
    limit_s = None if limit is None else parse_seconds(limit)
    whole = papers.find(address) if address else papers.all_items()
    items = _with_rows(whole, rows) if rows else whole
    files = Results(results, scale)

    def summarised() -> list[ItemSummary]:
        """Whole tables, but of the runs those of the rows that were asked for."""
        parts = {item.address: item for item in items}
        return [replace(summarise(item, files, seeds), needs=tuple(needs([parts[item.address]], files, seeds)))
                for item in whole if item.address in parts]

    if address is None or listed:
        rates = _rates(items, files, seeds, device, engine, precision, not as_json if estimate is None else estimate)
        summaries = summarised()
        if as_json:
            print_json({"items": [s.as_mapping(estimated_seconds(s.needs, rates)) for s in summaries],
                        **counts(summaries)})
        else:
            _show_list(items, summaries, files, seeds, rates)
        return
    left = [need for need in needs(items, files, seeds) if not need.done]
    began, complete = time.monotonic(), True
    if left:
        what = f"{len(left)} run{'s' * (len(left) > 1)}, rounds"
        check_engine(engine, precision, several=True)
        with (cluster_of(ray, imports) as cluster,
              RunProgress(sum(need.base.rounds for need in left), what, quiet) as progress):
            complete = run_missing(items, files, seeds=seeds, work=work, engine=engine, precision=precision,
                                   device=device, data_dir=data_dir, limit_s=limit_s, on_round=progress.on_round,
                                   cluster=cluster)
    summaries = summarised()
    if as_json:
        rates = _rates(items, files, seeds, device, engine, precision, estimate=False)
        print_json({"items": [s.as_mapping(estimated_seconds(s.needs, rates)) for s in summaries], **counts(summaries)})
    else:
        for summary in summaries:
            _show_item(summary)
    if not complete:
        asked = limit_s is not None and time.monotonic() - began >= limit_s
        err.print(f"{f'stopped after {limit}' if asked else 'interrupted'}: the same command goes on from here",
                  soft_wrap=True)
        if not asked:
            raise typer.Exit(130)


def _with_rows(items: Sequence[Item], patterns: Sequence[str]) -> Sequence[Item]:
    """Those of which some rows have a matching name, with these rows only."""
    names = list(dict.fromkeys(row.name for item in items for row in item.rows))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise AskewError(f"--rows: no row is called {pattern!r}; {suggest(pattern, names)}")
    chosen = [replace(item, rows=tuple(row for row in item.rows if any(fnmatchcase(row.name, p) for p in patterns)))
              for item in items]
    return [item for item in chosen if item.rows]


def parse_seconds(text: str) -> float:
    """`90`, `90s`, `30m` or `2h` in seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in ("s", "m", "h") else (text, "s")
    try:
        seconds = float(number) * {"s": 1, "m": 60, "h": 3600}[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise AskewError(f"--limit takes a time such as 90s, 30m or 2h, got {text!r}")
    return seconds


def _rates(items: Sequence[Item], files: Results, seeds: int | None, device: str, engine: str, precision: str,
           estimate: bool) -> Rates:
    left = [need for need in needs(items, files, seeds) if not need.done]
    if not left:
        return {}  # what is done takes no time at any rate
    other: Scale = "quick" if files.scale == "full" else "full"
    rates = known_rates([Results(files.folder, other), files], list(dict.fromkeys(item.paper for item in items)),
                        device)
    if estimate:
        unknown = {kind(need.base): need.base for need in left
                   if kind(need.base) not in rates and need.base.data.name in INPUTS}
        for what, recipe in unknown.items():
            err.print(f"timing {what} ...")
            rates[what] = try_out(recipe, device, engine, precision)
    return rates


def _show_list(items: Sequence[Item], summaries: Sequence[ItemSummary], files: Results, seeds: int | None,
               rates: Rates) -> None:
    shown = page()
    if files.scale == "quick":
        shown.print(QUICK, style="yellow")
    listed = table("item", "runs", "images to train", "time here", "status", left=("item", "status"))
    for summary in summaries:
        listed.add_row(summary.item.address, f"{summary.runs_done}/{len(summary.needs)}",
                       _amount(summary.images), _duration(estimated_seconds(summary.needs, rates)), summary.status)
    shown.print(listed)
    everything = needs(items, files, seeds)
    time_left = _duration(estimated_seconds(everything, rates))
    shown.print(f"\n{sum(need.done for need in everything)} of {len(everything)} runs done (items share runs), "
                f"{_amount(sum(need.images_left for need in everything))} images to train, "
                f"{time_left or 'unknown'} here")
    for what, kinds in counts(summaries).items():
        shown.print(f"{what}: " + ", ".join(f"{number} {name}" for name, number in kinds.items()))


def _show_item(summary: ItemSummary) -> None:
    shown = page()
    shown.print(Text.assemble((summary.item.address, "bold"), f"  {summary.item.title}"), soft_wrap=True)
    if summary.scale == "quick":
        shown.print(QUICK, style="yellow")
    if summary.item.variant:
        shown.print(VARIANT, style="yellow")
    rows = table("", "paper", "ours", "n", "verdict", left=("", "verdict"))
    for row in summary.rows:
        rows.add_row(row.name, _paper(row), _ours(row), str(row.ours.n or ""), row.verdict or "")
    shown.print(rows)
    for judged in summary.claims:
        if summary.scale == "full":
            by = f", by {judged.by}, which stands in" if judged.by else ""
            shown.print(f"{judged.decision}{by}: {judged.claim.says} ({judged.claim.where})", soft_wrap=True)
    shown.print(f"{summary.runs_done} of {len(summary.needs)} runs done\n")


def _paper(row: RowSummary) -> str:
    if row.paper is None:
        return ""
    return ("about " if row.paper.about else "") + _number(row.paper.value, row.paper.spread, row.unit)


def _ours(row: RowSummary) -> str:
    if row.ours.mean is None:
        return "diverged" if row.ours.measured else ""
    diverged = f" ({row.ours.diverged} diverged)" if row.ours.diverged else ""
    return _number(row.ours.mean, row.ours.spread, row.unit) + diverged


def _number(value: float, spread: float | None, unit: str) -> str:
    digits = (lambda x: f"{x:.2f}") if unit == "%" else (lambda x: f"{x:.4g}")
    return digits(value) + (f" ± {digits(spread)}" if spread is not None else "") + ("%" if unit == "%" else "")


def _amount(number: float) -> str:
    """1,234 -> 1.2 k."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.0f}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for size, unit in ((365 * 86400.0, "years"), (86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"

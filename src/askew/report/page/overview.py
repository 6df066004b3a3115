"""The first screen: which method, how good and on what, how skewed, who is left behind."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from askew.core.skew import largest_emd
from askew.report.comparison_table import needs
from askew.report.page.blocks import Fact, Facts, Section, Table, Text
from askew.report.page.evaluation import is_number
from askew.report.page.report import Report, Run, Series, client_name, taken_on
from askew.report.page.traffic import megabytes
from askew.rounds.left_out import totals


def section(report: Report) -> Section:
    blocks: list[Any] = [Facts(_facts(report))]
    if len(report.series) > 1:
        blocks.append(_table(report))
        seeds = {len(series.counted) for series in report.series}
        if seeds != {1}:
            blocks.append(Text(f"± is one standard deviation over seeds ({_several(seeds)})."))
        floor = report.table.get("floor")
        if report.table.get("judge") == "devices" and floor is not None and is_number(floor):
            blocks.append(Text("All are judged on data like each client's own. Always answering a client's most "
                               f"frequent class would score {report.measure.shown(floor)}."))
    else:
        blocks += [Text(series.state, is_note=True) for series in report.series if series.state]
    if report.passed_over:
        names = ", ".join(report.passed_over[:5]) + (", …" if len(report.passed_over) > 5 else "")
        blocks.append(Text(f"Left out, since no round of them is done: {names}.", is_note=True))
    on = {str(run.evaluation["judged_on"]) for series in report.series for run in series.runs
          if run.evaluation is not None and run.evaluation.get("judged_on")}
    if len(on) > 1 and not report.table:
        blocks.append(Text(f"These runs were judged on different data ({'; '.join(sorted(on))}): their scores do not "
                           "compare.", is_note=True))
    return Section("overview", "Overview", blocks)


def title(report: Report) -> tuple[str, str]:
    """The page's title, and the line under it."""
    recipe = report.best.first.recipe
    data = report.best.first.own_data or recipe.data.name
    federated = [series for series in report.series if not series.in_one_place] or report.series
    clients = number_of_clients(report.best.first)
    number = len(report.series)
    names = dict.fromkeys(series.first.recipe.name for series in report.series)
    head = (f"{recipe.name} on {data}" if number == 1 else f"{number} settings of {recipe.name} on {data}"
            if len(names) == 1 else f"{number} methods on {data}")
    seeds = sorted({run.recipe.seed for series in report.series for run in series.runs})
    [(population, _)] = Counter(str(series.first.recipe.population) for series in federated).most_common(1)
    return head, " · ".join(filter(None, (
        f"{clients:,} clients" if clients else "", population, f"{recipe.rounds} rounds",
        f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds", str(recipe.model))))


def number_of_clients(run: Run) -> int | None:
    population = run.summary.get("population")
    clients = population.get("clients") if isinstance(population, dict) else None
    return clients if isinstance(clients, int) else None


def emd_of(run: Run) -> float | None:
    skew = (run.evaluation or {}).get("skew") or {}
    return skew.get("mean_emd")


def worst(run: Run) -> float | None:
    """The mean score of the tenth of the clients that fare worst."""
    if run.clients is None or len(run.worst_first) < 2:
        return None
    return float(np.mean([run.clients["score"][k] for k in run.worst_tenth]))


def _facts(report: Report) -> list[Fact]:
    best, measure = report.best, report.measure
    several = len(report.series) > 1
    mean, spread = best.each(measure.last)
    seeds = f"{len(best.counted)} seeds" if len(best.counted) > 1 else f"seed {best.first.recipe.seed}"
    facts = [Fact(f"Best {measure.name}" if several else measure.name.capitalize(), measure.shown(mean, spread),
                  ", ".join(filter(None, (best.label if several else "", seeds,
                                          taken_on(measure.on) if measure.on else ""))))]
    ceiling = next((series for series in report.series if series.in_one_place), None)
    if ceiling is not None and ceiling is not best:
        facts.append(Fact("All data in one place", measure.shown(*ceiling.each(measure.last)),
                          "what training without a federation reaches"))
    run = best.first
    if (emd := emd_of(run)) is not None:
        classes = len((run.evaluation or {}).get("classes") or [])
        top = f"0: all clients alike; {largest_emd(classes):.3g}: one class each" if classes > 1 else ""
        facts.append(Fact("Skew (mean EMD)", f"{emd:.2f}", top))
    tenth, spread = best.each(worst)
    if tenth is not None and run.clients is not None and run.worst_tenth:
        last = run.worst_tenth[0]
        seed = f" (seed {run.recipe.seed})" if len(best.counted) > 1 else ""
        facts.append(Fact("Left behind", measure.shown(tenth, spread),
                          f"mean of the worst tenth of the clients; last{seed} is "
                          f"{client_name(run.clients['name'][last])} with {measure.shown(run.clients['score'][last])}"))
    if sent := megabytes(run):
        facts.append(Fact("Sent", f"{sent:,.1f} MB" if sent >= 1 else f"{1000 * sent:,.1f} kB",
                          f"up and down, over {len(run.records)} rounds"))
    return facts


def _table(report: Report) -> Table:
    columns: dict[str, list[str]] = {}
    measure = report.measure
    for series in report.ranked:
        mean, spread = series.each(measure.last)
        row = {f"#{measure.name.capitalize()}": measure.shown(mean, spread),
               "#Seeds": str(len(series.counted)),
               "#Worst tenth": measure.shown(*series.each(worst)),
               "Last client": _last_client(report, series),
               "#EMD": "" if series.in_one_place else _shown(series.each(emd_of)[0], ".2f"),
               "#Sent, MB": "" if series.in_one_place else _shown(series.each(megabytes)[0], ",.1f"),
               "#Left out": _shown(series.each(lambda run: float(sum(totals(run.records).values())))[0], ",.0f", ""),
               "#Time, s": _shown(series.each(_seconds)[0], ",.1f"),
               "Needs besides": "; ".join(needs(series.first.recipe, series.personal)),
               "": series.state}
        for name, cell in row.items():
            columns.setdefault(name, []).append(cell)
    kept = {name: cells for name, cells in columns.items() if any(cell not in ("", "–") for cell in cells)}
    first = [series.label for series in report.ranked]
    rows = [list(row) for row in zip(first, *kept.values(), strict=True)]
    return Table(["Method" if not _one_name(report) else "Settings", *kept], rows,
                 [series.look for series in report.ranked], [report.ranked.index(report.best)])


def _one_name(report: Report) -> bool:
    return len({series.first.recipe.name for series in report.series}) == 1


def _last_client(report: Report, series: Series) -> str:
    run = series.first
    if run.clients is None or len(run.worst_first) < 2:
        return ""
    last = run.worst_tenth[0]
    return f"{client_name(run.clients['name'][last])}: {report.measure.shown(run.clients['score'][last])}"


def _seconds(run: Run) -> float | None:
    """Of runs that trained together, each one's share."""
    seconds, together = run.summary.get("seconds"), run.summary.get("together", 1)
    if seconds is None or not is_number(seconds) or not is_number(together):
        return None
    return float(seconds) / max(1, together or 1)


def _shown(value: float | None, how: str, zero: str | None = None) -> str:
    return "–" if value is None else zero if zero is not None and not value else format(value, how)


def _several(numbers: set[int]) -> str:
    return f"{min(numbers)}" if len(numbers) == 1 else f"{min(numbers)} to {max(numbers)}"

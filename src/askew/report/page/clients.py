"""How the clients fare: the spread of their scores, and who is left behind, by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from askew.core.skew import emd
from askew.report.page.blocks import Figure, Section, Table, Text, axis, hover, ticks
from askew.report.page.histogram import histogram
from askew.report.page.report import Measure, Report, Run, Series, client_name, missing

_MOST_ROWS = 10


def section(report: Report) -> Section:
    blocks: list[Any] = []
    compared = [series for series in report.ranked if _scores(series.first).size > 1]
    if not compared:
        return Section("clients", "Client by client", [missing(report, "each client's score")])
    if len(compared) > 1:
        blocks += [_boxes(compared, report.measure),
                   Text("A box holds the middle half of the clients, its line is the median; whiskers reach from the "
                        "worst tenth to the best; the cross is the last client. One seed of each.")]
    return Section("clients", "Client by client",
                   [*blocks, *report.per_run(lambda series, run: _of_run(series, run, report.measure))])


def _scores(run: Run) -> np.ndarray:
    scores = [] if run.clients is None else run.clients["score"]
    return np.array([score for score in scores if score is not None and math.isfinite(score)], dtype=float)


def _of_run(series: Series, run: Run, measure: Measure) -> list[Any]:
    scores = _scores(run)
    if scores.size < 2:
        return []
    low, high = (0.0, 1.0) if measure.is_share else (float(scores.min()), float(scores.max()))
    style = ".1%" if measure.is_share else ".3g"
    return [histogram(scores, low, high, f"a client's {measure.name}", style), *_left_behind(run, measure)]


def _left_behind(run: Run, measure: Measure) -> list[Any]:
    """The clients that fare worst, a tenth of them or a few, with what may explain it."""
    clients = run.clients
    if clients is None or run.evaluation is None:
        return []
    counts = clients.get("label_counts")
    distances = None if counts is None else emd(np.asarray(counts))
    classes = [str(name) for name in run.evaluation.get("classes") or []]
    order = run.worst_first[: max(min(_MOST_ROWS, len(run.worst_tenth)), 3)]
    groups = clients.get("group")
    several = len(set(clients["model"])) > 1
    rows = []
    for k in order:
        cells = [client_name(clients["name"][k]), measure.shown(clients["score"][k]), f"{clients['examples'][k]:,}"]
        if counts is not None and distances is not None:
            cells += [f"{distances[k]:.2f}", _mostly(counts[k], classes)]
        rows.append([*cells, *([str(groups[k])] if groups else []), *([str(clients["model"][k])] if several else [])])
    columns = ["Client", f"#{measure.name.capitalize()}", "#Examples",
               *(["#EMD", "Mostly of class"] if counts is not None else []), *(["Group"] if groups else []),
               *(["#Model"] if several else [])]
    tenth = run.worst_tenth
    mean = float(np.mean([clients["score"][k] for k in tenth]))
    who = f"{len(tenth):,} of {len(clients['name']):,} clients" if len(tenth) > 1 else "1 client"
    return [Text(f"Who is left behind. The worst tenth ({who}) has {measure.shown(mean)} in the mean"
                 f"{'; the first of them' if len(tenth) > len(rows) else ', and those next to it'}:"),
            Table(columns, rows)]


def _mostly(counts: list[int], classes: list[str]) -> str:
    """The classes that make up most of a client's examples, three at most.

    Example:
        >>> _mostly([1, 0, 9], ["a", "b", "c"])
        'c (90%), a (10%)'
    """
    total = max(sum(counts), 1)
    order = sorted(range(len(counts)), key=lambda c: -counts[c])[:3]
    return ", ".join(f"{classes[c] if c < len(classes) else c} ({counts[c] / total:.0%})" for c in order if counts[c])


def _boxes(compared: list[Series], measure: Measure) -> Figure:
    data: list[dict[str, Any]] = []
    for place, series in enumerate(compared):
        scores, run = _scores(series.first), series.first
        tenth, q1, median, q3, most = (float(q) for q in np.quantile(scores, [0.1, 0.25, 0.5, 0.75, 0.9]))
        look = {"legendgroup": series.look.group, "name": series.label}
        data.append({**look, "type": "box", "orientation": "h", "y": [place], "q1": [q1], "median": [median],
                     "q3": [q3], "lowerfence": [tenth], "upperfence": [most], "fillcolor": f"{series.look.colour}/0.25",
                     "line": {"color": series.look.colour, "width": 1.5}, "width": 0.6})
        clients, last = run.clients or {}, run.worst_first[0]
        data.append({**look, "type": "scatter", "mode": "markers", "y": [place], "x": [clients["score"][last]],
                     "customdata": [client_name(clients["name"][last])],
                     "marker": {"symbol": "x-thin", "size": 8, "line": {"width": 2, "color": series.look.colour}},
                     "hovertemplate": "%{customdata}: " + hover("x", measure.is_share)})
    layout = {"xaxis": axis(f"a client's {measure.name}", measure.is_share), "hovermode": "closest",
              "yaxis": {**ticks([series.label for series in compared]), "autorange": "reversed", "showgrid": False}}
    return Figure(data, layout, f"the clients' {measure.name}, series by series", height=90 + 26 * len(compared),
                  lines=[series.look for series in compared])

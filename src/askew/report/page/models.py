"""Several models: which was cloned from which, how long each lived, who uses it at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from askew.report.page.blocks import Figure, Section, Table, Text, axis, ticks
from askew.report.page.report import Measure, Report, Run, Series


def section(report: Report) -> Section | None:
    blocks = report.per_run(lambda series, run: _of_run(series, run, report.measure))
    return Section("models", "Models and their lineage", blocks) if blocks else None


def _of_run(series: Series, run: Run, measure: Measure) -> list[Any]:
    models = (run.evaluation or {}).get("models") or {}
    if len(models) < 2:
        return []
    order, last = _family(models), max((record["round"] for record in run.records), default=0)
    alive = [name for name in order if models[name]["died"] is None]
    rows = [[name, "–" if models[name]["parent"] is None else str(models[name]["parent"]), _round(models[name]["born"]),
             _round(models[name]["died"]), f"{models[name]['clients']:,}", measure.shown(models[name]["score"])]
            for name in sorted(order, key=lambda name: (-models[name]["clients"], int(name)))]
    return [_tree(models, order, last),
            Text(f"{len(models)} models lived, {len(alive)} to the end. A line begins in the round in which a model "
                 "was cloned, under the one that it was cloned from; a cross is where it was deleted; thicker lines "
                 "serve more clients."),
            Table(["Model", "Cloned from", "#In round", "#Deleted in", "#Clients", f"#{measure.name.capitalize()}"],
                  rows)]


def _round(number: int | None) -> str:
    return "–" if number is None else str(number)


def _family(models: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Each model under its parent, the youngest child first, so that no line of descent crosses a life.

    Example:
        >>> _family({"0": {"parent": None}, "1": {"parent": 0}, "2": {"parent": 1}, "3": {"parent": 0}})
        ['0', '3', '1', '2']
    """
    children: dict[str, list[str]] = {}
    for name in sorted(models, key=int):
        parent = str(models[name]["parent"])
        children.setdefault(parent if parent in models and int(parent) < int(name) else "", []).append(name)
    order: list[str] = []
    waiting = children.get("", [])[::-1]
    while waiting:
        name = waiting.pop()
        order.append(name)
        waiting += children.get(name, [])
    return order


def _tree(models: Mapping[str, Mapping[str, Any]], order: list[str], last: int) -> Figure:
    places = {name: at for at, name in enumerate(order)}
    most = max(1, *(models[name]["clients"] for name in order))
    data: list[dict[str, Any]] = []
    for name in order:
        model = models[name]
        born, died = model["born"] or 0, model["died"]
        parent = str(model["parent"])
        colour = "--c0" if died is None else "--faint"
        about = (f"model {name}: {model['clients']} clients" if died is None
                 else f"model {name}: deleted in round {died}")
        if parent in places:
            data.append({"type": "scatter", "mode": "lines", "x": [born] * 2, "y": [places[parent], places[name]],
                         "line": {"color": "--faint", "width": 1}, "hoverinfo": "skip"})
        data.append({"type": "scatter", "mode": "lines+markers", "x": [born, last if died is None else died],
                     "y": [places[name]] * 2, "line": {"color": colour, "width": 1.5 + 4 * model["clients"] / most},
                     "marker": {"color": colour, "size": 9, "opacity": 1,
                                "symbol": ["circle", "circle" if died is None else "x"]},
                     "customdata": [about] * 2, "hovertemplate": "%{customdata}, round %{x}<extra></extra>"})
    layout = {"xaxis": axis("round", rangemode="nonnegative"), "hovermode": "closest",
              "yaxis": {**ticks([f"model {name}" for name in order]), "autorange": "reversed", "showgrid": False}}
    return Figure(data, layout, "lineage of the models", height=110 + 24 * len(order))

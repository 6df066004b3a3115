"""Class by class: recall, and what is taken for what."""

from __future__ import annotations

from typing import Any

from askew.report.page.blocks import Figure, Section, Table, Text, axis, heat_map, ticks
from askew.report.page.report import CLASSES, Report, Run, Series, missing, taken_on

_MOST_NAMES = 30


def section(report: Report) -> Section | None:
    if report.tasks and not report.tasks & {*CLASSES, "multilabel"}:
        return None
    compared = [series for series in report.ranked if _recall(series.first)]
    if not compared:
        return Section("classes", "Class by class", [missing(report, "recall and confusion of the classes")])
    blocks: list[Any] = [_recalls(compared)] if len(compared) > 1 else []
    return Section("classes", "Class by class", [*blocks, *report.per_run(_of_run)])


def _recall(run: Run) -> list[float | None]:
    return ((run.evaluation or {}).get("by_class") or {}).get("recall") or []


def _classes(run: Run) -> list[str]:
    names = [str(name) for name in (run.evaluation or {}).get("classes") or []]
    return names if len(names) == len(_recall(run)) else [str(c) for c in range(len(_recall(run)))]


def _named(names: list[str], title: str, **more: Any) -> dict[str, Any]:
    shown = ticks(names, 14) if len(names) <= _MOST_NAMES else {}
    return axis(title, showgrid=False, zeroline=False, **shown, **more)


def _recalls(compared: list[Series]) -> Figure:
    """A row per series, a column per class."""
    names, labels = _classes(compared[0].first), [series.label for series in compared]
    data = heat_map([_recall(series.first) for series in compared], axis("recall", is_share=True),
                    customdata=[[[label, name] for name in names] for label in labels],
                    hovertemplate="%{customdata[0]}: recall %{z:.1%} of class %{customdata[1]}<extra></extra>")
    layout = {"xaxis": _named(names, "class"), "yaxis": {**ticks(labels), "autorange": "reversed", "showgrid": False}}
    return Figure([data], layout, "recall of each class, series by series", height=100 + 24 * len(compared))


def _of_run(series: Series, run: Run) -> list[Any]:
    evaluation, names = run.evaluation, _classes(run)
    if evaluation is None or not names:
        return []
    by_class = evaluation["by_class"]
    on = taken_on(evaluation.get("judged_on") or "")
    blocks: list[Any] = [Text(f"{on[0].upper()}{on[1:]}.")] if evaluation.get("judged_on") else []
    if evaluation.get("confusion"):
        blocks.append(_confusion(evaluation["confusion"], names))
    order = sorted(range(len(names)), key=lambda c: 2.0 if by_class["recall"][c] is None else by_class["recall"][c])
    shown = order if len(names) <= _MOST_NAMES else order[:_MOST_NAMES]
    rows = [[names[c], *(_share(by_class[what][c]) for what in ("recall", "precision", "f1")),
             f"{by_class['examples'][c]:,}"] for c in shown]
    if len(shown) < len(names):
        blocks.append(Text(f"The {len(shown)} classes of lowest recall, of {len(names):,}:"))
    return [*blocks, Table(["Class", "#Recall", "#Precision", "#F1", "#Test examples"], rows)]


def _confusion(table: list[list[float]], names: list[str]) -> Figure:
    shares = [[cell / sum(row) if sum(row) else None for cell in row] for row in table]
    few = len(names) <= 15
    data = heat_map(
        shares, axis("share of row", is_share=True), text=[[round(cell) for cell in row] for row in table],
        customdata=[[[true, other] for other in names] for true in names],
        hovertemplate="%{z:.1%} of class %{customdata[0]} taken for %{customdata[1]} (%{text})<extra></extra>",
        **({"texttemplate": "%{text}", "textfont": {"size": 11}} if few else {}))
    layout = {"xaxis": _named(names, "predicted class", constrain="domain"),
              "yaxis": _named(names, "true class", autorange="reversed")}
    return Figure([data], layout, "which class is taken for which", height=420)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}%"

"""What skew costs: a comparison's table of federations from none to its own."""

from __future__ import annotations

from typing import Any

from askew.report.page.blocks import Section, Table, Text
from askew.report.page.evaluation import is_number
from askew.report.page.report import Report


def section(report: Report) -> Section | None:
    rows = report.table.get("skew")
    if not rows:
        return None
    cells = [[str(row.get("name", "")), _number(row.get("emd"), "{:.2f}"),
              report.measure.shown(*(row.get(key) if is_number(row.get(key)) else None
                                     for key in ("accuracy_mean", "accuracy_std"))),
              _number(row.get("loss"), "{:+.1%}").replace("%", " points")] for row in rows]
    return Section("skew", "What skew costs", [
        Table(["Federation", "#EMD", "#Accuracy, test set", "#Against one place"], cells),
        Text("The same method and rounds on the same data; what changes is how clients share them.")])


def _number(value: Any, how: str) -> str:
    return how.format(value) if value is not None and is_number(value) else "–"

"""What was sent for it: bytes in both directions against the score."""

from __future__ import annotations

from itertools import accumulate

from askew.report.page.blocks import Section, Text
from askew.report.page.curves import figure
from askew.report.page.report import Report, Run


def section(report: Report) -> Section | None:
    sending = [series for series in report.series if not series.in_one_place and megabytes(series.first)]
    if not sending:
        return None
    measure = report.measure
    blocks = [figure(sending, measure.of, measure.name, measure.is_share, sent=_behind),
              Text("Weights down to the clients of a round and updates up from them, as compressed as the recipe sends "
                   "them. Farther left is cheaper.")]
    return Section("bytes", f"Bytes against {measure.name}", blocks)


def megabytes(run: Run) -> float:
    return (run.total("bytes_up") + run.total("bytes_down")) / 1e6


def _behind(run: Run) -> list[float]:
    return list(accumulate((r.get("bytes_up", 0) + r.get("bytes_down", 0)) / 1e6 for r in run.records))

"""What was left out of rounds, and why: clients that dropped out or were late, updates that a guard refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

from askew.report.page.blocks import Figure, Section, Table, Text, axis, line
from askew.report.page.report import Report, Run, Series, client_name
from askew.rounds.left_out import NAMED, in_words, totals


def section(report: Report) -> Section | None:
    blocks = report.per_run(_of_run)
    return Section("dropped", "What was left out", blocks) if blocks else None


def _of_run(series: Series, run: Run) -> list[Any]:
    reasons = totals(run.records)
    if not reasons:
        return []
    looks = [line(at, reason.replace("_", " "), f"reason {reason}") for at, reason in enumerate(reasons)]
    rounds = [record["round"] for record in run.records]
    data = [{"type": "bar", "name": look.label, "legendgroup": look.group, "x": rounds,
             "y": [record.get("dropped", {}).get(reason, 0) for record in run.records],
             "marker": {"color": look.colour}, "hovertemplate": "%{y} in round %{x}"}
            for look, reason in zip(looks, reasons, strict=True)]
    layout = {"barmode": "stack", "bargap": 0.1, "xaxis": axis("round"), "yaxis": axis("updates left out")}
    return [Text(f"{in_words(reasons)}."), Figure(data, layout, "updates left out in each round", 260, looks),
            Table(["Why", "#Updates", "Clients most often among them"],
                  [[look.label, f"{count:,}", _who(run, reason)]
                   for look, (reason, count) in zip(looks, reasons.items(), strict=True)]),
            Text(f"Of each round and reason, records name {NAMED} clients at most.")]


def _who(run: Run, reason: str) -> str:
    counted = Counter(client for record in run.records
                      for client in record.get("dropped_clients", {}).get(reason, []))
    names = (run.clients or {}).get("name") or []
    return ", ".join(f"{client_name(names[k] if k < len(names) else str(k))} ({times}×)"
                     for k, times in counted.most_common(5))

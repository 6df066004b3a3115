"""Items with the paper's numbers beside ours: what `askew reproduce` prints and what the pages show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from askew.papers.decision import LOST, Decision, asks_for_lost, decide
from askew.papers.item import Claim, Item, StandIn
from askew.papers.measures import measure
from askew.papers.numbers import Printed, printed
from askew.papers.plan import Need, at_scale, needs
from askew.papers.store import Results
from askew.papers.values import Value, value_of
from askew.papers.verdict import VERDICTS, Verdict, kind, verdicts

Status = Literal["measured", "partial", "not run"]
# The first word of a decision -> how many of them are called.
CLAIMS = {"holds": "hold", "fails": "fail", "open": "open", "not measured": "not measured"}
HOLDS = {"holds": True, "fails": False}  # every other decision leaves it open


@dataclass(frozen=True)
class RowSummary:
    """A row: the paper's number, ours, and how they compare."""

    name: str
    unit: str
    paper: Printed | None
    ours: Value
    verdict: Verdict | None


@dataclass(frozen=True)
class ClaimSummary:
    """A claim and what our values say about it.

    Args:
        by: the item whose set-up stood in for that of the claim's own, and decided it; None: its own.
    """

    claim: Claim
    decision: Decision
    by: str | None = None


@dataclass(frozen=True)
class ItemSummary:
    """An item at one scale.

    Args:
        item: at the scale of the results (quick: with reduced recipes and the rows of that version).
        claims: always "not measured" at the quick scale, whose numbers are not the paper's.
        needs: the runs that it takes.
    """

    item: Item
    scale: str
    status: Status
    rows: tuple[RowSummary, ...]
    claims: tuple[ClaimSummary, ...]
    needs: tuple[Need, ...]

    @property
    def runs_done(self) -> int:
        return sum(need.done for need in self.needs)

    @property
    def images(self) -> int:
        """Still to be trained on."""
        return sum(need.images_left for need in self.needs)

    def as_mapping(self, estimated_s: float | None = None) -> dict[str, Any]:
        """One entry of `askew reproduce --json`; numbers in the unit of the row."""
        return {
            "paper": self.item.paper, "item": self.item.name, "title": self.item.title, "variant": self.item.variant,
            "scale": self.scale, "status": self.status,
            "rows": [{"name": row.name, "unit": row.unit, "paper": row.paper and row.paper.value,
                      "paper_spread": row.paper and row.paper.spread, "about": bool(row.paper and row.paper.about),
                      "ours": row.ours.mean, "spread": row.ours.spread, "noise": row.ours.noise, "n": row.ours.n,
                      "diverged": row.ours.diverged, "verdict": row.verdict} for row in self.rows],
            "claims": [{"says": judged.claim.says, "where": judged.claim.where, "holds": HOLDS.get(judged.decision),
                        "decision": judged.decision, "by": judged.by} for judged in self.claims],
            "runs": len(self.needs), "done": self.runs_done, "images": self.images, "estimated_s": estimated_s,
        }


def summarise(item: Item, results: Results, seeds: int | None = None) -> ItemSummary:
    """An item with everything that the results files hold of it, at their scale.

    Args:
        seeds: how many each run is wanted with, for what is left to do; all seeds that are there count in the values.
    """
    scaled = at_scale(item, results.scale)
    values = {row.name: value_of(row, results, item.paper) for row in scaled.rows}
    papers = printed(item)
    judged = verdicts(values, papers, {row.name: kind(row) for row in scaled.rows}, results.scale)
    rows = tuple(RowSummary(row.name, papers[row.name].unit if row.name in papers else measure(row.measure).unit,
                            papers.get(row.name), values[row.name], judged[row.name]) for row in scaled.rows)
    wanted = tuple(needs([item], results, seeds))
    return ItemSummary(scaled, results.scale, _status(scaled, values, wanted), rows, _claims(item, values, results),
                       wanted)


def counts(summaries: Sequence[ItemSummary]) -> dict[str, dict[str, int]]:
    """How many of the papers' numbers and claims came out how.

    Returns:
        {"numbers": {"within", "ordering holds", "open", "differs", "not measured"}, "claims": {"hold", "fail", "open",
        "not measured"}}. Rows for which the paper prints no number do not count, and a number that stands in several
        tables and figures counts once, where it stands first. Variants, whose set-up is not the paper's, do not count
        at all.
    """
    judged: Counter[str] = Counter()
    decided: Counter[str] = Counter()
    seen: set[Any] = set()
    for summary in summaries:
        if summary.item.variant:
            continue
        decided.update(CLAIMS[judged.decision.partition(":")[0]] for judged in summary.claims)
        for row, shown in zip(summary.item.rows, summary.rows, strict=True):
            what = shown.paper and (summary.item.paper, shown.paper.value, row.measure,
                                    *(r.fingerprint for r in row.recipes), None,
                                    *(r.fingerprint for r in row.less_than))
            if shown.paper and not shown.paper.again and what not in seen:
                seen.add(what)
                judged[shown.verdict or "not measured"] += 1
    return {"numbers": {name: judged[name] for name in (*VERDICTS, "not measured")},
            "claims": {name: decided[name] for name in CLAIMS.values()}}


def _claims(item: Item, values: Mapping[str, Value], results: Results) -> tuple[ClaimSummary, ...]:
    if results.scale != "full":
        return tuple(ClaimSummary(claim, "not measured") for claim in item.claims)
    other = item.stand_in or StandIn("")
    rows = [row.changed(other.change) for row in item.rows] if other.change else ()
    changed = {row.name: value_of(row, results, item.paper) for row in rows}
    variant = other.item() if other.item else None
    of_variant = {row.name: value_of(row, results, item.paper) for row in variant.rows} if variant else {}
    same = {claim.says: claim for claim in variant.claims} if variant else {}

    def judged(claim: Claim) -> ClaimSummary:
        decision, instead = decide(claim, values), None
        if changed and decision in (LOST, "not measured") and asks_for_lost(claim, values):
            instead = decide(claim, changed)
        elif decision == "not measured" and claim.says in same:
            instead = decide(same[claim.says], of_variant)
        if instead is None or instead in (LOST, "not measured"):
            return ClaimSummary(claim, decision)
        return ClaimSummary(claim, instead, other.name)

    return tuple(judged(claim) for claim in item.claims)


def _status(item: Item, values: Mapping[str, Value], wanted: Sequence[Need]) -> Status:
    if all(values[row.name].measured for row in item.rows if row.recipes):
        return "measured"
    return "partial" if any(need.done for need in wanted) else "not run"

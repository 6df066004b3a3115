"""What `askew advise` found, as the page shows it: decision, ranking, facts, cost, recipe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from askew.advice.advice import ADVICE
from askew.core import files
from askew.core.errors import AskewError
from askew.report.page.blocks import Code, Fact, Facts, Figure, Section, Table, Text, axis
from askew.report.page.evaluation import is_number

# What is shown of the skew: name in the file -> in words, and the name of its chance level.
MEASURES = {"mean_emd": ("Mean EMD of labels", "chance_emd"), "hellinger": ("Hellinger distance", "chance_hellinger"),
            "jensen_shannon": ("Jensen-Shannon distance", "chance_jensen_shannon"), "gini": ("Gini of sizes", ""),
            "norm_ratio": ("N/E of FedAvg's first rounds", "")}


def read_advice(path: Path) -> dict[str, Any]:
    """What `askew advise --out` wrote; refused where a part is missing that the page is made of."""
    advice = files.read_json(path, "advice")
    for name, kind in (("decision", Mapping), ("ranking", list), ("skew", Mapping), ("cost", Mapping), ("recipe", str)):
        if not isinstance(advice.get(name), kind):
            raise AskewError(f"{str(path)!r} is damaged: it has no {name}; ask for the advice again")
    if not all(isinstance(row, Mapping) and isinstance(row.get("method"), str) for row in advice["ranking"]):
        raise AskewError(f"{str(path)!r} is damaged: a row of its ranking names no method; ask for the advice again")
    return advice


def is_advice(folder: Path) -> bool:
    return (folder / ADVICE).is_file()


def title(advice: Mapping[str, Any]) -> tuple[str, str]:
    """The page's title, and the line under it."""
    chosen = advice["decision"].get("method")
    head = f"Use {chosen}" if isinstance(chosen, str) else "No remedy is needed"
    return f"{head}: advice for {advice.get('data', 'a federation')}", " · ".join(
        [str(advice.get("population", "")), f"{advice.get('rounds', '?')} rounds", f"seed {advice.get('seed', '?')}"])


def sections(advice: Mapping[str, Any]) -> list[Section]:
    """The whole page."""
    made = [_decision(advice), _ranking(advice), _skew(advice), _cost(advice)]
    return [*made, Section("recipe", "The recipe", [Code("As askew run takes it", advice["recipe"])])]


def _decision(advice: Mapping[str, Any]) -> Section:
    decision, chosen = advice["decision"], advice["decision"].get("method")
    row: Mapping[str, Any] = next((row for row in advice["ranking"] if row["method"] == chosen), {})
    facts = [Fact("Remedy", str(chosen) if chosen else "none", f"margin {decision.get('margin')} {_unit(advice)}")]
    if row:
        facts.append(Fact("Gain over tuned FedAvg", _number(row.get("gain"), "{:+.1f}"),
                          f"{_interval(row)}, {row.get('seeds')} fresh seeds"))
    facts.append(Fact("Trained", f"{advice.get('runs')} runs", f"{_number(advice.get('seconds'), '{:.0f}')} s"))
    notes = [Text(str(note), is_note=True) for note in _list(advice.get("notes"))]
    if advice.get("from_counts"):
        notes.insert(0, Text("Made from label counts alone, on other data: skew of features is not in it.",
                             is_note=True))
    return Section("overview", "The decision", [Facts(facts), Text(str(decision.get("text", ""))), *notes])


def _ranking(advice: Mapping[str, Any]) -> Section:
    rows, chosen = advice["ranking"], advice["decision"].get("method")
    table = Table(["Method", "Setting", f"#Gain, {_unit(advice)}", "#95% interval", "#Seeds", "#Chance of being best",
                   "Asks for"],
                  [[row["method"], str(row.get("setting", "")), _number(row.get("gain"), "{:+.1f}"), _interval(row),
                    str(row.get("seeds", "")), _number(row.get("chance_best"), "{:.0%}"),
                    "; ".join(map(str, _list(row.get("demands")))) or "nothing more"] for row in rows],
                  strong=[at for at, row in enumerate(rows) if row["method"] == chosen])
    struck = [Text(f"Struck out: {row.get('method')}: {row.get('reason')}") for row in _list(advice.get("struck"))
              if isinstance(row, Mapping)]
    shown = [row for row in rows if all(_is_known(row.get(key)) for key in ("gain", "low", "high"))][::-1]
    figure = Figure(
        [{"type": "scatter", "mode": "markers", "x": [row["gain"] for row in shown],
          "y": [row["method"] for row in shown], "marker": {"color": "--c0", "size": 9},
          "error_x": {"type": "data", "symmetric": False, "array": [row["high"] - row["gain"] for row in shown],
                      "arrayminus": [row["gain"] - row["low"] for row in shown], "color": "--c0"}}],
        {"xaxis": axis(f"gain over tuned FedAvg, {_unit(advice)}", zeroline=True), "yaxis": {"automargin": True}},
        "Each method's gain over tuned FedAvg, with its interval", height=90 + 28 * max(1, len(shown)))
    return Section("ranking", "The contest", [
        figure, table, *struck,
        Text("Gains on the test data, paired by seeds that no setting was chosen by; settings were chosen on held-out "
             "training examples. The nominee was measured again on further seeds.")])


def _skew(advice: Mapping[str, Any]) -> Section:
    skew = advice["skew"]
    rows = [[words, _number(skew.get(name), "{:.2f}"), _number(skew.get(chance), "{:.2f}")]
            for name, (words, chance) in MEASURES.items() if _is_known(skew.get(name))]
    features = skew.get("features")
    if isinstance(features, Mapping):
        rows.append(["Inputs of one class differ between clients (p)", _number(features.get("p"), "{:.3f}"), "–"])
    return Section("skew", "How skewed it is", [Table(["Measure", "#Here", "#By chance alone"], rows)])


def _cost(advice: Mapping[str, Any]) -> Section:
    cost = advice["cost"]
    names = {"here": "This federation", "iid": "The same clients without skew", "centralised": "All data in one place"}
    rows = [[words, _number(place.get("mean"), "{:.4g}"), _number(place.get("std"), "{:.2g}")]
            for name, words in names.items() if isinstance(place := cost.get(name), Mapping)]
    headline = str(cost.get("headline", "score")).replace("_", " ")
    return Section("cost", "What skew costs FedAvg", [
        Table(["Tuned FedAvg", f"#{headline}, test set", "#± over seeds"], rows)])


def _unit(advice: Mapping[str, Any]) -> str:
    return str(advice.get("unit", "points"))


def _interval(row: Mapping[str, Any]) -> str:
    return f"{_number(row.get('low'), '{:+.1f}')} to {_number(row.get('high'), '{:+.1f}')}"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_known(value: Any) -> bool:
    return value is not None and is_number(value)


def _number(value: Any, how: str) -> str:
    return how.format(value) if _is_known(value) else "–"

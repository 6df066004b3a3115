"""Judge `askew advise` by the atlas: regret, harm, false alarms, coverage, against four other ways to choose.

    python benchmarks/advise_proof.py results/advise      reads atlas.parquet and federations.json there, writes
                                                          proof.json there, docs/advise.md's table and the figures

Nothing is trained: the contest is held again, and finds every trial in the atlas. No data are needed.

    truth       of a setting: its mean accuracy on the test set over 20 seeds that nobody chose anything by
    oracle      the best setting, among each method's best by exhaustive search, advise's finalists and the three best
                on the test set: the best on ten of these seeds, measured on the other ten, and the other way round,
                since the best of many noisy means is too high
    regret      oracle less the truth of what was chosen, in points
    harm        a remedy was chosen that is worse than tuned FedAvg
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from askew.advice.candidates import OPPONENT, Candidate
from askew.advice.contest import Contest, Plan, hold
from askew.advice.gains import Scale, Score, student
from askew.core.recipe import Recipe

FRESH = range(5_000, 5_020)  # seeds of the atlas's last step: nothing was chosen by them
AGAIN = (10_000, 20_000, 30_000, 40_000)  # first seeds of further contests on federations without skew
ROOT = Path(__file__).resolve().parents[1]
SCALE = Scale(higher_is_better=True, is_share=True)
MARGIN = 1.0
HARM = 0.5  # points below exhaustive search
KEPT = (2, 3, 4, 8)  # settings of FedAvg that stay at first; 4 in the contest, all 8 in exhaustive search
DRAWS = 200  # of the random chooser
# What NIID-Bench's study concludes (Li et al. 2022, section 5.1): FedProx under label and quantity skew, SCAFFOLD under
# feature skew. Without skew there is nothing to choose.
TREE = {"iid": "fedavg", "dirichlet": "fedprox", "shards": "fedprox", "emd": "fedprox", "quantity": "fedprox",
        "noise": "scaffold", "natural": "scaffold"}
TABLE = ("<!-- made by benchmarks/advise_proof.py -->", "<!-- end -->")


@dataclass
class Case:
    """One federation with all its scores."""

    about: dict[str, Any]
    rows: dict[tuple[str, int, int], Score]

    def __post_init__(self) -> None:
        self.rounds: int = self.about["rounds"]
        self.plan = Plan(self.rounds)
        recipe = Recipe()  # nobody looks at it: trials are looked up by their names
        keys = list(dict.fromkeys(key for key, seed, _ in self.rows if seed < self.plan.selection))  # in their order
        listed = [Candidate(*_parts(key), recipe) for key in keys]
        self.candidates = {method: [c for c in listed if c.method == method] for method in self.about["demands"]}
        truths = {key: np.array([100 * self.rows[key, s, self.rounds].test for s in FRESH])
                  for key in keys if all((key, s, self.rounds) in self.rows for s in FRESH)}
        self.truths = {key: values for key, values in truths.items() if np.isfinite(values).all()}
        demands = {method: tuple(values) for method, values in self.about["demands"].items()}
        self.contest = self.hold(demands, 0)
        self.again = [self.hold(demands, first) for first in (AGAIN if self.about["skew"] == "iid" else ())]
        self.exhaustive = {method: max(settings, key=lambda c: self.mean(c.key, "held_out")).key
                           for method, settings in self.candidates.items()}

    def hold(self, demands: Mapping[str, tuple[float, ...]], first: int) -> Contest:
        return hold(self.candidates, self.look_up, self.plan, SCALE, demands=demands, margin=MARGIN, seed=first)

    def look_up(self, candidates: Any, seeds: Any, rounds: int) -> dict[tuple[str, int], Score]:
        return {(c.key, s): self.rows[c.key, s, rounds] for c in candidates for s in seeds}

    def mean(self, key: str, on: str) -> float:
        """Over the selection seeds."""
        values = [getattr(self.rows[key, s, self.rounds], on) for s in range(self.plan.selection)]
        return -math.inf if any(map(math.isnan, values)) else float(np.mean(values))

    def truth(self, key: str) -> float:
        """In percent; of a setting that nobody but the random chooser took, of its three seeds."""
        return float(self.truths[key].mean()) if key in self.truths else max(0.0, 100 * self.mean(key, "test"))

    @property
    def oracle(self) -> float:
        half = len(FRESH) // 2
        picks = [max(self.truths, key=lambda key: float(self.truths[key][part].mean()))
                 for part in (slice(None, half), slice(half, None))]
        return float(np.mean([self.truths[picks[0]][half:].mean(), self.truths[picks[1]][:half].mean()]))

    def shortfall(self, keep: int) -> float:
        """Points that FedAvg lacks, against exhaustive search, where so many of its settings stay at first."""
        quarter = self.plan.first_rounds
        ranked = sorted(self.candidates[OPPONENT],
                        key=lambda c: SCALE.best_first(self.rows[c.key, 0, quarter].held_out))
        best = max(ranked[:keep], key=lambda c: self.mean(c.key, "held_out"))
        return self.truth(self.exhaustive[OPPONENT]) - self.truth(best.key)

    @property
    def advised(self) -> str:
        chosen = self.contest.chosen
        return self.contest.opponent.key if chosen is None else self.contest.entry(chosen).finalist.key

    @property
    def cheapest(self) -> str:
        """The least demanding finalist whose interval on fresh seeds lies above the margin, whatever others gain."""
        able = [entry for entry in self.contest.entries if entry.gain.low > MARGIN and not entry.gain.broke_off]
        first = min(able, key=lambda entry: self.about["demands"][entry.method], default=None)
        return self.contest.opponent.key if first is None else first.finalist.key

    @property
    def trials(self) -> float:
        """Whole runs that the contest costs."""
        return self.contest.rounds / self.rounds


def _parts(key: str) -> tuple[str, str]:
    method, _, setting = key.partition(" ")
    return method, setting


def read(folder: Path) -> list[Case]:
    frame = pandas.read_parquet(folder / "atlas.parquet")
    about = {facts["federation"]: facts for facts in
             json.loads((folder / "federations.json").read_text())["federations"]}
    cases = []
    for name, part in frame.groupby("federation", observed=True):
        rows = {(f"{method} {setting}", int(seed), int(at)): Score(_digits(held_out), _digits(test))
                for method, setting, seed, at, held_out, test in zip(
                    part.method, part.setting, part.seed, part["round"], part.held_out_accuracy, part.accuracy,
                    strict=True)}
        cases.append(Case(about[str(name)], rows))
    return sorted(cases, key=lambda case: case.about["federation"])


def _digits(value: float) -> float:
    """As the contest had it: the atlas keeps 32 bits."""
    return float(f"{value:.6g}")


def best_on_average(cases: list[Case], left_out: str) -> dict[str, str]:
    """For each value of a property: the method with the highest mean truth on federations that do not have it."""
    chosen = {}
    for value in {case.about[left_out] for case in cases}:
        others = [case for case in cases if case.about[left_out] != value] or cases
        methods = [m for m in cases[0].candidates if all(case.exhaustive[m] in case.truths for case in others)]
        chosen[value] = max(methods, key=lambda m: np.mean([case.truth(case.exhaustive[m]) for case in others]))
    return chosen


def at_random(case: Case, number: int) -> float:
    """The mean regret of taking the best, by held-out examples, of some settings drawn at random, on three seeds."""
    draw = np.random.default_rng(number)
    keys = [c.key for settings in case.candidates.values() for c in settings]
    tried = max(1, round(case.trials / case.plan.selection))
    picks = [max(draw.choice(keys, min(tried, len(keys)), replace=False), key=lambda k: case.mean(k, "held_out"))
             for _ in range(DRAWS)]
    return float(np.mean([case.truth(str(pick)) for pick in picks]))


def judge(cases: list[Case]) -> dict[str, Any]:
    by_data, by_skew = (best_on_average(cases, name) for name in ("data", "skew"))
    choosers = {
        "askew advise": lambda case, i: case.truth(case.advised),
        "advise, if it took the cheapest that helps": lambda case, i: case.truth(case.cheapest),
        "always FedAvg, tuned": lambda case, i: case.truth(case.exhaustive[OPPONENT]),
        "the best on average, another data set": lambda case, i: case.truth(
            case.exhaustive[by_data[case.about["data"]]]),
        "the best on average, another skew": lambda case, i: case.truth(case.exhaustive[by_skew[case.about["skew"]]]),
        "NIID-Bench's conclusions": lambda case, i: case.truth(case.exhaustive[TREE[case.about["skew"]]]),
        "random, same budget": at_random,
    }
    table = {}
    for name, choose in choosers.items():
        got = np.array([choose(case, i) for i, case in enumerate(cases)])
        regret = np.array([case.oracle for case in cases]) - got
        gain = got - np.array([case.truth(case.exhaustive[OPPONENT]) for case in cases])
        table[name] = {"mean_regret": float(regret.mean()), "regret_95th": float(np.percentile(regret, 95)),
                       "worst_regret": float(regret.max()), "mean_gain": float(gain.mean()),
                       "regrets": [round(float(r), 3) for r in regret]}
        if name != "random, same budget":
            table[name]["harm"] = float((gain < -HARM).mean())
    told = [_told(case) for case in cases]
    remedies = [row for row in told if row["chosen"]]
    without_skew = [(case, contest) for case in cases if case.about["skew"] == "iid"
                    for contest in (case.contest, *case.again)]
    return {
        "federations": len(cases), "margin": MARGIN, "choosers": table,
        "best_on_average": {"data": by_data, "skew": by_skew},
        "advise": {
            "remedies": len(remedies), "harm": sum(row["true_gain"] < 0 for row in remedies) / len(cases),
            "iid": {"contests": len(without_skew),
                    "remedies": sum(contest.chosen is not None for _, contest in without_skew),
                    "false_alarms": sum(_is_false(case, contest) for case, contest in without_skew)},
            "false_alarms": sum(row["true_gain"] < MARGIN for row in remedies) / len(cases),
            "missed": sum(not row["chosen"] and row["best_gain"] >= 2 * MARGIN for row in told) / len(cases),
            "short_of_exhaustive": short_of_exhaustive(cases), "coverage": coverage(cases),
            "mean_trials": float(np.mean([case.trials for case in cases])),
            "exhaustive_trials": float(np.mean([sum(map(len, case.candidates.values())) * case.plan.selection
                                                for case in cases]))},
        "live": [{key: case.about[key] for key in ("federation", "live_chosen", "chosen", "live_gains",
                                                   "looked_up_gains")}
                 for case in cases if "live_chosen" in case.about],
        "told": told,
    }


def _is_false(case: Case, contest: Contest) -> bool:
    """Whether a remedy was named that truly gains less than the margin."""
    if contest.chosen is None:
        return False
    return case.truth(contest.entry(contest.chosen).finalist.key) - case.truth(contest.opponent.key) < MARGIN


def _told(case: Case) -> dict[str, Any]:
    contest = case.contest
    fedavg = case.truth(contest.opponent.key)
    gain = None if contest.nominee is None else contest.entry(contest.nominee).gain
    return {"federation": case.about["federation"], "data": case.about["data"], "skew": case.about["skew"],
            "fedavg": round(fedavg, 2), "nominee": contest.nominee, "chosen": contest.chosen,
            "told_gain": gain and gain.mean, "low": gain and gain.low, "high": gain and gain.high,
            "true_gain": round(case.truth(case.advised) - fedavg, 3),
            "nominee_truth": None if contest.nominee is None else round(
                case.truth(contest.entry(contest.nominee).finalist.key) - fedavg, 3),
            "best_gain": round(case.oracle - fedavg, 3), "regret": round(case.oracle - case.truth(case.advised), 3)}


def coverage(cases: list[Case]) -> dict[str, Any]:
    """How often intervals of 95% hold the truth. The truth has an error of its own, of 20 seeds: so told gain and truth
    are compared as two means with unequal variances (Welch), whose difference an interval of 95% should hold 0."""
    hits: dict[str, list[bool]] = {"of nominees, 12 seeds": [], "of all finalists, 6 seeds": []}
    for case in cases:
        its = case.contest.opponent.key
        for entry in case.contest.entries:
            key = entry.finalist.key
            if key not in case.truths or its not in case.truths or not entry.gain.seeds > 1:
                continue
            truth = case.truths[key] - case.truths[its]
            own = truth.std(ddof=1) / math.sqrt(len(truth))
            seeds = entry.gain.seeds
            error = entry.gain.std / math.sqrt(seeds)
            both = math.hypot(error, own)
            if both == 0:  # the same runs: FedNova on clients of equal sizes is FedAvg
                continue
            freedom = both**4 / (error**4 / (seeds - 1) + own**4 / (len(truth) - 1))
            half = student(max(1, int(freedom))) * both
            kind = "of nominees, 12 seeds" if entry.method == case.contest.nominee else "of all finalists, 6 seeds"
            hits[kind].append(abs(entry.gain.mean - truth.mean()) <= half)
    hits["of both"] = [hit for kind in list(hits) for hit in hits[kind]]
    return {kind: {"share": float(np.mean(values)), "intervals": len(values)} for kind, values in hits.items()
            if values}


def short_of_exhaustive(cases: list[Case]) -> dict[str, Any]:
    """Share of federations whose FedAvg is more than half a point below exhaustive search, by how many of its settings
    stay after the first step; and with the fewest that keep it under 5% on other data sets (on other kinds of skew)."""
    short = {keep: [case.shortfall(keep) > HARM for case in cases] for keep in KEPT}
    shares: dict[str, Any] = {str(keep): float(np.mean(values)) for keep, values in short.items()}
    for left_out in ("data", "skew"):
        chosen = []
        for i, case in enumerate(cases):
            others = [j for j, other in enumerate(cases) if other.about[left_out] != case.about[left_out]]
            keep = next(keep for keep in KEPT if np.mean([short[keep][j] for j in others]) < 0.05)
            chosen.append(short[keep][i])
        shares[f"chosen without its {left_out}"] = float(np.mean(chosen))
    return shares


def draw(proof: dict[str, Any], folder: Path) -> None:
    """Two figures: regret of each chooser, and gains as told against true ones."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = pyplot.subplots(figsize=(7.2, 3.2), layout="constrained")
    names = list(proof["choosers"])[::-1]
    for at, name in enumerate(names):
        regrets = np.sort(proof["choosers"][name]["regrets"])
        jitter = np.random.default_rng(at).uniform(-0.22, 0.22, len(regrets))
        axes.plot(regrets, at + jitter, "o", ms=3.5, alpha=0.6, color="#1f5fa8" if "advise" in name else "#777777")
        axes.plot([np.mean(regrets)] * 2, [at - 0.38, at + 0.38], color="#c03020", lw=2)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("regret against the oracle, points (line: mean)")
    axes.set_xscale("symlog", linthresh=2)
    axes.set_xticks([-1, 0, 1, 2, 5, 10, 20, 40], ["-1", "0", "1", "2", "5", "10", "20", "40"])
    figure.savefig(folder / "advise-regret.png", dpi=140)
    pyplot.close(figure)
    figure, axes = pyplot.subplots(figsize=(4.6, 4.2), layout="constrained")
    for row in proof["told"]:
        if row["told_gain"] is not None:
            colour = "#1f5fa8" if row["chosen"] else "#999999"
            axes.errorbar(row["nominee_truth"], row["told_gain"], color=colour, fmt="o", ms=3.5, lw=1,
                          yerr=[[row["told_gain"] - row["low"]], [row["high"] - row["told_gain"]]])
    low, high = axes.get_xlim()
    axes.plot([low, high], [low, high], color="#c03020", lw=0.8)
    axes.axhline(proof["margin"], color="#bbbbbb", lw=0.8, ls="--")
    axes.set_xlabel("true gain over tuned FedAvg, points (20 seeds)")
    axes.set_ylabel("gain that advise tells, with its interval")
    figure.savefig(folder / "advise-gains.png", dpi=140)
    pyplot.close(figure)


def page(proof: dict[str, Any]) -> str:
    """The table of docs/advise.md."""
    advise, rows = proof["advise"], []
    for name, row in proof["choosers"].items():
        harm = "–" if "harm" not in row else f"{row['harm']:.0%}"
        rows.append(f"| {name} | {row['mean_regret']:.2f} | {row['regret_95th']:.1f} | {row['worst_regret']:.1f} | "
                    f"{row['mean_gain']:+.2f} | {harm} |")
    iid, live = advise["iid"], proof["live"]
    same = sum(row["live_chosen"] == row["chosen"] for row in live)
    lines = [f"{proof['federations']} federations. Regret in points of test accuracy; harm: more than half a point "
             "worse than FedAvg tuned by exhaustive search.", "",
             "| who chooses | mean regret | 95th percentile | worst | mean gain over tuned FedAvg | harm |",
             "|---|---|---|---|---|---|", *rows, "",
             "| what was promised | asked | measured |", "|---|---|---|",
             f"| mean regret | under 1 point | {proof['choosers']['askew advise']['mean_regret']:.2f} |",
             "| harm: a remedy that is truly worse than the contest's tuned FedAvg | under 5% | "
             f"{advise['harm']:.1%} |",
             "| harm: advice more than half a point below FedAvg tuned by exhaustive search | under 5% | "
             f"{proof['choosers']['askew advise']['harm']:.1%} |",
             "| FedAvg more than half a point below exhaustive search, if 2, 3, 4 of its 8 settings stay at first | | "
             + ", ".join(f"{advise['short_of_exhaustive'][str(keep)]:.1%}" for keep in KEPT[:3]) + " |",
             "| the same, with the fewest that keep it under 5% on other data sets; other kinds of skew | under 5% | "
             + ", ".join(f"{advise['short_of_exhaustive'][f'chosen without its {name}']:.1%}"
                         for name in ("data", "skew")) + " |",
             "| false alarms: a remedy that truly gains less than the margin | under 5% | "
             f"{advise['false_alarms']:.1%} |",
             f"| the same on IID federations | under 5% | {iid['false_alarms']} of {iid['contests']} contests |",
             "| any remedy on IID federations, whatever it gains | | "
             f"{iid['remedies']} of {iid['contests']} contests |",
             *(f"| intervals that hold the truth, {kind} | 90 to 98% | {row['share']:.1%} of {row['intervals']} |"
               for kind, row in advise["coverage"].items()),
             f"| missed: no remedy named where the oracle gains two points or more | | {advise['missed']:.1%} |",
             f"| whole runs trained, mean | | {advise['mean_trials']:.0f} (exhaustive search alone: "
             f"{advise['exhaustive_trials']:.0f}) |",
             *([f"| contests held live and by look-up that name the same remedy | | {same} of {len(live)} |"]
               if live else []), "",
             "![Regret of each way to choose](img/advise-regret.png)", "",
             "![Gains as told against true gains](img/advise-gains.png)", "",
             "<details><summary>Every federation</summary>", "",
             "| federation | tuned FedAvg, % | advised | told gain | true gain | the oracle's | regret |",
             "|---|---|---|---|---|---|---|",
             *(f"| {row['federation']} | {row['fedavg']:.1f} | {row['chosen'] or 'none'} | "
               + (f"{row['told_gain']:+.1f} ({row['low']:+.1f} to {row['high']:+.1f})" if row["chosen"] else "")
               + f" | {row['true_gain']:+.1f} | {row['best_gain']:+.1f} | {row['regret']:.1f} |"
               for row in proof["told"]), "", "</details>"]
    return "\n".join(lines)


def main() -> None:
    folder = Path(sys.argv[1])
    proof = judge(read(folder))
    (folder / "proof.json").write_text(json.dumps(proof, indent=1) + "\n")
    draw(proof, ROOT / "docs" / "img" if len(sys.argv) < 3 else Path(sys.argv[2]))
    document = ROOT / "docs" / "advise.md"
    text = page(proof)
    if document.exists() and len(sys.argv) < 3:
        before, _, rest = document.read_text(encoding="utf-8").partition(TABLE[0])
        document.write_text(f"{before}{TABLE[0]}\n{text}\n{TABLE[1]}{rest.partition(TABLE[1])[2]}", encoding="utf-8")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()

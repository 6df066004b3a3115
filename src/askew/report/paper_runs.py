"""How an item's numbers came about, or what it would take to get them, in a few lines of Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from askew.papers.plan import recipes_of
from askew.papers.store import Results, Run
from askew.papers.summary import ItemSummary


def how_it_was_run(s: ItemSummary, results: Results) -> str:
    """Hardware, precision, seeds, rounds, time, commit, command: what a number needs beside it to mean anything."""
    runs = list({run.key: run for recipe in recipes_of(s.item) for run in results.seeds(s.item.paper, recipe)}.values())
    environments = [run.environment for run in runs]
    seconds = sum(run.seconds / run.together for run in runs)  # a group's time is shared out among its runs
    facts = [
        _listed(e.get("device") for e in environments),
        _listed(f"{e.get('precision', 'fp32')} ({e.get('engine')} engine)" for e in environments),
        "torch " + _listed(e.get("versions", {}).get("torch") for e in environments),
        f"seeds {_listed(sorted({run.seed for run in runs}))}",
        f"{_listed(f'{rounds:,}' for rounds in sorted({run.rounds for run in runs}))} rounds",
        f"{len(runs)} run{'s' if len(runs) != 1 else ''} in {_time(seconds)}"
        + (" (of runs that trained together, their share)" if any(run.together > 1 for run in runs) else ""),
        "commit " + _listed(_short(e.get("commit")) for e in environments),
    ]
    missing = len(s.needs) - s.runs_done
    left = f" {missing} of {len(s.needs)} runs are still to be done." if missing else ""
    return f"*Run* with `{_command(s, runs)}`: {'; '.join(facts)}.{left}"


def _command(s: ItemSummary, runs: Sequence[Run]) -> str:
    """What runs the item again, as most of its runs were."""
    environment = Counter((str(run.environment.get("device")), str(run.environment.get("precision", "fp32")))
                          for run in runs)
    device, precision = environment.most_common(1)[0][0]
    seeds = len({run.seed for run in runs})
    options = [" --device cuda" * (not device.startswith("cpu")), f" --precision {precision}" * (precision != "fp32"),
               f" --seeds {seeds}" * (seeds != s.item.seeds)]
    return f"askew reproduce {s.item.address}" + "".join(options)


def what_it_takes(s: ItemSummary) -> str:
    """Runs and images to train on."""
    if not s.needs:
        return "nothing to train"
    return f"{len(s.needs)} run{'s' if len(s.needs) != 1 else ''}, {_count(s.images)} images"


def _listed(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values))


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _count(number: int) -> str:
    if number >= 1e9:
        return f"{number / 1e9:.1f} billion"
    return f"{number / 1e6:.0f} million" if number >= 1e7 else f"{number:,}"


def _short(commit: str | None) -> str:
    """Ten digits, and the mark of uncommitted changes."""
    return commit[:10] + ("+" if commit.endswith("+") else "") if commit else "unknown"

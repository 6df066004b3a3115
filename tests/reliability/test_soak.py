"""Memory and the time of a round do not grow over thousands of rounds; `make soak` goes on for longer."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import numpy as np
import pytest
from victims import BASE, LONG, record

import askew
from askew.pieces.methods import fedcd, scaffold

ROUNDS = 6000 if LONG else 200
TINY = BASE.replace(rounds=ROUNDS, population="iid(clients=20)", model="mlp(hidden=[4])", fraction=0.1, batch_size=100,
                    evaluate_every=50, probes=[])


def resident() -> float:
    """Megabytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("recipe", [TINY, scaffold(TINY), fedcd(TINY, milestones=[2, 4])],
                         ids=lambda recipe: recipe.name)
def test_nothing_grows(recipe: askew.Recipe, tmp_path: Path) -> None:
    seen: list[tuple[float, float]] = []
    gc.collect()
    gc.freeze()  # what other tests have left need not be looked at twenty times: what grows here is made from now on

    def on_round(record: askew.Record, recipe: askew.Recipe) -> None:
        if record["round"] % (ROUNDS // 20) == 0:
            gc.collect()
            seen.append((resident(), time.process_time()))

    askew.run(recipe, out=tmp_path / "run", on_round=on_round)
    memory, seconds = (np.array(column) for column in zip(*seen, strict=True))
    spent = np.diff(seconds)
    early, late = spent[:6].min(), spent[-6:].min()
    grown = float(memory[-1] - memory[4])
    # Records grow, by less than a kilobyte per round; a leaked model or graph would be a hundred times that.
    assert grown < 1.0 + ROUNDS / 1000 * 2, memory
    assert late < 2 * early + 0.05, spent
    record(f"soak-{recipe.name}", {"rounds": ROUNDS, "megabytes_after_a_quarter": round(float(memory[4]), 1),
                                   "megabytes_at_the_end": round(float(memory[-1]), 1),
                                   "cpu_seconds_per_round": {"early": round(early / (ROUNDS // 20), 5),
                                                             "late": round(late / (ROUNDS // 20), 5)}})

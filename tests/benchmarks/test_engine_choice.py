"""The stored table behind the rule of "auto" says what the rule as it is now does on it."""

import json
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import engine_choice
from workloads import workload

from askew.engine.build import build_task
from askew.engine.choice import choose

TABLE = json.loads((ROOT / "results" / "bench" / "engine-choice.json").read_text())


@pytest.mark.parametrize("threads", [1, 2])
def test_the_stored_judgement_is_of_the_rule_as_it_is(threads):
    judged = json.loads(json.dumps(engine_choice.judge(TABLE["rows"], threads)))
    assert judged == TABLE["rule"][f"{threads} threads"]  # else: engine_choice.py --judge, and docs/performance.md
    page = " ".join((ROOT / "docs" / "performance.md").read_text().split())
    assert f"{judged['fastest']} {'of 200 rows' if threads == 2 else 'and'}" in page
    assert f"at most {judged['worst'][0]['ratio']} x" in page


def test_a_loss_is_the_chosen_engines_time_over_the_fastest_ones():
    row = {"network": "n", "inputs": [4], "batch": 1, "cohort": 10, "weights": 10, "flops_per_step": 20,
           "seconds": {"sequential": 3.0, "vectorised": 2.0, "parallel": 1.0}}
    two, one = (engine_choice.judge([row], threads) for threads in (2, 1))
    assert (two["worst"][0]["taken"], two["worst"][0]["ratio"], two["fastest"]) == ("vectorised", 2.0, 0)
    assert (one["worst"][0]["taken"], one["worst"][0]["ratio"], one["fastest"]) == ("vectorised", 1.0, 1)
    alone = engine_choice.judge([{**row, "cohort": 1}], 2)  # `parallel` with one client is no other engine
    assert (alone["worst"][0]["taken"], alone["worst"][0]["ratio"]) == ("sequential", 1.5)


@pytest.mark.parametrize(("name", "engine"), [("W1", "parallel"), ("W2", "parallel"), ("W3", "vectorised")])
def test_the_workloads_get_the_engines_that_the_table_of_peers_names(name, engine):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        work = workload(name)
        assert choose(build_task(work.recipe, data=work.data)) == engine
    finally:
        torch.set_num_threads(before)

"""The derivation of docs/methods/scaffold.md, with two clients whose gradients are constant: 1 and -1."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
from scaffold_collapse import FROM_MODEL, amplification, case, correct_after_step, tables, train

from askew.core.client_piece import ClientChain, ClientContext, ClientPiece
from askew.core.tensors import ModelState, add, subtract
from askew.pieces.client.correct_drift import correct_drift
from askew.pieces.client.sgd import sgd

GRADIENTS = (1.0, -1.0)


def control_variates(pieces: list[ClientPiece], steps: int, rounds: int) -> list[float]:
    """c_0 after each round, where both clients take part and c is the mean of their control variates (0: opposite)."""
    chain, w = ClientChain(pieces), {"w": torch.zeros(1, dtype=torch.float64)}
    at = next(i for i, memory in enumerate(chain.keep(ModelState(w))) if memory != ())
    memories, everyone, history = [chain.keep(ModelState(w)) for _ in GRADIENTS], w, []
    for _ in range(rounds):
        for k, gradient in enumerate(GRADIENTS):
            ctx = ClientContext(w, w, 0, steps=steps, shared={"control": everyone})
            state = chain.begin(memories[k], ctx)
            for _ in range(steps):
                u, state = chain.update({"w": torch.full_like(w["w"], gradient)}, state, ctx)
                ctx = replace(ctx, params=add(ctx.params, u))
            _, memories[k] = chain.end({"update": subtract(ctx.params, w), "buffers": {}}, state, memories[k], ctx)
        everyone = {"w": (memories[0][at]["w"] + memories[1][at]["w"]) / 2}
        history.append(float(memories[0][at]["w"]))
    return history


def test_a_round_with_momentum_goes_so_many_times_as_far() -> None:
    assert amplification(0.9, 1) == pytest.approx(1)
    assert amplification(0.9, 3) == pytest.approx((1 + 1.9 + 2.71) / 3)  # 1.87
    assert amplification(0.9, 4) == pytest.approx((1 + 1.9 + 2.71 + 3.439) / 4)  # 2.26


@pytest.mark.parametrize(("steps", "explodes"), [(1, False), (3, False), (4, True), (32, True)])
def test_the_printed_formula_feeds_back_where_the_walk_is_more_than_twice_as_long(steps: int, explodes: bool) -> None:
    a = amplification(0.9, steps)
    controls = control_variates([correct_drift(0.1), sgd(0.1, momentum=0.9)], steps, 30)
    expected = [0.0]
    for _ in range(30):
        expected.append((1 - a) * expected[-1] + a * GRADIENTS[0])  # g_k - mean g = 1
    assert controls == pytest.approx(expected[1:])
    assert (abs(controls[-1] - 1) > 100) is explodes


def test_measured_gradients_do_not() -> None:
    assert control_variates([correct_drift(), sgd(0.1, momentum=0.9)], 32, 5) == pytest.approx([1.0] * 5)


def test_a_correction_behind_the_optimiser_does_not_but_its_control_variates_are_the_walk() -> None:
    controls = control_variates([sgd(0.1, momentum=0.9), correct_after_step(0.1)], 32, 5)
    assert controls == pytest.approx([amplification(0.9, 32)] * 5)


def test_the_page_has_the_tables_of_the_stored_results() -> None:
    page = (ROOT / "docs" / "methods" / "scaffold.md").read_text()
    written = tables(json.loads((ROOT / "results" / "scaffold" / "collapse.json").read_text())["rows"])
    assert len(written) == 5
    assert all(table in page for table in written)  # else: docs/methods/scaffold.md, with the text around them


@pytest.mark.parametrize("method", ["printed", "after step, random c, / |S|", FROM_MODEL])
def test_a_row_trains(method: str) -> None:
    (row,) = train([case("any", method, 0.01, 0.9, "iid", epochs=1, batch_size=36, rounds=1)], None)
    assert len(row["accuracies"]) == 3
    assert row["not_finite"] == 0

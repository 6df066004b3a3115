"""The same seed and clients give the same curve on Flower's grid and in the reference engine, whatever the recipe.

Real ServerApp loop, real ClientApps, Flower's wire format; `test_processes.py` has the processes.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
import torch
from local_grid import LocalGrid, deployed, settings_of_parts
from torch import nn

import askew
from askew.core import registry
from askew.core.recipe import Recipe
from askew.core.registry import piece

FIVE = Recipe(population="dirichlet(clients=5, alpha=0.5)", rounds=5, batch_size=40)


RECIPES = {
    "fedavg": {}, "fednnnn": {}, "fedcd(milestones=[1, 3])": {}, "scaffold": {}, "server_training": {},
    "ozdayi_combination": {}, "feddyn": {}, "median": {}, "kept_momentum": {"fraction": 0.6},
    "scaffold ": {"fraction": 0.4},
    "fedavg ": {"client": ["adam(lr=0.01)"], "epochs": 2, "batch_size": 0, "guard": ["leave_out()"]},
}
QUICK = ("fedavg", "scaffold ")  # without and with memory at the clients


@pytest.mark.parametrize("method", [pytest.param(method, marks=[pytest.mark.slow] * (method not in QUICK))
                                    for method in RECIPES])
def test_the_curve_is_that_of_the_reference_engine(tmp_path: Path, method: str) -> None:
    recipe = registry.build("method", method.strip(), base=FIVE).replace(**RECIPES[method])
    ours, theirs = deployed(tmp_path, recipe), askew.run(recipe, engine="sequential")
    for name in ("accuracy", "loss", "train_loss"):
        assert [record[name] for record in ours.records] == [record[name] for record in theirs.records], name
    for name, weights in theirs.model.items():
        assert torch.equal(ours.model[name], weights), name


@piece("model")
def normed_mlp(input_shape: tuple[int, ...] = (), num_classes: int = 0) -> nn.Module:
    """A network with buffers."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), 16), nn.BatchNorm1d(16), nn.ReLU(),
                         nn.Linear(16, num_classes))


def test_buffers_are_averaged_by_our_rule(tmp_path: Path) -> None:
    recipe = FIVE.replace(model="normed_mlp()", rounds=2)
    ours, theirs = deployed(tmp_path, recipe), askew.run(recipe, engine="sequential")
    assert int(theirs.model["2.num_batches_tracked"]) > 0
    for name, weights in theirs.model.items():
        assert torch.equal(ours.model[name], weights), name


@pytest.mark.parametrize("method", ["fedavg", "fedper(names=['fc2.*'])"])
def test_clients_with_test_examples_of_their_own_are_judged_as_in_the_simulation(tmp_path: Path, method: str) -> None:
    """A table that says whose each row is: the mean over clients of each one's score on its own test rows."""
    draw = random.Random(0)
    rows = "".join(f"{draw.choice('aabc')},{draw.gauss(0, 1):.3f},{draw.gauss(0, 1):.3f}\n" for _ in range(90))
    rows = "".join(f"{line},{int(float(line.split(',')[1]) > 0)}\n" for line in rows.splitlines())
    (tmp_path / "pooled.csv").write_text("hospital,u,v,ill\n" + rows)
    base = Recipe(data=f"table('{tmp_path / 'pooled.csv'}', label='ill', client='hospital')", population="natural()",
                  model="mlp(hidden=[8])", rounds=3)
    recipe = registry.build("method", method, base=base)
    ours = deployed(tmp_path, recipe, LocalGrid(tmp_path / "nodes", settings_of_parts(3)), clients=3)
    theirs = askew.run(recipe, engine="sequential")
    assert [r["accuracy"] for r in ours.records] == pytest.approx([r["accuracy"] for r in theirs.records], abs=1e-12)

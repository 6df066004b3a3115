"""Devices of another federation, by hand, and recipes that name the probe as it was called before."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import askew
from askew.core.dataset import Dataset, Examples
from askew.pieces.probe import accuracy_on_devices_of

CALL = "accuracy_on_devices_of(population='iid(clients=3)')"


def read(pencil, population, round):
    train = Examples(pencil.ctx.data.train.x, torch.tensor([0, 1, 1, 1]))
    ctx = replace(pencil.ctx, data=Dataset("pencil", train, pencil.ctx.data.test, ("a", "b")))
    return accuracy_on_devices_of(population).read(ctx, round, None, None)[0]["federation_device_accuracy_mean"]


def test_two_classes_by_hand(pencil):
    """The model answers always with class a: right on all of it and on nothing of class b."""
    round = pencil.round([(0, 0, 0, 0)], after=(1, 1, 1, -1))
    assert read(pencil, "label_blocks(clients=2)", round) == 0.5  # (1 + 0) / 2
    assert read(pencil, "pooled()", round) == 0.25  # one of its four training examples is of class a


def test_the_model_to_evaluate_is_judged(pencil):
    # The evaluated one gets all right.
    round = replace(pencil.round([(0, 0, 0, 0)], after=(1, 1, 1, -1)), evaluated=pencil.model((1, -1, 1, -1)))
    assert read(pencil, "label_blocks(clients=2)", round) == 1.0


@pytest.mark.parametrize("call", [f"askew.runs.judge:{CALL}", f"askew.simulate.judge:{CALL}",
                                  f"askew.simulate.judge:{CALL[:-1]}, of='model')"])
def test_recipes_that_name_its_old_places_are_read(call):
    now = askew.Recipe(probes=[CALL])
    assert askew.Recipe.from_mapping({"probes": [call]}) == now
    assert askew.Recipe.from_toml(f'probes = ["{call}"]') == now


def test_the_published_comparison_can_be_run_again():
    results = Path(__file__).parents[3] / "results" / "compare.json"
    for row in json.loads(results.read_text())["methods"]:
        recipe = askew.Recipe.from_mapping(row["settings"])
        assert [spec.name for spec in recipe.probes] in ([], ["accuracy_on_devices_of"])

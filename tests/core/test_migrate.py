"""Recipes that earlier versions wrote."""

import json
from pathlib import Path

import pytest

import askew
from askew.core.migrate import migrate
from askew.core.recipe import Recipe


@pytest.mark.parametrize(("before", "after"), [
    ("sgd(lr=0.1, lr_decay=0.992)", "sgd(lr=decay(start=0.1, factor=0.992))"),
    ("sgd(lr=0.1, momentum=0.9, weight_decay=0.0005, lr_drops=[25, 50, 75])",
     "sgd(lr=drops(start=0.1, at=[25, 50, 75]), momentum=0.9, weight_decay=0.0005)"),
    ("sgd(lr_decay=0.5, lr=0.2, lr_drops=[1], lr_drop=0.3)",
     "sgd(lr=drops(start=decay(start=0.2, factor=0.5), at=[1], factor=0.3))"),
    ("sgd(0.2, 0.9, 0.01, 0.5)", "sgd(lr=decay(start=0.2, factor=0.5), momentum=0.9, weight_decay=0.01)"),
    ("sgd(0.2, lr_decay=1.0, lr_drops=[], lr_drop=0.5, nesterov=True)", "sgd(lr=0.2, nesterov=True)"),
    ("sgd(lr_decay=0.5)", "sgd(lr=decay(start=0.1, factor=0.5))"),  # 0.1 was and is the default
    ("sgd(0.2, 0.9, 0.01, True)", "sgd(0.2, 0.9, 0.01, True)"),  # of this version
    ("sgd(lr=0.2)", "sgd(lr=0.2)"), ("sgd", "sgd"), ("clip_gradient(1.0)", "clip_gradient(1.0)"),
])
def test_a_rates_schedule_was_an_argument_of_sgd(before, after):
    assert migrate({"step": [before, "project_to_ball(1.0)"]}) == {"client": [after, "project_to_ball(1.0)"]}
    assert migrate({"step": before}) == {"client": [after]}
    assert Recipe.from_mapping({"step": before}) == Recipe(client=after)


@pytest.mark.parametrize(("before", "after"), [
    ({"step": "sgd(0.2)"}, ["sgd(0.2)"]), ({"step": ["sgd(0.2)"], "upload": []}, ["sgd(0.2)"]),
    ({"step": ["sgd(0.2)"], "upload": "quantize(8)"}, ["sgd(0.2)", "quantize(8)"]),
    ({"upload": ["quantize(8)"]}, ["sgd(lr=0.1)", "quantize(8)"]),  # the step was the default one
    ({"step": ["add_proximal(0.1)", "sgd(0.2)"], "upload": ["quantize(8)"]},
     ["add_proximal(0.1)", "sgd(0.2)", "quantize(8)"]),
])
def test_a_clients_pieces_stood_in_two_fields(before, after):
    assert migrate(before) == {"client": after}
    assert Recipe.from_mapping(before) == Recipe(client=after)


@pytest.mark.parametrize("key", ["step", "upload"])
def test_the_old_fields_are_named_with_the_new_one(key):
    for refused in (lambda: Recipe().replace(**{key: "sgd(0.2)"}), lambda: Recipe().with_setting(key, "sgd(0.2)"),
                    lambda: Recipe.from_mapping({"client": "sgd(0.1)", key: "sgd(0.2)"})):
        with pytest.raises(askew.AskewError, match=f"'{key}' is a part of client now: write client = "):
            refused()


def test_a_probes_name_was_that_of_its_module():
    call = "accuracy_on_devices_of(population='iid(clients=3)')"
    first = "askew.simulate.judge:accuracy_on_devices_of(population='iid(clients=3)', of='model')"
    for before in (first, f"askew.runs.judge:{call}", call):
        assert Recipe.from_mapping({"probes": ["update_norms()", before]}) == Recipe(probes=["update_norms()", call])


def test_the_settings_of_the_recorded_comparison_are_read():
    table = json.loads((Path(__file__).parents[2] / "results" / "compare.json").read_text())
    recipes = {row["name"]: Recipe.from_mapping(row["settings"]) for row in table["methods"]}
    assert (str(recipes["server_training"].population)
            == "shards(clients=10, shards_per_client=1) + hold_out(fraction=0.05)")
    assert recipes["centralised"].probes[0].name == "accuracy_on_devices_of"


@pytest.mark.parametrize(("before", "after"), [
    ({"population": "iid(clients=4)", "hold_out": 0.1, "hold_out_use": 0, "share": 0.0, "validation": 0.0},
     "iid(clients=4) + hold_out(fraction=0.1)"),
    ({"population": "iid(clients=4)", "hold_out": 0.2, "hold_out_use": 1000, "share": 0.5, "validation": 0.2},
     "iid(clients=4) + hold_out(fraction=0.2, use=1000) + share(fraction=0.5) + validation(fraction=0.2)"),
    # Of what is not held out nothing is used.
    ({"population": "iid(4)", "hold_out": 0.0, "hold_out_use": 100}, "iid(clients=4)"),
    ({"validation": 0.3}, "shards(clients=10, shards_per_client=2) + validation(fraction=0.3)"),
    ({"population": "iid(4) + hold_out(0.1)"}, "iid(clients=4) + hold_out(fraction=0.1)"),  # of this version
    ({}, "shards(clients=10, shards_per_client=2)"),
])
def test_four_fields_were_what_are_combinators_now(before, after):
    assert str(Recipe.from_mapping({"rounds": 3, **before}).population) == after

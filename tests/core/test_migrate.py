"""Recipes that earlier versions wrote."""

import pytest

from askew.core.migrate import migrate
from askew.core.recipe import Recipe


@pytest.mark.parametrize(("before", "after"), [
    ("sgd(lr=0.1, lr_decay=0.992)", "sgd(lr=decay(start=0.1, factor=0.992))"),
    ("sgd(lr=0.1, momentum=0.9, weight_decay=0.0005, lr_drops=[25, 50, 75])",
     "sgd(lr=drops(start=0.1, at=[25, 50, 75], factor=0.1), momentum=0.9, weight_decay=0.0005)"),
    ("sgd(lr_decay=0.5, lr=0.2, lr_drops=[1], lr_drop=0.3)", "sgd(lr=drops(start=decay(start=0.2, factor=0.5), at=[1], factor=0.3))"),
    ("sgd(0.2, 0.9, 0.01, 0.5)", "sgd(lr=decay(start=0.2, factor=0.5), momentum=0.9, weight_decay=0.01)"),
    ("sgd(0.2, lr_decay=1.0, lr_drops=[], lr_drop=0.5, nesterov=True)", "sgd(lr=0.2, nesterov=True)"),
    ("sgd(lr_decay=0.5)", "sgd(lr=decay(start=0.1, factor=0.5))"),  # 0.1 was and is the default
    ("sgd(0.2, 0.9, 0.01, True)", "sgd(0.2, 0.9, 0.01, True)"),  # of this version
    ("sgd(lr=0.2)", "sgd(lr=0.2)"), ("sgd", "sgd"), ("clip_gradient(1.0)", "clip_gradient(1.0)"),
])
def test_a_rates_schedule_was_an_argument_of_sgd(before, after):
    assert migrate({"step": [before, "project_to_ball(1.0)"]}) == {"step": [after, "project_to_ball(1.0)"]}
    assert migrate({"step": before}) == {"step": after}
    assert Recipe.from_mapping({"step": before}) == Recipe(step=after)

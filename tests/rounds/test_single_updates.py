"""What the server must see of single clients."""

from __future__ import annotations

import pytest

from askew.core import registry
from askew.core.recipe import Recipe
from askew.engine.build import build_task
from askew.rounds.single_updates import needs_single_updates


@pytest.mark.parametrize(("changes", "reason"), [
    ({"server": ["mean()", "rescale_to_mean_norm(1.0)", "momentum(0.9)"]}, None),
    ({"server": ["mean()", "mask_by_sign_agreement(1)"]}, None),
    ({"client": ["correct_drift()", "sgd(lr=0.1)"], "server": ["mean('uniform')", "update_control()"]}, None),
    ({"probes": ["update_norms()"]}, None),
    ({"server": ["median()"]}, "server piece median keeps every client's update"),
    ({"guard": ["leave_out()"]}, "guard leave_out compares the lengths of single updates"),
    ({"probes": ["hypothesis_conflicts()"]}, "probe hypothesis_conflicts looks at every client's model"),
])
def test_what_the_server_must_see(changes: dict, reason: str | None) -> None:
    assert needs_single_updates(build_task(Recipe(**changes))) == reason


def test_a_pool_that_follows_scores_needs_single_clients() -> None:
    task = build_task(registry.build("method", "fedcd"))
    assert needs_single_updates(task) == "pool clone_and_delete follows each client's scores"

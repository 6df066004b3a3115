"""What methods ask for, against what their papers say; and the pages that are made of it."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest
from torch import nn

import askew
from askew.core import registry
from askew.core.errors import AskewError
from askew.report.method_page import equations, method_page
from askew.runs.demands import Demands, demands_of

ROOT = Path(__file__).parents[2]
METHODS = [name for name in registry.names("method") if registry.find("method", name).__module__.startswith("askew.")]
# FedAvg's answers; below, what each method asks for otherwise.
PLAIN = {"at_server": 0.0, "shared": False, "one_place": False, "trains": False, "validation": False, "several": False,
         "private": False, "memory": 0.0, "state": 0.0, "sends": (), "broadcasts": (), "told": ("examples",),
         "singly": False, "up": 1.0, "down": 1.0}
OTHERWISE = {
    "centralised": {"one_place": True},
    "fedavgm": {"state": 1.0},
    "server_momentum": {"state": 1.0},
    "norm_norm": {"state": 1.0},  # the plain average, which is judged
    "fednnnn": {"state": 2.0},
    "server_training": {"at_server": 0.05, "trains": True},
    "ozdayi_combination": {"at_server": 0.05, "trains": True, "state": 1.0},
    "data_sharing": {"at_server": 0.1, "shared": True},
    "fedcd": {"validation": True, "several": True, "singly": True, "told": ("scores",), "up": 0.287},
    "scaffold": {"memory": 1.0, "state": 1.0, "sends": ("control",), "broadcasts": ("control",), "told": (),
                 "up": 2.0, "down": 2.0},
    "fednova": {"told": ("examples", "steps")},
    "feddyn": {"memory": 1.0, "state": 1.0, "told": ()},
    "fedadam": {"state": 2.0},
    "fedyogi": {"state": 2.0},
    "fedadagrad": {"state": 2.0},
    "fedexp": {"told": ()},
    "median": {"told": (), "singly": True},
    "trimmed_mean": {"told": (), "singly": True},
    "kept_momentum": {"memory": 1.0},
    "dp_fedavg": {"told": ()},
    "fedper": {"private": True, "memory": 0.137},
    "fedbn": {"private": True, "memory": 0.026},
}


def demands(recipe: askew.Recipe) -> Demands:
    layers = OrderedDict(flat=nn.Flatten(), fc1=nn.Linear(64, 16), norm=nn.LayerNorm(16), fc2=nn.Linear(16, 10))
    result = askew.run(recipe.replace(rounds=1), model=nn.Sequential(layers))
    assert result.simulation is not None
    return demands_of(result.simulation.task, result.records[-1])


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_asks_for(name: str) -> None:
    found = demands(registry.build("method", name))
    for field, wanted in {**PLAIN, **OTHERWISE.get(name, {})}.items():
        exact = isinstance(wanted, tuple | bool)
        assert getattr(found, field) == (wanted if exact else pytest.approx(wanted, abs=1e-3)), field
    assert found.secure_aggregation is (name not in ("centralised", "fedcd", "median", "trimmed_mean"))
    assert all(answer for _, answer in found.rows())


def test_what_pieces_of_a_recipe_ask_for() -> None:
    guarded = demands(askew.Recipe(guard=["leave_out()"]))
    assert not guarded.secure_aggregation
    assert demands(askew.Recipe(client=["sgd(lr=0.1)", "scale_by_server()"],
                                server=["mean()", "plateau()"])).told == ("examples", "losses")


def test_every_method_has_its_equations() -> None:
    for name in METHODS:
        assert equations(name, ROOT / "docs").startswith("    "), name
    with pytest.raises(AskewError, match="no heading names the method nonesuch"):
        equations("nonesuch", ROOT / "docs")


def test_a_page_says_what_is_known() -> None:
    page = method_page("fednnnn", ROOT / "docs", ROOT / "results")
    assert page.startswith("# `fednnnn`\n")
    assert 'server = ["mean()", "rescale_to_mean_norm(beta=0.7)", "momentum(beta=0.8)", "evaluate_average()"]' in page
    assert "accuracy on the whole test set 95.8 ± 0.3% after 30 rounds" in page
    assert "FedAvg: 84.6 ± 1.0%" in page
    assert "(../papers/fednnnn2020.md)" in page
    assert "@" in page.split("## To cite")[1]
    own = method_page("scaffold", ROOT / "docs", ROOT / "results")
    assert own.startswith("# SCAFFOLD, and when it collapses\n")
    assert "## Four ways to break it" in own
    assert "With numbers of its own" in own
    assert "accuracy on the whole test set 84.6 ± 1.0% after 30 rounds" in method_page("fednova", ROOT / "docs",
                                                                                       ROOT / "results")
    assert "Not measured beside the others yet" in method_page("fedbn", ROOT / "docs", ROOT / "results")

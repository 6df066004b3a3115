"""What all probes promise: they never change training, and they survive an interruption."""

import json
from collections import OrderedDict

import pytest
import torch
from torch import nn

import askew
from askew.core import registry
from askew.core.probe import Probe
from askew.engine.build import build_task
from askew.engine.parallel import Parallel
from askew.engine.sequential import Sequential
from askew.engine.vectorised import Vectorised
from askew.pieces.methods import fedcd, fednnnn
from askew.rounds.simulation import Simulation

pytestmark = pytest.mark.slow  # whole runs: tens of them

PROBES = ("update_norms()", "weight_divergence()", "sign_cancellation()", "hypothesis_conflicts(inputs=50)",
          "accuracy_on_devices_of(population='iid(clients=3)')")
KEYS = {"N", "E", "N/E", "server_step", "integral_N", "weight_divergence", "no_sign_agreement", "signs_cancel",
        "unmoved", "conflicts_any", "conflicts_pair", "federation_device_accuracy_mean"}
BASE = askew.Recipe(population="shards(clients=6, shards_per_client=2) + subset(0.3)", fraction=0.5, batch_size=20,
                    rounds=4)


def every_layer_with_a_state():
    """BatchNorm has buffers, dropout draws from torch's global generator."""
    torch.manual_seed(0)
    return nn.Sequential(OrderedDict(
        conv=nn.Conv2d(1, 4, 3), norm1=nn.BatchNorm2d(4), relu1=nn.ReLU(), flatten=nn.Flatten(), drop=nn.Dropout(0.3),
        fc1=nn.Linear(144, 16), norm2=nn.BatchNorm1d(16), relu2=nn.ReLU(), fc2=nn.Linear(16, 10)))


FORMS = {
    "parallel": lambda task: Parallel(task, threads=2),
    "vectorised": Vectorised,
    "vectorised in chunks": lambda task: Vectorised(task, chunk_jobs=2),
    "graphed": lambda task: Vectorised(task, graphed=True, compiled=False),
}
# 40 to 140 examples per client and batches of 20: 2 to 7 steps, so that the batched engines, which put the longest
# first, hand the clients over in another order than they were sampled in.
UNEQUAL = BASE.replace(population="power_law(clients=6, exponent=0.7) + subset(0.3)", fraction=0.7, rounds=3)


@registry.piece("probe")
def _in_order() -> Probe:
    """A probe of one's own that would show any order in which clients arrive."""

    def read(ctx, round, state, gathered):
        return {"who": list(round.clients), "shares": round.cohort.weights.tolist(),
                "lengths": round.cohort.lengths.tolist()}, state

    return Probe(read)


def interrupt_after(rounds):
    def on_round(record, recipe):
        if record["round"] == rounds:
            raise KeyboardInterrupt

    return on_round


def test_the_list_above_is_complete():
    ours = {name for name in registry.names("probe") if registry.find("probe", name).__module__.startswith("askew.")}
    assert {registry.parse("probe", probe).name for probe in PROBES} == ours  # other tests file probes of their own


@pytest.mark.parametrize("recipe", [BASE, fednnnn(BASE), fedcd(BASE, milestones=[2])], ids=lambda r: r.name)
def test_probes_never_change_training(recipe):
    model = every_layer_with_a_state()
    plain = askew.run(recipe, model=model)
    probed = askew.run(recipe.replace(probes=PROBES), model=model)
    assert set(probed.records[0]) >= KEYS
    assert all(torch.equal(v, probed.model[name]) for name, v in plain.model.items())
    for without, with_probes in zip(plain.records, probed.records, strict=True):
        assert without == {name: with_probes[name] for name in without}


@pytest.mark.parametrize("recipe", [BASE, fednnnn(BASE), fedcd(BASE, milestones=[1, 3])], ids=lambda r: r.name)
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(recipe, tmp_path):
    recipe, model = recipe.replace(probes=PROBES), every_layer_with_a_state()
    whole = askew.run(recipe, model=model)
    first = askew.run(recipe, model=model, out=tmp_path / "run", on_round=interrupt_after(2))
    assert first.interrupted
    assert len(first.records) == 2
    second = askew.resume(tmp_path / "run", model=model)
    assert second.records == whole.records
    assert all(torch.equal(v, second.model[name]) for name, v in whole.model.items())
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == whole.records


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("recipe", [UNEQUAL, fednnnn(UNEQUAL), fedcd(UNEQUAL, milestones=[1])], ids=lambda r: r.name)
def test_every_engine_gives_every_probe_the_same_round(recipe, form):
    """Up to rounding: 1e-5 of a value, where the order of the clients alone moved weight_divergence by 1.5e-2 of it.

    Shares of signs count coordinates, and rounding decides the sign of an update of nearly 0: 5 of 4,810 may differ.
    """
    task = build_task(recipe.replace(probes=(*PROBES, "_in_order()")))
    assert len({-(-int(n) // recipe.batch_size) for n in task.population.sizes}) > 3
    reference, other = Simulation(task, Sequential(task)), Simulation(task, FORMS[form](task))
    reordered = False
    for _ in range(recipe.rounds):
        expected, record = reference.advance(), other.advance()
        assert expected.keys() == record.keys()
        for name, value in expected.items():
            counted = any(what in name for what in ("no_sign_agreement", "signs_cancel", "unmoved"))
            if name in ("cloned", "deleted"):
                assert record[name] == value
                continue
            assert record[name] == pytest.approx(value, rel=1e-5, abs=5 / 4810 if counted else 1e-7), name
        reordered |= sorted(expected["who"], key=lambda client: -task.population.sizes[client]) != expected["who"]
    assert reordered, "the case must tell the orders apart"


def test_records_are_strict_json():
    """A rate of 0 moves nobody: ratios are undefined, and JSON has no NaN."""
    still = askew.run(BASE.replace(probes=PROBES, client=["sgd(lr=0)"], rounds=1)).records[0]
    assert still["N"] == still["E"] == still["server_step"] == still["weight_divergence"] == 0
    assert still["unmoved"] == 1
    assert still["N/E"] is None
    json.dumps(still, allow_nan=False)


def test_a_clone_is_measured_from_its_own_beginning():
    """Cloned after round 2: its integral starts there, and its twin starts from the clone."""
    recipe = fedcd(BASE.replace(fraction=1.0, batch_size=0, rounds=3, probes=PROBES), milestones=[2])
    records = askew.run(recipe).records
    assert not any(name.startswith("model 1: ") for name in records[1])
    last = records[2]
    assert last["model 1: integral_N"] == last["model 1: server_step"]
    assert last["integral_N"] == pytest.approx(records[1]["integral_N"] + last["server_step"])
    assert {f"model 1: {name}" for name in KEYS} <= set(last)


def test_a_recipe_file_keeps_probes():
    recipe = BASE.replace(probes=["update_norms(per='layer')", "sign_cancellation(theta=2)", "hypothesis_conflicts(7)"])
    assert askew.Recipe.from_toml(recipe.to_toml()) == recipe

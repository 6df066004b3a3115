"""Who trains, what is measured, and when."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import askew
from askew.core.population import Ownership, Population
from askew.core.probe import Probe
from askew.core.registry import piece
from askew.engine.build import build_task
from askew.engine.sample import sample
from askew.engine.task import cohort_size


@pytest.mark.parametrize(("fraction", "clients", "expected"), [
    (1.0, 10, 10), (0.5, 10, 5), (0.1, 10, 1), (0.01, 10, 1), (0.33, 10, 3), (0.05, 100, 5)])
def test_m_is_c_times_k_but_at_least_one(fraction, clients, expected):
    assert cohort_size(fraction, clients) == expected


def test_a_fraction_of_the_clients_trains_and_the_seed_says_which():
    recipe = askew.Recipe(population="iid(clients=20)", fraction=0.25, rounds=3)
    drawn = [sample(build_task(recipe), round) for round in range(40)]
    assert all(len(set(clients)) == 5 and set(clients) <= set(range(20)) for clients in drawn)
    assert drawn == [sample(build_task(recipe), round) for round in range(40)]
    assert drawn[0] != drawn[1]
    assert drawn != [sample(build_task(recipe.replace(seed=1)), round) for round in range(40)]
    times = np.bincount(np.concatenate(drawn), minlength=20)
    assert times.min() > 0
    assert [record["clients"] for record in askew.run(recipe).records] == [5, 5, 5]


class Threshold(nn.Module):
    """Score of class 1 is x, of class 0 is 0: the label is 1 where x > 0. The one weight has no say at rate 0."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return torch.cat([torch.zeros_like(x), self.w * x], dim=1)


def data_by_hand():
    """Four training and five test examples; the network is right on tests 0, 1 and 4 and wrong on 2 and 3."""
    train = torch.tensor([[-1.0], [1.0], [1.0], [2.0]]), torch.tensor([0, 1, 1, 1])
    test = torch.tensor([[-1.0], [1.0], [1.0], [-2.0], [3.0]]), torch.tensor([0, 1, 0, 1, 1])
    return askew.Dataset.from_tensors(train, test, name="by hand")


def evaluated(population, **changes):
    recipe = askew.Recipe(rounds=1, client=["sgd(lr=0.0)"], **changes)
    return askew.run(recipe, data=data_by_hand(), population=population, model=Threshold())


def test_accuracy_loss_and_devices_by_hand():
    """Clients own (0, 1, 1) and (1). Class accuracies: class 0 one of two, class 1 two of three.

    Device 0: 1/3 * 1/2 + 2/3 * 2/3 = 11/18; device 1: 2/3. Loss: mean of log(1 + exp(-margin)), margins
    1, 1, -1, -2, 3.
    """
    population = Population.of(Ownership.of([[0, 1, 2], [3]]), np.array([0, 1, 1, 1]), 2)
    record = evaluated(population).records[0]
    assert record["accuracy"] == pytest.approx(3 / 5)
    assert record["loss"] == pytest.approx(float(np.mean(np.log1p(np.exp(-np.array([1, 1, -1, -2, 3.0]))))), rel=1e-6)
    assert record["device_accuracy_mean"] == pytest.approx((11 / 18 + 2 / 3) / 2)
    assert record["device_accuracy_std"] == pytest.approx((2 / 3 - 11 / 18) / 2)
    assert record["device_accuracy_min"] == pytest.approx(11 / 18)
    judged = evaluated(population, judge="devices").records[0]
    assert judged["accuracy"] == pytest.approx((11 / 18 + 2 / 3) / 2)


def test_devices_with_test_examples_of_their_own_by_hand():
    """Device 0 tests on 0, 1, 2 (two right), device 1 on 3, 4 and 2 (one right): 2/3 and 1/3, in groups 0 and 1."""
    population = Population.of(Ownership.of([[0, 1, 2], [3]]), np.array([0, 1, 1, 1]), 2, groups=np.array([0, 1]),
                               test=Ownership.of([[0, 1, 2], [3, 4, 2]]))
    result = evaluated(population)
    record = result.records[0]
    assert record["group_accuracy"] == pytest.approx([2 / 3, 1 / 3])
    assert record["accuracy"] == record["device_accuracy_mean"] == pytest.approx(0.5)
    assert result.simulation.device_scores().tolist() == pytest.approx([2 / 3, 1 / 3])
    assert evaluated(population, judge="global").records[0]["accuracy"] == pytest.approx(3 / 5)


def test_evaluate_every_and_the_last_round():
    records = askew.run(askew.Recipe(rounds=5, evaluate_every=2)).records
    assert [record["round"] for record in records if "accuracy" in record] == [2, 4, 5]
    assert [record["round"] for record in records] == [1, 2, 3, 4, 5]
    every = askew.run(askew.Recipe(rounds=5))
    assert every.records[3]["accuracy"] == records[3]["accuracy"]
    assert every.best["accuracy"] == max(record["accuracy"] for record in every.records)
    assert every.rounds_to(every.records[2]["accuracy"]) <= 3
    assert every.rounds_to(1.1) is None
    assert every.total("bytes_up") == 5 * 10 * 4 * 4810


@piece("probe")
def _distance_walked() -> Probe:
    """How far the model moved in all rounds so far, and the largest local weight that was seen."""

    def observe(ctx, model, gathered):
        return max(gathered or 0.0, float(max(v.abs().max() for v in model.params.values())))

    def read(ctx, round, state, gathered):
        step = torch.cat([(round.after.params[name] - v).flatten() for name, v in round.before.params.items()]).norm()
        walked = state + float(step)
        return {"walked": walked, "largest": gathered, "seen": list(round.clients), "at": round.number}, walked

    return Probe(read, init=lambda ctx: 0.0, observe=observe)


def test_a_probe_reads_rounds_and_never_changes_training(tmp_path):
    base = askew.Recipe(rounds=3, fraction=0.3)
    probed = base.replace(probes=["_distance_walked()"])
    plain, seen = askew.run(base), askew.run(probed, out=tmp_path / "run")
    assert all(torch.equal(v, seen.model[name]) for name, v in plain.model.items())
    walked = [record["walked"] for record in seen.records]
    assert 0 < walked[0] < walked[1] < walked[2]
    task = build_task(base)
    assert [record["seen"] for record in seen.records] == [sample(task, round) for round in range(3)]
    assert [record["at"] for record in seen.records] == [1, 2, 3]
    assert all(record["largest"] > 0.1 for record in seen.records)
    for probed_record, record in zip(seen.records, plain.records, strict=True):
        assert {key: probed_record[key] for key in record} == record


def test_a_probes_state_survives_an_interruption(tmp_path):
    recipe = askew.Recipe(rounds=3, probes=["_distance_walked()"])

    def stop(record, _):
        if record["round"] == 2:
            raise KeyboardInterrupt

    askew.run(recipe, out=tmp_path / "run", on_round=stop)
    assert askew.resume(tmp_path / "run").records == askew.run(recipe).records

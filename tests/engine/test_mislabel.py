"""Wrong labels: only where clients train, only theirs, and as many as were asked for."""

import numpy as np
import pytest
import torch

import askew
from askew.engine.build import build_task
from askew.engine.start import initial_model

POPULATIONS = ["shards(clients=5, shards_per_client=2)", "iid(clients=5) + hold_out(0.2) + share(0.5)",
               "dirichlet(clients=5, alpha=0.5) + validation(0.2)", "hypergeometric(clients=12, examples=60)",
               "iid(clients=5) + hold_out(0.2)"]


def labels_of(task, client):
    """What a client trains on: inputs and labels."""
    index = task.indices_of(client)
    return task.examples.x[index], task.examples.y[index]


@pytest.mark.parametrize("population", POPULATIONS)
def test_clients_have_wrong_labels_and_nothing_else_is_changed(population):
    recipe = askew.Recipe(population=population)
    plain, task = build_task(recipe), build_task(recipe.replace(adversity=["flip_labels(0.4, of_clients=0.4)"]))
    wrong = []
    for client in range(task.num_clients):
        (x, true), (same_x, y) = labels_of(plain, client), labels_of(task, client)
        assert torch.equal(same_x, x)
        wrong.append(float((y != true).double().mean()))
    struck = [share for share in wrong if share]
    assert len(struck) == round(0.4 * task.num_clients)
    assert np.mean(struck) == pytest.approx(0.4, abs=0.1)
    # The data, and what else is indexed in them.
    assert task.data.train is not task.examples
    assert torch.equal(task.examples.y[: len(task.data.train)], plain.data.train.y)
    assert torch.equal(task.data.test.y, plain.data.test.y)
    for part in ("validation", "test"):
        one, other = getattr(task.population, part), getattr(plain.population, part)
        assert (one is None and other is None) or np.array_equal(one.indices, other.indices)
    assert np.array_equal(task.population.server, plain.population.server)
    assert np.array_equal(task.population.counts, plain.population.counts)
    assert np.array_equal(task.population.sizes, plain.population.sizes)


def test_what_two_clients_share_is_wrong_at_each_by_itself():
    recipe = askew.Recipe(population="iid(clients=5) + hold_out(0.5) + share(1.0)")
    task, plain = build_task(recipe.replace(adversity=["flip_labels(0.5)"])), build_task(recipe)
    index = [plain.population.train[client] for client in (0, 1)]
    both = np.intersect1d(*index)
    assert len(both) > 100
    first, second = (labels_of(task, client)[1][[list(mine).index(i) for i in both]]
                     for client, mine in enumerate(index))
    assert 0.3 < float((first != second).double().mean()) < 0.8


def test_without_it_nothing_is_copied():
    task = build_task(askew.Recipe(adversity=["drop_out(0.5)"]))
    assert task.examples is task.data.train


def test_two_of_them_follow_each_other():
    """Half of the labels, then half of what is there: three quarters have been drawn again, of 10 classes."""
    recipe = askew.Recipe(population="iid(clients=5)")
    task, plain = build_task(recipe.replace(adversity=["flip_labels(0.5)"] * 2)), build_task(recipe)
    wrong = np.mean([float((labels_of(task, c)[1] != labels_of(plain, c)[1]).double().mean()) for c in range(5)])
    assert wrong == pytest.approx(0.5 * 0.5 + 0.5 * 0.5 + 0.25 * 8 / 9, abs=0.04)


def test_targets_that_are_no_classes_are_refused(refused):
    x = torch.rand(20, 3)
    data = askew.Dataset.from_tensors((x, x[:, 0]), (x, x[:, 0]), targets="numbers")
    recipe = askew.Recipe(population="iid(clients=2)", objective="mean_squared_error()", adversity=["flip_labels(0.1)"])
    with refused("adversity: flip_labels exchanges classes, and custom has numbers; leave it out"):
        build_task(recipe, data=data)


def test_a_start_that_is_trained_and_a_probe_see_the_true_data():
    recipe = askew.Recipe(population="iid(clients=5) + hold_out(0.1)", rounds=1,
                          start="warm_up(until=1.0, epochs=1, on='everyone')",
                          probes=["accuracy_on_devices_of(population='iid(clients=3)')", "weight_divergence()"])
    plain, noisy = (askew.run(recipe.replace(adversity=adversity)) for adversity in ((), ["flip_labels(0.5)"]))
    start = [initial_model(result.simulation.task).params for result in (plain, noisy)]
    assert all(torch.equal(v, start[1][name]) for name, v in start[0].items())
    assert noisy.records[0]["federation_device_accuracy_mean"] > 0.3
    assert noisy.records[0]["weight_divergence"] < 0.1  # its twin has the clients' labels

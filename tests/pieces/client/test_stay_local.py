"""Tensors that stay at the client: never changed at the server, and each client's own from round to round."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import askew
from askew.core import rng
from askew.core.by_hand import client_message
from askew.engine.build import build_task
from askew.engine.choice import make_engine
from askew.engine.functional import state_dict_of
from askew.engine.local import batches
from askew.engine.sample import sample
from askew.pieces.client import stay_local
from askew.pieces.methods import fedbn, fedcd, fedper
from askew.rounds.simulation import Simulation

BASE = askew.Recipe(population="shards(clients=4, shards_per_client=2)", batch_size=64, rounds=3, fraction=0.5,
                    model="mlp(hidden=[8])", client=["sgd(lr=0.3)"])


def normed():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10))


def personal(recipe, local_names, network=None):
    """FedAvg by hand in which each client has its own tensors of some names."""
    task = build_task(recipe, model=network)
    model, train = copy.deepcopy(task.module), task.data.train
    model.load_state_dict(state_dict_of(task.module, task.fresh))
    own = {client: {name: model.state_dict()[name].clone() for name in local_names}
           for client in range(task.num_clients)}
    for number in range(recipe.rounds):
        total, sums = 0, {}
        for client in sample(task, number):
            local = copy.deepcopy(model)
            local.load_state_dict({**model.state_dict(), **own[client]})
            local.train()
            optimiser = torch.optim.SGD(local.parameters(), 0.3)
            indices = torch.from_numpy(task.population.train[client])
            for batch in batches(indices, recipe.epochs, recipe.batch_size, rng.key(0, "client", number, client)):
                optimiser.zero_grad()
                F.cross_entropy(local(train.x[batch].float() / 255), train.y[batch]).backward()
                optimiser.step()
            own[client] = {name: local.state_dict()[name].clone() for name in local_names}
            total += len(indices)
            for name, v in local.state_dict().items():
                if name not in local_names:
                    sums[name] = sums.get(name, 0) + len(indices) * v.double()
        model.load_state_dict({**model.state_dict(), **{name: (v / total).float() for name, v in sums.items()}})
    return model.state_dict(), own


def check(result, model, own, clients=4):
    for name, v in model.items():
        torch.testing.assert_close(result.model[name], v, atol=2e-5, rtol=1e-4,
                                   msg=lambda text, name=name: f"{name}: {text}")
    for client in range(clients):
        start = result.simulation.view()
        used = result.simulation.task.client.enter(start, result.simulation.memory.row(0, client))
        whole = {**used.params, **used.buffers}
        for name, v in own[client].items():
            torch.testing.assert_close(whole[name], v, atol=2e-5, rtol=1e-4,
                                       msg=lambda text, name=name: f"{name}: {text}")


def test_what_is_sent_by_hand():
    message = client_message(stay_local(["w"]), [6.0, 8.0])
    assert message["update"]["w"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_a_head_of_its_own_for_every_client(engine):
    names = ["fc2.weight", "fc2.bias"]
    result = askew.run(fedper(BASE), engine=engine)
    model, own = personal(BASE, names)
    check(result, model, own)
    start = build_task(BASE).fresh.params
    assert all(torch.equal(result.model[name], start[name]) for name in names), "the server's copy must never change"
    assert any(not torch.equal(own[0]["fc2.weight"], own[k]["fc2.weight"]) for k in (1, 2, 3))


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_normalisation_of_its_own_for_every_client(engine):
    """Weights and statistics of BatchNorm: neither leaves the client, so that the server's stay as they began."""
    network = normed()
    names = [name for name in network.state_dict() if name.startswith("2.")]
    result = askew.run(fedbn(BASE, names=["2.*"]), model=network, engine=engine)
    check(result, *personal(BASE, names, network))
    assert all(torch.equal(result.model[name], network.state_dict()[name]) for name in names)


def test_checkpoints_hold_what_stays(tmp_path):
    unbroken = askew.run(fedper(BASE))
    simulation = askew.run(fedper(BASE.replace(rounds=2))).simulation
    fresh = askew.run(fedper(BASE.replace(rounds=1))).simulation
    fresh.state = simulation.state
    fresh.advance()
    for client in range(4):
        for one, other in zip(fresh.memory.row(0, client), unbroken.simulation.memory.row(0, client), strict=True):
            assert str(one) == str(other)


def test_patterns_that_match_nothing_are_refused(refused):
    with refused("stay_local: no tensor of the network matches head.*; it has fc1.weight"):
        askew.run(fedper(BASE, names=["head.*"]))
    with refused("names is empty"):
        stay_local([])


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize("pool", [{}, {"pool": "clone_and_delete(milestones=[1, 2])", "population":
                                       "shards(clients=4, shards_per_client=2) + validation(fraction=0.2)"}])
@pytest.mark.parametrize("method", [fedper, fedbn])
def test_clients_are_judged_with_what_they_learnt_this_round(method, pool, engine):
    """Also where a model was cloned in the round: a client then has of the copy what it has of the original."""
    recipe = method(BASE.replace(**pool, rounds=2, fraction=1.0), **({"names": ["2.*"]} if method is fedbn else {}))
    task = build_task(recipe, model=normed() if method is fedbn else None)
    simulation = Simulation(task, make_engine(engine, task))
    for _ in range(recipe.rounds):
        record = simulation.advance()
        scores = simulation.device_scores()  # with what was taken down when the round was done
        assert record["device_accuracy_mean"] == pytest.approx(scores.mean(), abs=1e-12)
        assert record["device_accuracy_min"] == pytest.approx(scores.min(), abs=1e-12)


@pytest.mark.parametrize("rounding", ["random", "nearest"])
@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_a_quantiser_sends_no_error_of_what_stays(rounding, engine):
    """It stands before, whichever method comes first: behind, it moved the server's by up to 0.13."""
    arguments = {"milestones": [100], "bits": 4, "rounding": rounding}
    one, other = fedcd(fedper(BASE), **arguments), fedper(fedcd(BASE, **arguments))
    assert one.client == other.client
    one = one.replace(server=["mean('score')"])  # without the server's quantiser, which rounds the server's own
    result = askew.run(one, engine=engine)
    before, after = build_task(one).fresh.params, result.simulation.models[0].model.params
    assert torch.equal(after["fc2.weight"], before["fc2.weight"])
    assert not torch.equal(after["fc1.weight"], before["fc1.weight"])


@pytest.mark.parametrize("quantiser", ["quantize(4)", "quantize_at_random(4)"])
def test_a_quantiser_of_the_model_behind_it_is_refused(quantiser, refused):
    chain = ["sgd(0.1)", "stay_local(['fc2.*'])", quantiser]
    with refused(f"{quantiser[:-3]} behind stay_local would round what stays at the client"):
        askew.run(BASE.replace(client=chain))
    askew.run(BASE.replace(client=[*chain[:2], "quantize(4, what='update')"], rounds=1))  # of 0 it makes 0

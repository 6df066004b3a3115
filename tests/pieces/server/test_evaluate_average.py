"""FedNNNN trains one model and evaluates another."""

import json

import pytest
import torch
from safetensors.torch import load_file

import askew
from askew.core.server_piece import ServerChain
from askew.core.tensors import ModelState, add
from askew.engine.build import build_task
from askew.engine.evaluate import evaluate
from askew.engine.protocol import Job, Lane
from askew.engine.sequential import Sequential
from askew.pieces.methods import fednnnn
from askew.pieces.server import evaluate_average, mean, momentum, rescale_to_mean_norm


def test_two_rounds_by_hand(server):
    """Updates (3, 4) and (3, -4), twice; mean (3, 0), N = 3, E = 5; beta 2, gamma 0.5; w = (1, 0).

    Round 1: d = 2 * 5/3 * 3 = 10, training goes on from 11; evaluated is 1 + 3 = 4.
    Round 2: d = 0.5 * 10 + 10 = 15, training goes on from 26; evaluated is 11 + 3 = 14.
    """
    piece = ServerChain([mean(), rescale_to_mean_norm(2.0), momentum(0.5), evaluate_average()])
    params = {"w": torch.tensor([1.0, 0.0])}
    state = piece.init(params)
    assert piece.view(params, state)["w"].tolist() == [1.0, 0.0]
    for trained, evaluated in ((11.0, 4.0), (26.0, 14.0)):
        ctx = server([(3, 4), (3, -4)], w=params["w"].tolist())
        u, state = piece.update({}, state, ctx)
        params = add(params, u)
        assert params["w"].tolist() == pytest.approx([trained, 0.0])
        assert piece.view(params, state)["w"].tolist() == pytest.approx([evaluated, 0.0])


def test_the_average_is_evaluated_and_saved_and_training_goes_on_from_the_other(tmp_path):
    recipe = fednnnn(askew.Recipe(rounds=2))
    result = askew.run(recipe, out=tmp_path / "run")
    model, training = (load_file(tmp_path / "run" / f"{name}.safetensors") for name in ("model", "training"))
    assert any(not torch.equal(model[name], training[name]) for name in model)
    task = build_task(recipe)
    judged = evaluate(task, ModelState(model))
    other = evaluate(task, ModelState(training))
    assert result.records[-1]["accuracy"] == judged.score
    assert result.records[-1]["loss"] == judged.loss != other.loss
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["loss"] == judged.loss
    assert all(torch.equal(result.model[name], model[name]) for name in model)
    entry = result.simulation.models[0]
    assert all(torch.equal(entry.model.params[name], training[name]) for name in training)


def test_the_next_round_starts_from_the_normalised_model():
    """What round 3 evaluates is the normalised model of round 2 plus the clients' mean update from there."""
    recipe = fednnnn(askew.Recipe(rounds=2, server=["mean(weights='uniform')"]))
    result = askew.run(recipe)
    entry = result.simulation.models[0]
    jobs = [Job(0, client) for client in range(10)]
    task = build_task(recipe)
    updates = [chunk.updates for _, chunk in Sequential(task).train([Lane(task, {0: entry.model}, jobs, 2)])]
    longer = askew.run(recipe.replace(rounds=3))
    assert longer.records[:2] == result.records
    for name, w in entry.model.params.items():
        mean_update = torch.cat([u[name] for u in updates]).mean(dim=0)
        torch.testing.assert_close(longer.model[name], w + mean_update, atol=1e-6, rtol=1e-5)


def test_a_method_without_it_saves_one_model(tmp_path):
    askew.run(askew.Recipe(rounds=1), out=tmp_path / "run")
    assert not (tmp_path / "run" / "training.safetensors").exists()


def test_the_evaluated_model_of_round_t_is_what_fedavg_would_have_made_of_it():
    """From one and the same start, one round of FedNNNN evaluates exactly FedAvg's model."""
    plain, ours = askew.run(askew.Recipe(rounds=1)), askew.run(fednnnn(askew.Recipe(rounds=1)))
    assert plain.records[0]["accuracy"] == ours.records[0]["accuracy"]
    assert plain.records[0]["loss"] == ours.records[0]["loss"]
    assert all(torch.equal(plain.model[name], ours.model[name]) for name in plain.model)

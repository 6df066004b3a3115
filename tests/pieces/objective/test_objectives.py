"""Objectives by hand: a loss and measures per example, and one line about networks and data that do not fit."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import askew
from askew.core import registry
from askew.core.dataset import Dataset
from askew.core.errors import AskewError
from askew.core.objective import Objective, objective_of
from askew.core.registry import piece
from askew.engine.build import build_task
from askew.pieces.objective import binary_cross_entropy, cross_entropy, mean_squared_error, next_token

LOG3 = math.log(3)


def close(got, *expected):
    assert got.tolist() == pytest.approx(list(expected), abs=1e-6)


def test_cross_entropy_is_the_logarithm_of_what_the_class_was_given():
    output, target = torch.tensor([[0.0, LOG3], [0.0, LOG3]]), torch.tensor([1, 0])  # p = (1/4, 3/4)
    close(cross_entropy().losses(output, target), -math.log(3 / 4), -math.log(1 / 4))
    close(cross_entropy().measures(output, target)["accuracy"], 1, 0)


def test_label_smoothing_spreads_a_part_over_all_classes():
    """s = 0.2 of two classes: 0.9 of the weight on the class, 0.1 on the other."""
    losses = cross_entropy(label_smoothing=0.2).losses(torch.tensor([[0.0, LOG3]]), torch.tensor([1]))
    close(losses, -0.9 * math.log(3 / 4) - 0.1 * math.log(1 / 4))
    with pytest.raises(AskewError, match=r"label_smoothing must be in \[0, 1\), got 1"):
        cross_entropy(label_smoothing=1.0)


def test_cross_entropy_has_the_bits_of_torchs_own_operations():
    generator = torch.Generator().manual_seed(0)
    output, target = torch.randn(37, 10, generator=generator), torch.randint(0, 10, (37,), generator=generator)
    assert torch.equal(cross_entropy().loss(output, target), F.cross_entropy(output, target))
    assert torch.equal(cross_entropy().losses(output, target), F.cross_entropy(output, target, reduction="none"))


def test_squared_errors_are_means_over_an_examples_numbers():
    output, target = torch.tensor([[1.0, 5.0], [2.0, 2.0]]), torch.tensor([[0.0, 3.0], [2.0, 1.0]])
    close(mean_squared_error().losses(output, target), (1 + 4) / 2, 1 / 2)
    measures = mean_squared_error().measures(output, target)
    close(measures["mean_squared_error"], 2.5, 0.5)
    close(measures["mean_absolute_error"], 1.5, 0.5)
    assert float(mean_squared_error().loss(output, target)) == pytest.approx(float(F.mse_loss(output, target)))


def test_several_labels_are_judged_one_by_one_and_together():
    output, target = torch.tensor([[0.0, LOG3], [LOG3, -LOG3]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    close(binary_cross_entropy().losses(output, target), (math.log(2) + math.log(4)) / 2, math.log(4 / 3))
    measures = binary_cross_entropy().measures(output, target)
    close(measures["label_accuracy"], 0, 1)
    close(measures["exact_match"], 0, 1)
    half = binary_cross_entropy().measures(torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 0.0]]))
    close(half["label_accuracy"], 0.5)
    close(half["exact_match"], 0)


def test_tokens_count_per_place_and_padding_does_not():
    output = torch.tensor([[[0.0, 0.0], [0.0, LOG3]], [[0.0, LOG3], [9.0, -9.0]]])
    target = torch.tensor([[1, 1], [1, -100]])
    close(next_token().losses(output, target), (math.log(2) + math.log(4 / 3)) / 2, math.log(4 / 3))
    close(next_token().measures(output, target)["token_accuracy"], 0.5, 1)  # of equal outputs the first is taken
    close(next_token(ignore=0).losses(output, torch.tensor([[1, 0], [0, 0]])), math.log(2), 0)


def test_a_sequence_of_nothing_but_padding_moves_nothing():
    output = torch.zeros(1, 2, 3, requires_grad=True)
    losses = next_token().losses(output, torch.full((1, 2), -100))
    losses.sum().backward()
    close(losses, 0)
    assert torch.equal(output.grad, torch.zeros_like(output))


def test_better_is_more_or_less():
    assert cross_entropy().reached(0.8, 0.7)
    assert not cross_entropy().reached(0.6, 0.7)
    assert mean_squared_error().reached(0.6, 0.7)
    assert not mean_squared_error().reached(0.8, 0.7)
    assert (cross_entropy().shown(0.5), mean_squared_error().shown(0.12345)) == ("50.00%", "0.1235")


@pytest.mark.parametrize("name", registry.names("objective"))
def test_an_objective_names_a_headline_that_it_measures_and_remembers_how_it_was_made(name):
    objective = registry.build("objective", name)
    assert objective.spec == registry.parse("objective", name)
    shapes = {"classes": ((3, 4), torch.tensor([0, 3, 1])), "numbers": ((3, 4), torch.rand(3, 4)),
              "labels": ((3, 4), torch.ones(3, 4)), "tokens": ((3, 5, 4), torch.ones(3, 5, dtype=torch.int64))}
    shape, target = shapes[objective.targets]
    output = torch.randn(shape)
    assert objective.output_shape(tuple(target.shape[1:]), 4) == shape[1:]
    assert objective.losses(output, target).shape == (3,)
    assert objective.scores(output, target).shape == (3,)
    assert float(objective.loss(output, target)) == pytest.approx(float(objective.losses(output, target).mean()),
                                                                  rel=1e-6)
    assert ">>>" in registry.find("objective", name).__doc__


def data(targets, y, name="mine"):
    x = torch.randn(len(y), 3, generator=torch.Generator().manual_seed(0))
    return Dataset.from_tensors((x[:-4], y[:-4]), (x[-4:], y[-4:]), targets=targets, name=name)


NUMBERS = data("numbers", torch.arange(24.0).view(12, 2))
IID = askew.Recipe(population="iid(clients=2)", rounds=2, objective="mean_squared_error()", client="sgd(lr=0.001)")


@pytest.mark.parametrize(("recipe", "own", "message"), [
    (IID.replace(objective="cross_entropy()"), {"data": NUMBERS},
     "objective: cross_entropy is for targets that are classes, those of mine are numbers; choose another objective"),
    (IID, {}, "objective: mean_squared_error is for targets that are numbers, those of digits are classes"),
    (IID, {"data": NUMBERS, "model": nn.Linear(3, 1)},
     r"model: the network gives \(1,\) outputs per example, but mine has 2 numbers; mean_squared_error needs \(2,\)"),
    (IID, {"data": NUMBERS, "model": nn.Sequential(nn.Linear(3, 2), nn.Flatten(0))},
     r"the network gives \(\) outputs per example"),
    (IID.replace(population="shards(clients=2, shards_per_client=1)"), {"data": NUMBERS},
     "shards: it divides examples by their classes, and these data have numbers to learn instead; use iid, "
     "power_law, natural or pooled"),
    (IID.replace(pool="clone_and_delete(milestones=[1])", population="iid(clients=4) + validation(0.2)"),
     {"data": NUMBERS},
     "pool: clone_and_delete scores models by a measure of which more is better, and mean_squared_error is judged by"),
])
def test_what_does_not_fit_is_refused_before_training(recipe, own, message):
    with pytest.raises(AskewError, match=message) as error:
        build_task(recipe, **own)
    assert "\n" not in str(error.value)


def test_a_probe_of_votes_needs_classes():
    with pytest.raises(AskewError, match="models vote for classes, and mine has numbers; leave this probe out"):
        askew.run(IID.replace(probes="hypothesis_conflicts()"), data=NUMBERS)


def test_tokens_need_an_output_at_every_place():
    tokens = data("tokens", torch.arange(12)[:, None] % 4 + torch.zeros(1, 3, dtype=torch.int64))
    with pytest.raises(AskewError,
                       match=r"gives \(4,\) outputs per example, but mine has 4 tokens; next_token needs \(3, 4\)"):
        build_task(IID.replace(objective="next_token()"), data=tokens)


@pytest.fixture
def own():
    """Two objectives as strangers write them: a good one with nothing but losses, and one that takes the mean."""

    @piece("objective")
    def absolute_error() -> Objective:
        return Objective(lambda output, target: (output - target).abs().mean(dim=1))

    @piece("objective")
    def one_number() -> Objective:
        return Objective(F.l1_loss)

    yield
    for name in ("absolute_error", "one_number"):
        registry._PIECES["objective"].pop(name)


def test_an_objective_of_ones_own_needs_no_more_than_losses(own):
    result = askew.run(IID.replace(objective="absolute_error()"), data=NUMBERS)
    assert (result.headline, result.score) == ("loss", result.records[-1]["loss"])
    assert result.best["loss"] == min(record["loss"] for record in result.records)
    with pytest.raises(AskewError, match=r"one_number gives losses of shape \(\) for 2 examples; "
                                         r"there must be one number per example"):
        askew.run(IID.replace(objective="one_number()"), data=NUMBERS)


def test_a_run_is_judged_by_its_objectives_headline():
    result = askew.run(IID.replace(rounds=6), data=NUMBERS)
    errors = [record["mean_squared_error"] for record in result.records]
    assert errors == [record["loss"] for record in result.records]
    assert errors[-1] < errors[0]
    assert (result.headline, result.score) == ("mean_squared_error", errors[-1])
    assert math.isnan(result.accuracy)
    assert result.best["mean_squared_error"] == min(errors)
    assert result.rounds_to(errors[2]) == 1 + next(i for i, error in enumerate(errors) if error <= errors[2])
    assert not {"accuracy", "device_accuracy_mean", "device_mean_squared_error_mean"} & result.records[-1].keys()


def test_devices_with_test_examples_of_their_own_are_judged_by_the_headline():
    x = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
    examples = askew.Examples(x, torch.arange(12.0)[:, None])
    ids = torch.arange(12).numpy() % 2
    natural = Dataset("mine", examples, examples, ("price",), ids, ids, targets="numbers")
    record = askew.run(IID.replace(population="natural()", rounds=1), data=natural).records[-1]
    assert (record["device_mean_squared_error_max"] >= record["device_mean_squared_error_mean"]
            == record["mean_squared_error"])
    assert record["mean_squared_error"] == pytest.approx(record["loss"])  # devices of equal size


@pytest.mark.parametrize(("losses", "mean", "message"), [
    (partial(F.cross_entropy, reduction="none", weight=torch.arange(1.0, 11)),
     partial(F.cross_entropy, weight=torch.arange(1.0, 11)),
     "one_number's `mean` of 2 examples is .*, and the mean of their `losses` .*; make them one, or leave `mean` out"),
    (lambda o, y: F.cross_entropy(o - o.mean(0), y, reduction="none"), None,
     "one_number's losses of an example change with the others of its batch")])
def test_losses_that_engines_would_not_agree_on_are_refused(losses, mean, message, monkeypatch):
    """Weights by class: torch's mean divides by the weights of a batch, and the mean of its losses by their number."""
    registry.names("objective")
    monkeypatch.setattr(registry, "_PIECES", {kind: dict(found) for kind, found in registry._PIECES.items()})

    @piece("objective")
    def one_number() -> Objective:
        return Objective(losses, mean=mean)

    with pytest.raises(AskewError, match=message):
        askew.run(IID.replace(objective="one_number()", data="digits()"))


@pytest.mark.parametrize("method",
                         ["fedavg", "fedprox", "fedavgm", "fednnnn", "server_training", "data_sharing", "centralised"])
def test_methods_train_on_numbers_too(method):
    y = torch.randn(60, 1, generator=torch.Generator().manual_seed(1))
    recipe = registry.build("method", method, base=IID)
    assert math.isfinite(askew.run(recipe, data=data("numbers", y)).score)


def test_several_models_are_scored_by_labels():
    y = (torch.rand(80, 3, generator=torch.Generator().manual_seed(1)) > 0.5).float()
    recipe = IID.replace(objective="binary_cross_entropy()", pool="clone_and_delete(milestones=[1])",
                         population="iid(clients=4) + validation(0.2)", rounds=3)
    record = askew.run(recipe, data=data("labels", y)).records[-1]
    assert 0 <= record["label_accuracy"] == record["device_label_accuracy_mean"] <= 1


def test_an_interrupted_run_goes_on_with_its_objective(tmp_path):
    def stop(record, recipe):
        if record["round"] == 1:
            raise KeyboardInterrupt

    whole = askew.run(IID, data=NUMBERS)
    askew.run(IID, data=NUMBERS, out=tmp_path / "run", on_round=stop)
    assert askew.resume(tmp_path / "run", data=NUMBERS).records == whole.records


def test_a_recipe_names_its_objective_in_a_file():
    recipe = askew.Recipe(objective=cross_entropy(label_smoothing=0.1))
    assert 'objective = "cross_entropy(label_smoothing=0.1)"' in recipe.to_toml()
    assert askew.Recipe.from_toml(recipe.to_toml()) == recipe
    assert objective_of(recipe).spec.args == {"label_smoothing": 0.1}
    assert recipe.with_setting("cross_entropy.label_smoothing", 0.2).objective.args == {"label_smoothing": 0.2}
    with pytest.raises(AskewError, match="unknown objective 'crossentropy'; did you mean 'cross_entropy'"):
        askew.Recipe(objective="crossentropy()")

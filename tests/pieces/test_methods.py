"""Each method of the papers is the composition that its paper describes."""

import pytest
import torch

import askew
from askew.core import registry
from askew.core.registry import Spec
from askew.pieces.methods import (
    centralised,
    data_sharing,
    fedavg,
    fedavgm,
    fedcd,
    fednnnn,
    fedprox,
    kept_momentum,
    norm_norm,
    ozdayi_combination,
    projected,
    server_momentum,
    server_training,
    sign_agreement,
)

BASE = askew.Recipe(rounds=2, population="shards(clients=5, shards_per_client=2)", batch_size=50,
                    model="mlp(hidden=[8])")
METHODS = [n for n in registry.names("method") if registry.find("method", n).__module__.startswith("askew.")]


def texts(specs):
    return [str(spec) for spec in specs]


@pytest.mark.parametrize(("recipe", "server"), [
    (fedavg(), ["mean()"]),
    (fedavgm(), ["mean()", "momentum(beta=0.9, nesterov=True)"]),
    (server_momentum(), ["mean()", "momentum(beta=0.5)"]),
    (norm_norm(), ["mean()", "rescale_to_mean_norm(beta=1.0)", "evaluate_average()"]),
    (fednnnn(), ["mean()", "rescale_to_mean_norm(beta=0.7)", "momentum(beta=0.8)", "evaluate_average()"]),
    (sign_agreement(), ["mean()", "mask_by_sign_agreement(theta=2.0)"]),
    (server_training(), ["mean()", "train_on_server(epochs=1)"]),
    (ozdayi_combination(), ["mean()", "mask_by_sign_agreement(theta=2.0)", "momentum(beta=0.9)", "train_on_server()"]),
    (fedcd(), ["mean(weights='score')"]),
    (fedcd(rounding="nearest"), ["mean(weights='score')", "quantize(bits=8)"]),
], ids=lambda value: value.name if isinstance(value, askew.Recipe) else "")
def test_server_chains_read_as_the_papers_do(recipe, server):
    assert texts(recipe.server) == server


def test_client_steps_read_as_the_papers_do():
    assert texts(fedprox(mu=0.1).client) == ["add_proximal(mu=0.1)", "sgd(lr=0.1)"]
    assert texts(projected(radius=3.0, noise=1e-4).client) == [
        "add_gradient_noise(std=0.0001)", "sgd(lr=0.1)", "project_to_ball(radius=3.0, centre='origin')"]
    assert texts(projected().client) == ["sgd(lr=0.1)", "project_to_ball(radius=3.0, centre='origin')"]


def test_methods_that_change_more_than_chains():
    scheme = str(askew.Recipe().population)
    for method in (server_training, ozdayi_combination):
        assert str(method().population) == f"{scheme} + hold_out(fraction=0.05)"
    own = server_training(askew.Recipe(population="pooled() + hold_out(0.2)"))
    assert str(own.population) == "pooled() + hold_out(fraction=0.2)"
    sharing = data_sharing(hold_out=0.2, alpha=0.5)
    assert str(sharing.population) == f"{scheme} + hold_out(fraction=0.2) + share(fraction=0.5)"
    assert str(sharing.start) == "warm_up(until=0.6)"
    behind = data_sharing(fedcd(), alpha=0.5)  # clients validate on what they share, too
    assert (str(behind.population)
            == f"{scheme} + hold_out(fraction=0.1) + share(fraction=0.5) + validation(fraction=0.2)")
    assert str(data_sharing(warm_up_until=0.0).start) == "random()"
    clones = fedcd(milestones=[2], bits=4)
    assert str(clones.pool) == "clone_and_delete(milestones=[2])"
    assert texts(clones.client)[1:] == ["quantize_at_random(bits=4)"]
    assert texts(fedcd(bits=4, rounding="nearest").client)[1:] == ["quantize(bits=4)"]
    assert str(clones.population) == f"{scheme} + validation(fraction=0.2)"
    # Its devices have validation data.
    assert str(fedcd(askew.Recipe(population="hierarchical()")).population) == "hierarchical()"
    assert (str(fedcd(askew.Recipe(population="iid(4) + validation(0.1)")).population)
            == "iid(clients=4) + validation(fraction=0.1)")


def test_data_sharing_gives_every_client_its_share_and_keeps_the_servers_set_balanced():
    from askew.engine.build import build_task

    task = build_task(data_sharing(BASE, hold_out=0.1, alpha=0.5))
    plain = build_task(BASE.replace(population=BASE.population + "hold_out(0.1)"))
    server = set(task.population.server.tolist())
    given = [len(server & set(task.population.train[k].tolist())) for k in range(5)]
    assert given == [round(0.5 * len(server))] * 5
    assert (task.population.sizes - plain.population.sizes).tolist() == given


@pytest.mark.parametrize(("population", "fraction", "factor"), [
    ("shards(clients=5, shards_per_client=2)", 1.0, 5), ("iid(clients=20)", 0.25, 5), ("iid(20)", 0.01, 1),
    ("hierarchical()", 0.5, 15),  # 30 devices unless it is told another number
    ("pooled()", 1.0, 1),
])
def test_centralised_training_has_the_batch_that_many_times_larger(population, fraction, factor):
    one = centralised(askew.Recipe(population=population, fraction=fraction, batch_size=20))
    assert one.batch_size == 20 * factor
    assert (str(one.population), one.fraction) == ("pooled()", 1.0)


def test_centralised_keeps_nothing_of_a_method_but_the_optimiser():
    base = BASE.replace(population=BASE.population + "hold_out(0.1)" + "share(0.5)",
                        client=["sgd(lr=0.3, momentum=0.5)"])
    one = centralised(fedcd(fedprox(fednnnn(base))))
    assert texts(one.client) == ["sgd(lr=0.3, momentum=0.5)"]
    assert texts(one.server) == ["mean()"]
    assert (str(one.pool), str(one.population)) == ("single_model()", "pooled()")
    assert askew.run(one).accuracy > 0


def test_methods_stack_and_their_names_too():
    both = sign_agreement(fedprox(BASE))
    assert both.name == "fedprox+sign_agreement"
    assert texts(both.client)[0] == "add_proximal(mu=0.01)"
    assert texts(both.server)[1] == "mask_by_sign_agreement(theta=2.0)"
    assert fedavg(BASE).name == "fedavg"
    assert askew.run(both).records


def test_kept_momentum_without_a_piece_that_takes_it_is_refused():
    """It gave FedAvg under its name."""
    with pytest.raises(askew.AskewError, match=r"kept_momentum: none of adam\(\) takes keep_momentum.*; use sgd\(\)"):
        kept_momentum(BASE.replace(client="adam()"))
    assert texts(kept_momentum(BASE.replace(client=["add_proximal(0.1)", "sgd(lr=0.3)"]), momentum=0.5).client) == [
        "add_proximal(mu=0.1)", "sgd(lr=0.3, momentum=0.5, keep_momentum=True)"]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_on_the_default_base_and_survives_a_file(name):
    names = {"names": ["fc1.*"]} if name == "fedbn" else {}  # the network has no normalisation layers
    recipe = registry.build("method", Spec(name, names), base=BASE)
    assert recipe.name == name
    assert askew.Recipe.from_toml(recipe.to_toml()) == recipe
    result = askew.run(recipe)
    assert len(result.records) == 2
    assert all(torch.isfinite(v).all() for v in result.model.values())


class Wide(torch.nn.Module):
    """A network in another precision than most."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(64, 8, dtype=dtype), torch.nn.Linear(8, 10, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.fc1(x.flatten(1).to(self.fc1.weight.dtype)).relu())


# fedbn wants BatchNorm; in bf16, half as many, in turns
@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for at, name in enumerate(METHODS) if name != "fedbn"
                                             for dtype in (torch.float64, torch.bfloat16)[: 1 + at % 2]], ids=str)
def test_every_method_trains_networks_of_other_precision(name, dtype):
    """Statistics add up in double precision; what comes of them is in the model's own."""
    recipe = BASE.replace(population="iid(clients=3) + hold_out(0.1) + subset(0.05)", rounds=1, batch_size=10)
    made = registry.find("method", name)(recipe)
    result = askew.run(made, model=Wide(dtype), engine="sequential")
    assert {v.dtype for v in result.model.values()} == {dtype}

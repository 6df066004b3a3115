"""Every sensible combination of pieces runs; a meaningless one is refused with the reason."""

from itertools import permutations

import pytest
import torch
from conform.forms import LONG

import askew
from askew.pieces.methods import fedcd

pytestmark = pytest.mark.slow  # whole runs: tens of them

TINY = askew.Recipe(population="shards(clients=4, shards_per_client=3) + subset(0.4) + hold_out(0.1)",
                    model="mlp(hidden=[8])", batch_size=60, rounds=2)
SERVER = {
    "scale": "scale(lr=0.5)", "momentum": "momentum(beta=0.5)",
    "rescale_to_mean_norm": "rescale_to_mean_norm(beta=0.7)",
    "mask_by_sign_agreement": "mask_by_sign_agreement(theta=2.0)", "train_on_server": "train_on_server()",
    "evaluate_average": "evaluate_average()", "quantize": "quantize(bits=8)",
    "adam": "adam(lr=0.01)", "adagrad": "adagrad(lr=0.01)", "yogi": "yogi(lr=0.01)", "extrapolate": "extrapolate()",
    "correct_dynamically": "correct_dynamically(alpha=1.0)", "add_update_noise": "add_update_noise(std=0.001)",
}
# What comes first, what follows it, and why the two do not go together.
REFUSED = {
    ("train_on_server", "mask_by_sign_agreement"): "put mask_by_sign_agreement before it",
    ("train_on_server", "rescale_to_mean_norm"): "put it before the piece that trains at the server",
    ("train_on_server", "evaluate_average"): "evaluate_average would judge the average without the server's "
                                             "training; use one of the two",
    ("evaluate_average", "train_on_server"): "evaluate_average would judge the average without the server's "
                                             "training; use one of the two",
}
REFUSED |= dict.fromkeys(permutations(("momentum", "adam", "adagrad", "yogi"), 2),
                         "are both optimisers, one right behind the other; keep one of them")
REFUSED |= {("quantize", name): "quantize must come last" for name in SERVER
            if name not in ("quantize", "evaluate_average")}
PAIRS = list(permutations(SERVER, 2))
CLIENT = {
    "add_proximal": ["add_proximal(mu=0.1)", "sgd(lr=0.1)"],
    "add_gradient_noise": ["add_gradient_noise(std=0.01)", "sgd(lr=0.1)"],
    "project_to_ball": ["sgd(lr=0.1)", "project_to_ball(radius=3.0)"],
    "all": ["add_gradient_noise(std=0.01)", "add_proximal(mu=0.1)", "sgd(lr=0.1, momentum=0.5, weight_decay=0.001)",
            "project_to_ball(radius=3.0, centre='start')"],
}


def assert_trains(recipe):
    """It ends, with finite numbers, and the model has moved."""
    result = askew.run(recipe)
    assert len(result.records) == recipe.rounds
    for entry in result.simulation.models.values():
        assert all(torch.isfinite(v).all() for v in entry.model.params.values())
    assert all(0 <= record["accuracy"] <= 1 and record["loss"] < 100 for record in result.records)
    assert len({record["loss"] for record in result.records}) == recipe.rounds
    return result


def test_every_server_piece_is_in_the_table():
    from askew.core import registry

    known = {name for name in registry.names("server") if registry.find("server", name).__module__.startswith("askew.")}
    # Those that make the update, or belong to certain client pieces, have tests of their own.
    assert known == {*SERVER, "mean", "mean_per_step", "median", "trimmed_mean", "update_control", "add_noise",
                     "plateau"}


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair not in REFUSED], ids=" then ".join)
def test_two_server_pieces_one_after_the_other(pair):
    assert_trains(TINY.replace(server=["mean()", *(SERVER[name] for name in pair)]))


@pytest.mark.parametrize("pair", list(REFUSED), ids=" then ".join)
def test_pairs_that_make_no_sense(pair, tmp_path):
    recipe = TINY.replace(server=["mean()", *(SERVER[name] for name in pair)])
    with pytest.raises(askew.AskewError, match=REFUSED[pair]) as error:
        askew.run(recipe, out=tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


# In CI, at the server, every piece with all client pieces at once; each of these alone with a plain mean. The long run
# has each of the former with each of the latter.
UNDER_FEDCD = [(step, server) for step in CLIENT for server in ([], *([call] for call in SERVER.values()))
               if LONG or step == "all" or not server]


@pytest.mark.parametrize(("step", "server"), UNDER_FEDCD, ids=str)
def test_client_pieces_under_fedcd(step, server):
    base = TINY.replace(rounds=3, client=CLIENT[step], server=["mean()", *server])
    result = assert_trains(fedcd(base, milestones=[1, 2]))
    assert result.records[0]["active_models"] == 2


@pytest.mark.parametrize("step", CLIENT)
def test_client_pieces_with_everything_at_the_server(step):
    assert_trains(TINY.replace(client=[*CLIENT[step], "quantize(bits=8, what='update')"],
                               server=["mean()", "mask_by_sign_agreement(1.0)", "rescale_to_mean_norm(per='layer')",
                                       "momentum(0.5, nesterov=True)", "scale(0.9)", "evaluate_average()"]))


@pytest.mark.parametrize(("changes", "message"), [
    ({"server": ["mean()", "mean(weights='uniform')"]}, "server: mean and mean both make the update; keep one of them"),
    ({"server": ["mean(weights='score')"]}, "needs a pool in which clients score models"),
    ({"server": []}, r"server: no piece makes an update; add one, such as mean\(\)"),
    ({"server": ["momentum(0.5)", "mean()"]}, "server: momentum acts on an update; put it after mean"),
    ({"server": ["mean()", "mask_by_sign_agreement(theta=5.0)"]}, "theta = 5.0 is above the 4 clients of a round"),
    ({"server": ["mean()", "mask_by_sign_agreement(3.0)"], "fraction": 0.5}, "theta = 3.0 is above the 2 clients"),
    ({"server": ["mean()", "train_on_server()"], "population": "iid(clients=4)"},
     "train_on_server needs examples at the server"),
    ({"client": ["sgd(0.1)", "sgd(0.2)"]}, "client: sgd and sgd both make the update"),
    ({"client": ["add_proximal(0.1)", "add_proximal(0.2)", "sgd(0.1)"]},
     "client: add_proximal stands twice, which makes no sense; keep one"),
    ({"client": ["add_dynamic_regulariser(0.1)", "add_dynamic_regulariser(0.1)", "sgd(0.1)"]},
     "client: add_dynamic_regulariser stands twice"),
    ({"server": ["mean('uniform')", "correct_dynamically(0.1)", "correct_dynamically(0.1)"]},
     "server: correct_dynamically stands twice"),
    ({"server": ["mean_per_step()"], "client": ["sgd(0.1, momentum=0.9)"]},
     r"\(momentum=0.0\) beside clients whose momentum is 0.9 \(sgd\(lr=0.1, momentum=0.9\)\); give both the same"),
    ({"server": ["mean_per_step(0.5)"]}, r"mean_per_step\(momentum=0.5\) beside clients whose momentum is 0.0"),
    *(({"server": ["mean_per_step(0.9)"], "client": [step]}, "the steps of SGD with plain momentum that starts afresh")
      for step in ("sgd(0.1, momentum=0.9, nesterov=True)", "sgd(0.1, momentum=0.9, keep_momentum=True)", "adam()")),
    ({"client": ["add_proximal(0.1)"]}, "client: no piece makes an update; add one, such as sgd"),
    ({"client": ["sgd(0.1)", "add_proximal(0.1)"]}, "client: add_proximal acts on the gradient; put it before sgd"),
    ({"client": ["project_to_ball(3.0)", "sgd(0.1)"]}, "client: project_to_ball acts on an update; put it after sgd"),
    ({"population": "iid(clients=4) + share(0.5)"}, "share: the server has no examples to share; write .* hold_out"),
    ({"pool": "clone_and_delete()"}, "clone_and_delete scores models on validation data that the devices do not have"),
    ({"start": "warm_up()", "population": "iid(clients=4)"}, "warm_up needs examples at the server"),
    ({"population": "iid(clients=1437) + validation(0.5)"}, "two are needed, one to train and one to validate "
     r".1,437 of 1,437 clients have fewer.: ask for fewer clients, or leave small ones out, as natural.min_ex"),
])
def test_recipes_that_make_no_sense(changes, message, tmp_path):
    with pytest.raises(askew.AskewError, match=message) as error:
        askew.run(TINY.replace(**changes), out=tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()

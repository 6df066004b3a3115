"""A recipe is one value, in Python, in a file and on the command line."""

import math
import os

import pytest

import askew
from askew.core.population_spec import PopulationSpec
from askew.core.recipe import Recipe, parse_value, read_file
from askew.core.registry import Spec
from askew.partition import hold_out
from askew.pieces.client import sgd
from askew.pieces.schedule import decay
from askew.pieces.server import mean, momentum


def test_strings_specs_and_made_pieces_are_the_same_value():
    text = Recipe(server=["mean()", "momentum(beta=0.5)"])
    made = Recipe(server=[mean(), momentum(0.5)])
    specs = Recipe(server=(Spec("mean"), Spec("momentum", {"beta": 0.5})))
    assert text == made == specs
    assert Recipe(server="mean()") == Recipe(server=["mean()"])
    assert Recipe(fraction=1) == Recipe(fraction=1.0)


@pytest.mark.parametrize("recipe", [
    Recipe(),
    Recipe(server=["mean(weights='uniform')", "momentum(0.5, nesterov=true)"], rounds=7, fraction=0.25, judge="global"),
    Recipe(client=["add_gradient_noise(1e-05)", "sgd(lr=drops(0.1, at=[2, 3]))", "project_to_ball(radius=inf)"]),
    Recipe(pool="clone_and_delete(milestones=[1, 2])", client=["sgd(lr=0.1)", "quantize(8)"],
           population="iid(clients=4) + validation(0.2)"),
    Recipe(data="npz(path='a folder/it\\'s \"mine\".npz')", name='quotes " and \\ and naïve 数据 😀'),
    Recipe(preprocess=["normalise(mean=0.5, std=0.5)"], probes=["update_norms()"],
           population="iid(clients=4) + hold_out(0.1, use=20) + share(0.5)", start="warm_up()", judge="devices"),
], ids=range(6))
def test_a_file_reads_back_to_an_equal_value(recipe, tmp_path):
    assert Recipe.from_toml(recipe.to_toml()) == recipe
    (tmp_path / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    assert Recipe.from_mapping(read_file(tmp_path / "recipe.toml")) == recipe


@pytest.mark.parametrize(("changes", "message"), [
    ({"fraction": 0.0}, r"fraction must be in \(0, 1\], got 0.0"),
    ({"fraction": 1.5}, r"fraction must be in \(0, 1\], got 1.5"),
    ({"fraction": math.nan}, "fraction must be in"),
    ({"fraction": "half"}, "fraction must be float, not 'half'"),
    ({"rounds": 0}, "rounds must be at least 1, got 0"),
    ({"rounds": 2.5}, "rounds must be int, not 2.5"),
    ({"rounds": True}, "rounds must be int, not True"),
    ({"epochs": 0}, "epochs must be at least 1, got 0"),
    ({"batch_size": -1}, "batch_size must not be negative, got -1"),
    ({"evaluate_every": 0}, "evaluate_every must be at least 1"),
    ({"population": "iid(4) + hold_out(1.0)"}, r"hold_out: fraction must be in \(0, 1\), got 1.0"),
    ({"population": "iid(4) + validation(-0.1)"}, r"validation: fraction must be in \(0, 1\), got -0.1"),
    ({"population": "iid(4) + hold_out(0.1) + share(1.1)"}, r"share: fraction must be in \(0, 1\], got 1.1"),
    ({"population": "iid(4) + hold_out(0.1, use=0)"}, "hold_out: use must be at least 1, got 0"),
    ({"population": "iid(4) + hold_out(0.1) + hold_out(0.2)"}, "population: hold_out stands twice"),
    ({"population": "iid(4) + hold_uot(0.1)"}, "unknown combinator 'hold_uot'; did you mean 'hold_out'"),
    ({"population": "iid(4) + shards(4, 2)"}, "unknown combinator 'shards'"),
    ({"population": "hold_out(0.1) + iid(4)"}, r"hold_out is a combinator; put it behind a scheme: iid\(clients=10\) "
     r"\+ hold_out\(0.1\)"),
    ({"population": "iid(4) + 3"}, "combinator '3' cannot be read"),
    ({"population": "iid(4) +"}, "cannot be read"),
    ({"population": 3}, r"population must be a scheme such as iid\(clients=10\)"),
    ({"judge": "everyone"}, "judge must be 'auto' or 'global' or 'devices', not 'everyone'"),
    ({"server": ["meen()"]}, "unknown server 'meen'; did you mean 'mean'"),
    ({"model": "mlp(hiden=[3])"}, "has no argument 'hiden'; did you mean 'hidden'"),
    ({"model": 3}, "model must name a piece of kind model"),
    ({"server": [3]}, "server must name a piece of kind server"),
    ({"data": "digits(seed=1)"}, "digits"),
])
def test_values_out_of_range_are_refused(changes, message):
    with pytest.raises(askew.AskewError, match=message) as error:
        Recipe(**changes)
    assert "\n" not in str(error.value)


def test_an_unknown_key_gets_the_nearest_known_one():
    with pytest.raises(askew.AskewError, match="unknown key 'round'; did you mean 'rounds'"):
        Recipe.from_mapping({"round": 3})
    with pytest.raises(askew.AskewError, match="unknown key 'xyzzy'; known: name, data, "):
        Recipe().replace(xyzzy=3)
    with pytest.raises(askew.AskewError, match="unknown key 'epoch'; did you mean 'epochs'"):
        Recipe().with_setting("epoch", 3)


def test_one_argument_of_a_piece_is_changed_by_its_address():
    recipe = Recipe(server=["mean()", "momentum(beta=0.5, nesterov=True)"])
    assert recipe.with_setting("momentum.beta", 0.9).server[1] == Spec("momentum", {"beta": 0.9, "nesterov": True})
    assert recipe.with_setting("sgd.lr", 0.5).client == (Spec("sgd", {"lr": 0.5}),)
    assert recipe.with_setting("population.clients", 4).population.args["clients"] == 4
    assert recipe.with_setting("rounds", 3).rounds == 3
    assert recipe.client == (Spec("sgd", {"lr": 0.1}),)  # the original is as it was


def test_a_schedule_is_a_value_that_is_addressed_by_its_name():
    recipe = Recipe(client="sgd(lr=decay(0.1, 0.995), momentum=0.9)")
    assert recipe == Recipe(client=sgd(lr=decay(0.1, 0.995), momentum=0.9))
    assert str(recipe.client[0]) == "sgd(lr=decay(start=0.1, factor=0.995), momentum=0.9)"
    assert Recipe.from_toml(recipe.to_toml()) == recipe
    higher = recipe.with_setting("decay.start", 0.3)
    assert higher.client[0].args["lr"] == Spec("decay", {"start": 0.3, "factor": 0.995})
    assert recipe.with_setting("sgd.lr", 0.3) == recipe.with_setting("decay.start", 0.3)
    falling = Recipe().with_setting("sgd.lr", "cosine(0.3, rounds=50)")
    assert falling.client[0].args["lr"] == Spec("cosine", {"start": 0.3, "rounds": 50})
    with pytest.raises(askew.AskewError, match=r"decay: start must not be negative, got -1\.0"):
        recipe.with_setting("decay.start", -1.0)
    with pytest.raises(askew.AskewError, match="schedule 'decay' has no argument 'begin'"):
        recipe.with_setting("decay.begin", 1.0)
    with pytest.raises(askew.AskewError, match=r"the recipe has no piece 'cosine'; known: .*sgd, decay"):
        recipe.with_setting("cosine.start", 1.0)


def test_a_population_is_a_scheme_and_combinators():
    recipe = Recipe(population="iid(4)+hold_out(0.1, use=20) + share(0.5)")
    assert str(recipe.population) == "iid(clients=4) + hold_out(fraction=0.1, use=20) + share(fraction=0.5)"
    assert (recipe.population.name, recipe.population.args) == ("iid", {"clients": 4})
    assert recipe == Recipe(population=PopulationSpec.of(Spec("iid", {"clients": 4})) + hold_out(0.1, use=20)
                            + "share(0.5)")
    changed = recipe.with_setting("hold_out.fraction", 0.2).with_setting("share.fraction", 1.0)
    changed = changed.with_setting("population.clients", 5)
    assert str(changed.population) == "iid(clients=5) + hold_out(fraction=0.2, use=20) + share(fraction=1.0)"
    with pytest.raises(askew.AskewError, match="the recipe has no piece 'validation'"):
        recipe.with_setting("validation.fraction", 0.2)
    with pytest.raises(askew.AskewError, match=r"hold_out: fraction must be in \(0, 1\), got 1.0"):
        recipe.with_setting("hold_out.fraction", 1.0)


@pytest.mark.parametrize("name", ["hold_out", "hold_out_use", "share", "validation"])
def test_fields_that_are_combinators_now_name_the_remedy(name):
    for change in (lambda: Recipe().replace(**{name: 0.1}), lambda: Recipe().with_setting(name, 0.1)):
        with pytest.raises(askew.AskewError,
                           match=rf"{name!r} is a part of population now: write '\.\.\. \+ ") as error:
            change()
        assert "\n" not in str(error.value)


def test_a_piece_that_stands_in_two_places_is_changed_in_both():
    """FedCD quantises what clients send and what the server stores; quantize.bits means both."""
    recipe = Recipe(client=["sgd(lr=0.1)", "quantize(8)"], server=["mean()", "quantize(8)"])
    recipe = recipe.with_setting("quantize.bits", 4)
    assert recipe.client[1] == Spec("quantize", {"bits": 4})
    assert recipe.server[1] == Spec("quantize", {"bits": 4})


def test_pieces_of_one_name_that_do_different_things_are_told_apart():
    recipe = Recipe(client="adam(lr=0.01)", server=["mean()", "adam(lr=0.1)"])
    with pytest.raises(askew.AskewError, match=r"adam.lr: client and server both have a piece 'adam'; "
                                               r"write client.adam.lr or server.adam.lr"):
        recipe.with_setting("adam.lr", 0.5)
    for address, client, server in (("client.adam.lr", 0.5, 0.1), ("server.adam.lr", 0.01, 0.5)):
        expected = Recipe(client=f"adam(lr={client})", server=["mean()", f"adam(lr={server})"])
        assert recipe.with_setting(address, 0.5) == expected
    assert Recipe(server=["mean()", "adam(lr=0.1)"]).with_setting("adam.lr", 0.5).server[1].args == {"lr": 0.5}
    both = Recipe(client=["sgd(lr=0.1)", "quantize(8)"], server=["mean()", "quantize(8)"])
    halved = both.with_setting("server.quantize.bits", 4)
    assert (halved.client[1].args["bits"], halved.server[1].args["bits"]) == (8, 4)


@pytest.mark.parametrize(("address", "value", "message"), [
    ("cleint.sgd.lr", 1.0, "there is no 'cleint' in a recipe; did you mean 'client'"),
    ("server.sgd.lr", 1.0, "the recipe has no piece 'sgd'; known: mean"),
    ("", 1.0, "unknown key ''"), (".", 1.0, "the recipe has no piece ''"),
    (3, 1.0, "with_setting: address must be str, not 3"),
    ("sdg.lr", 1.0, "the recipe has no piece 'sdg'; did you mean 'sgd'"),
    ("sgd.rate", 1.0, "client 'sgd' has no argument 'rate'"),
    ("sgd.lr", "fast", "sgd: lr must be float or a schedule, not 'fast'"),
    ("momentum.beta", 0.9, "the recipe has no piece 'momentum'"),
])
def test_addresses_that_lead_nowhere(address, value, message):
    with pytest.raises(askew.AskewError, match=message):
        Recipe().with_setting(address, value)


@pytest.mark.parametrize(("text", "value"), [
    ("3", 3), ("0.5", 0.5), ("true", True), ("[1, 2]", [1, 2]), ("inf", math.inf), ("digits", "digits"),
    ('"digits"', "digits"), ("shards(clients=4, shards_per_client=2)", "shards(clients=4, shards_per_client=2)"),
    ('["mean()", "momentum(0.9)"]', ["mean()", "momentum(0.9)"]), ("", ""),
])
def test_values_as_the_command_line_writes_them(text, value):
    assert parse_value(text) == value


def test_toml_that_does_not_parse_names_the_line():
    with pytest.raises(askew.AskewError, match=r"recipe is not valid TOML: .*line 2"):
        Recipe.from_toml('rounds = 3\nname = "unfinished\n')


@pytest.mark.parametrize("text", ["", "\n", "# a remark\n"])
def test_an_empty_text_is_no_recipe_of_a_run(text):
    """What a full disk leaves of a run's recipe must not be taken for the default one."""
    with pytest.raises(askew.AskewError, match="the recipe is empty"):
        Recipe.from_toml(text)


KINDS_OF_TOML = {"a table": "{a = 1}", "a date": "1979-05-27", "a time": "07:32:00", "nan": "nan",
                 "nested lists": "[[['x']]]", "a float": "1.5", "a truth": "true", "a word": "'x'", "inf": "inf",
                 "a large number": str(10**30), "a list of tables": "[{a = 1}]", "deep": "[" * 900 + "]" * 900}


@pytest.mark.parametrize("value", KINDS_OF_TOML.values(), ids=KINDS_OF_TOML)
@pytest.mark.parametrize("name", [field for field in Recipe.__dataclass_fields__ if field != "name"])
def test_a_field_with_a_value_of_another_kind(name, value):
    with pytest.raises(askew.AskewError) as error:
        Recipe.from_toml(f"{name} = {value}")
    assert "\n" not in str(error.value)


def test_files_that_are_no_recipes(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**30)  # takes no room
    for name, message in (("pipe", "is no regular file"), ("bytes", "is not text in UTF-8"),
                          ("large", "has 1,073,741,824 bytes, too many"), (".", "is a folder"),
                          ("none", "no recipe file"), ("nu\0ll", "no recipe file")):
        with pytest.raises(askew.AskewError, match=message) as error:
            read_file(tmp_path / name)
        assert "\n" not in str(error.value)


def test_a_value_is_one_value():
    assert parse_value("1\nrounds = 3") == "1\nrounds = 3"
    assert parse_value("9" * 5000) == "9" * 5000

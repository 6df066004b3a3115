"""A recipe from a file, a method and settings, in that order."""

import pytest

import askew
from askew.runs.load import load_recipe


def write(path, text):
    path.write_text(text)
    return path


def test_nothing_gives_the_default():
    assert load_recipe() == askew.Recipe()


def test_a_file_then_a_method_then_settings(tmp_path):
    file = write(tmp_path / "r.toml", 'rounds = 7\nseed = 3\nmethod = "fedprox(mu=0.5)"\n')
    recipe = load_recipe(file, ["seed=4", "add_proximal.mu=0.25", "sgd.lr=0.5", "fraction=0.5"])
    assert (recipe.name, recipe.rounds, recipe.seed, recipe.fraction) == ("fedprox", 7, 4, 0.5)
    assert [str(spec) for spec in recipe.client] == ["add_proximal(mu=0.25)", "sgd(lr=0.5)"]


def test_the_nearest_word_on_the_method_wins(tmp_path):
    file = write(tmp_path / "r.toml", 'method = "fedprox"\n')
    assert load_recipe(file).name == "fedprox"
    assert load_recipe(file, ["method=fedavgm"]).name == "fedavgm"
    assert load_recipe(file, ["method=fedavgm"], method="fednnnn").name == "fednnnn"


def test_several_methods_are_applied_in_order(tmp_path):
    file = write(tmp_path / "r.toml", 'method = ["fedprox", "sign_agreement(theta=3.0)"]\n')
    assert load_recipe(file).name == "fedprox+sign_agreement"
    assert load_recipe(method=["fedprox", "fedavgm"]).name == "fedprox+fedavgm"
    assert load_recipe(settings=['method=["fedprox", "fedavgm"]']).name == "fedprox+fedavgm"


def test_methods_are_combined_by_a_plus_wherever_they_are_named(tmp_path):
    both = load_recipe(method=["fedprox(mu=0.1)", "fedavgm"])
    file = write(tmp_path / "r.toml", 'method = "fedprox(mu=0.1) + fedavgm"\n')
    assert both == load_recipe(file) == load_recipe(str(file))
    assert both == load_recipe(method="fedprox(mu=0.1)+fedavgm")
    assert both == load_recipe(settings=["method=fedprox(mu=0.1)+fedavgm"])


def test_an_empty_file_is_the_default_recipe(tmp_path):
    assert load_recipe(write(tmp_path / "r.toml", "# nothing yet\n")) == askew.Recipe()


def test_a_method_sees_the_fields_that_are_set():
    """centralised multiplies the batch by the cohort: 0.5 * 20 clients * 4 examples."""
    recipe = load_recipe(settings=["population=iid(clients=20)", "fraction=0.5", "batch_size=4"], method="centralised")
    assert recipe.batch_size == 40


def test_files_of_earlier_versions_are_read(tmp_path):
    file = write(tmp_path / "r.toml", 'hold_out = 0.1\nshare = 0.5\nstep = ["sgd(lr=0.1, lr_decay=0.9)"]\n')
    recipe = load_recipe(file, defaults={"population": "iid(clients=4)"})
    assert str(recipe.population) == "iid(clients=4) + hold_out(fraction=0.1) + share(fraction=0.5)"
    assert str(recipe.client[0]) == "sgd(lr=decay(start=0.1, factor=0.9))"


def test_defaults_lie_under_the_file(tmp_path):
    file = write(tmp_path / "r.toml", "rounds = 7\n")
    recipe = load_recipe(file, defaults={"rounds": 2, "epochs": 3})
    assert (recipe.rounds, recipe.epochs) == (7, 3)


@pytest.mark.parametrize(("text", "settings", "method", "message"), [
    ("round = 3", [], None, "unknown key 'round'; did you mean 'rounds'"),
    ('method = "fedproxx"', [], None, "unknown method 'fedproxx'; did you mean 'fedprox'"),
    ("method = 3", [], None, "method must be the name of a method, or a list of them, not 3"),
    ("method = [3]", [], None, r"method must be the name of a method, or a list of them, not \[3\]"),
    ("[sgd]\nlr = 0.1", [], None, "unknown key 'sgd'"),
    ('rounds = "many"', [], None, "rounds must be int, not 'many'"),
    ("rounds = 3\nseed = = 4", [], None, r"r\.toml is not valid TOML: .*line 2"),
    ("", ["hold_out=0.05"], None, r"'hold_out' is a part of population now: write '\.\.\. \+ hold_out\(0.05"),
    ("", ["rounds"], None, "--set takes key=value, got 'rounds'"),
    ("", ["sgd.lr=quick"], None, "sgd: lr must be float or a schedule, not 'quick'"),
    ("", ["momentum.beta=0.5"], None, "the recipe has no piece 'momentum'"),
    ("", [], "fedavgm(beta=2.0)", r"momentum: beta must be in \[0, 1\), got 2.0"),
    ("", ["rounds=1", "rounds=2"], None, "--set: 'rounds' is set twice; keep one of them"),
    ("", [], "fedprox++fedavgm", r"method 'fedprox\+\+fedavgm' has an empty place; put one '\+' between two names"),
    ("", [], "fedavgm(betta=0.5)", "has no argument 'betta'; did you mean 'beta'"),
])
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path, text, settings, method, message):
    with pytest.raises(askew.AskewError, match=message) as error:
        load_recipe(write(tmp_path / "r.toml", text), settings, method)
    assert "\n" not in str(error.value)


def test_files_that_are_not_there_or_not_text(tmp_path):
    with pytest.raises(askew.AskewError, match="no recipe file"):
        load_recipe(tmp_path / "nothing.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    for path, message in ((tmp_path, "is a folder; name a recipe"),
                          (tmp_path / "bytes.toml", "is no recipe: it is not text in UTF-8")):
        with pytest.raises(askew.AskewError, match=message) as error:
            load_recipe(path)
        assert "\n" not in str(error.value)


def test_a_file_of_an_editor_on_windows_is_read(tmp_path):
    (tmp_path / "r.toml").write_bytes(b"\xef\xbb\xbfrounds = 3\r\nseed = 4\r\n")
    recipe = load_recipe(tmp_path / "r.toml")
    assert (recipe.rounds, recipe.seed) == (3, 4)

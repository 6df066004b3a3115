"""A recipe's fingerprint: of what it does, whatever its name, its seed, and what later versions add to recipes."""

import dataclasses
import itertools
from pathlib import Path

import pytest

import askew
from askew.core import registry
from askew.core.recipe import Recipe
from askew.core.registry import Spec, essential, piece
from askew.core.server_piece import ServerPiece
from askew.papers.papers import all_items
from askew.papers.plan import recipes_of
from askew.papers.store import Results, read, write

RESULTS = Path(__file__).parents[2] / "results"


def test_what_is_as_by_default_does_not_count():
    assert Recipe().fingerprint == Recipe(name="x", seed=9, rounds=50, client="sgd(lr=0.1, momentum=0.0)").fingerprint
    assert (Recipe(server=["mean()", "momentum()"]).fingerprint
            == Recipe(server=["mean(weights='examples')", "momentum(0.9)"]).fingerprint)
    assert Recipe(client="sgd(lr=1)").fingerprint == Recipe(client="sgd(lr=1.0)").fingerprint
    assert (Recipe(server="momentum(nesterov=True, beta=0.5)").fingerprint
            == Recipe(server="momentum(beta=0.5, nesterov=True)").fingerprint)


def test_everything_else_counts():
    changes = [{}, {"rounds": 51}, {"epochs": 2}, {"population": "iid(10) + hold_out(0.1)"},
               {"population": "iid(10) + hold_out(0.1) + share(0.1)"}, {"population": "iid(10) + validation(0.1)"},
               {"population": "iid(10) + subset(0.1)"},
               {"fraction": 0.5}, {"batch_size": 0}, {"evaluate_every": 2}, {"judge": "global"},
               {"stop_after_no_gain": 5}, {"data": "mnist()"},
               {"preprocess": "normalise()"}, {"population": "iid(clients=10)"}, {"population": "iid(clients=11)"},
               {"model": "mlp(hidden=[65])"}, {"start": "warm_up()"}, {"client": "sgd(lr=0.2)"},
               {"client": ["add_proximal(0.1)", "sgd(lr=0.1)"]}, {"client": ["sgd(lr=0.1)", "quantize(4)"]},
               {"client": ["sgd(lr=0.1)", "quantize(8)"]},
               {"server": ["mean()", "momentum(0.5)"]}, {"server": ["mean()", "momentum(0.5, nesterov=True)"]},
               {"probes": "update_norms()"}, {"pool": "clone_and_delete(milestones=[1])"},
               {"population": "iid(10) + hold_out(0.1, use=5)"}, {"objective": "mean_squared_error()"},
               {"objective": "cross_entropy(label_smoothing=0.1)"}, {"adversity": "drop_out(0.3)"},
               {"adversity": "drop_out(0.4)"}, {"guard": "leave_out()"}, {"guard": "leave_out(5)"}]
    marks = [Recipe(**change).fingerprint for change in changes]
    assert len(set(marks)) == len(changes)
    named = {field.name for field in dataclasses.fields(Recipe)} - {"name", "seed"}
    assert named == set(itertools.chain.from_iterable(changes)), "a new field needs a line here"


def test_numbers_and_truth_are_different():
    @piece("server")
    def odd(strength: int | bool = 1) -> ServerPiece:
        return ServerPiece(lambda u, state, ctx: (u, state))

    try:
        assert str(essential("server", Spec("odd", {"strength": True}))) == "odd(strength=True)"
        assert str(essential("server", Spec("odd", {"strength": 1}))) == "odd()"
    finally:
        registry._PIECES["server"].pop("odd")


def wider(recipe):
    """The same recipe as a later version would hold it: with one more field, and pieces with one more argument."""
    later = dataclasses.make_dataclass("Later", [("further", int, 0)], bases=(Recipe,), frozen=True)
    return later(**{field.name: getattr(recipe, field.name) for field in dataclasses.fields(Recipe)})


def test_a_field_more_changes_nothing_unless_it_is_used():
    recipe = Recipe(rounds=3, server=["mean()", "momentum(0.5)"])
    later = wider(recipe)
    assert later.fingerprint == recipe.fingerprint
    assert later.to_toml() != recipe.to_toml()  # what this is for
    assert dataclasses.replace(later, further=1).fingerprint != recipe.fingerprint


def test_an_argument_more_changes_nothing_unless_it_is_used():
    def first(a: float = 1.0) -> ServerPiece:
        return ServerPiece(lambda u, state, ctx: (u, state))

    def second(a: float = 1.0, b: int = 0) -> ServerPiece:
        return ServerPiece(lambda u, state, ctx: (u, state))

    marks = []
    for version, call in ((first, "odd(a=2.0)"), (second, "odd(a=2.0)"), (second, "odd(2.0, 0)"),
                          (second, "odd(a=2.0, b=1)")):
        version.__name__ = "odd"
        piece("server")(version)
        from askew.core import recipe as module
        module._essential_piece.cache_clear()
        marks.append(Recipe(server=["mean()", call]).fingerprint)
    registry._PIECES["server"].pop("odd")
    assert marks[0] == marks[1] == marks[2] != marks[3]


@pytest.mark.slow
def test_all_stored_runs_are_found_again_also_by_a_later_version():
    """Every run is that of its own recipe; those of items are found by the items' recipes, with a field more, too."""
    results = Results(RESULTS)
    for item in all_items():
        for recipe in recipes_of(item):
            runs = results.seeds(item.paper, recipe)
            if runs:
                again = results.seeds(item.paper, wider(recipe))
                assert [dataclasses.replace(run, recipe="") for run in again] == [
                    dataclasses.replace(run, recipe="") for run in runs]
    papers = {item.paper for item in all_items()}
    stored = [(mark, run) for paper in papers for mark, runs in results.of_paper(paper).items()
              for run in runs.values()]
    assert all(Recipe.from_toml(run.recipe).fingerprint == mark for mark, run in stored)
    shown = {recipe.fingerprint for item in all_items() for recipe in recipes_of(item)}
    of_no_item = [run.name for mark, run in stored if mark not in shown]
    # Four pairs of momentum and rate of hsu2019's abstract that no row shows any more.
    assert of_no_item == ["fedavgm"] * 4
    assert len(stored) - len(of_no_item) >= 251


@pytest.mark.slow
def test_the_reduced_versions_runs_are_found_again():
    results = Results(RESULTS, "quick")
    stored = {mark for paper in {item.paper for item in all_items()} for mark in results.of_paper(paper)}
    assert len(stored) >= 9
    assert stored <= {item.quick(recipe).fingerprint for item in all_items() for recipe in recipes_of(item)}


def test_files_with_first_fingerprints_are_read_and_written_anew(tmp_path):
    path = next(RESULTS.glob("fednnnn2020/table2-mnist.json"))
    runs = read(path)
    write(tmp_path / "again.json", "fednnnn2020", "table2-mnist", "full", runs)
    assert '"format": 4' in (tmp_path / "again.json").read_text()[:40]
    assert sorted(r.key for r in read(tmp_path / "again.json")) == sorted(r.key for r in runs)
    gone = (tmp_path / "again.json").read_text().replace('"format": 4,', "").replace("mean()", "no_longer_there()")
    (tmp_path / "old.json").write_text(gone)
    assert len(read(tmp_path / "old.json")) == len(runs)  # they keep the fingerprints they have


def test_a_fingerprint_stays_what_it_is():
    """Stored files hold it: whoever changes how it is taken raises FORMAT."""
    assert askew.Recipe().fingerprint == "1a4c2f12ebe3"
    assert askew.pieces.methods.fednnnn(askew.Recipe(rounds=7)).fingerprint == "9104e84d6c2b"


@pytest.mark.parametrize("kind", ["server", "client"])
def test_unknown_pieces_are_refused(kind):
    with pytest.raises(askew.AskewError, match="unknown"):
        essential(kind, Spec("no_such_piece"))

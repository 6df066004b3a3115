"""What a result shows of itself in Python: short, in notebooks, as tables, pictures, and after pickling."""

import pickle
import sys
from html import escape

import numpy as np
import pytest
import torch

import askew
from askew.pieces.methods import fedcd
from askew.report.page import write_page
from askew.runs.sweep import sweep

BASE = askew.Recipe(rounds=3, population="dirichlet_per_class(clients=5, alpha=0.3)", batch_size=40)


@pytest.fixture(scope="module")
def result():
    return askew.run(BASE)


def stopped_at_once(record, recipe):
    raise KeyboardInterrupt


def test_the_repr_is_one_line(result):
    assert repr(result) == f"<askew.Result fedavg on digits, seed 0: accuracy {result.accuracy:.2%} after 3 rounds>"
    assert "after 1 round, interrupted, 3 were asked for" in repr(askew.run(BASE, on_round=stopped_at_once))
    [diverged] = sweep([BASE.replace(client="sgd(lr=1e30)")])
    assert "not evaluated, 0 rounds, diverged: " in repr(diverged)
    early = BASE.replace(population="iid(clients=3) + validation(0.2)", client="sgd(lr=1e-9)", stop_after_no_gain=1)
    assert repr(askew.run(early)).endswith("after 2 rounds, stopped early>")


def test_the_html_of_a_notebook_escapes_what_people_wrote(tmp_path):
    html = askew.run(BASE.replace(name="<b>&", rounds=1), out=tmp_path / "<i>")._repr_html_()
    assert "&lt;b&gt;&amp; on digits" in html
    assert "&lt;i&gt;" in html
    assert "the whole test set (360 examples)" in html
    assert len(html) < 2000


def test_one_row_per_round_and_per_client(result):
    pandas = pytest.importorskip("pandas")
    rounds = result.to_pandas()
    assert rounds.index.tolist() == [1, 2, 3]
    assert rounds["accuracy"].tolist() == [record["accuracy"] for record in result.records]
    clients = result.to_pandas("clients")
    assert isinstance(clients, pandas.DataFrame)
    assert clients["score"].tolist() == result.simulation.device_scores().tolist()
    counts = clients[[column for column in clients if column.startswith("examples of ")]]
    assert (counts.to_numpy() == result.simulation.task.population.counts).all()
    assert (counts.sum(axis=1) == clients["examples"]).all()
    assert (clients["model"] == 0).all()


def test_what_is_no_table_is_refused(result, refused, monkeypatch):
    with refused("to_pandas: what must be 'rounds' or 'clients', not 'classes'"):
        result.to_pandas("classes")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with refused(r"to_pandas needs pandas.*pip install 'askew\[notebook\]'"):
        result.to_pandas()


@pytest.mark.parametrize("recipe", [BASE, fedcd(BASE, milestones=[1])], ids=["one model", "several"])
def test_it_can_be_pickled_and_still_judged(recipe, tmp_path):
    for out in (None, tmp_path / "run"):
        result = askew.run(recipe, out=out)
        copy = pickle.loads(pickle.dumps(result))
        assert copy.simulation is None
        assert (copy.records, copy.recipe, copy.folder) == (result.records, result.recipe, result.folder)
        assert (repr(copy), copy.evaluation, copy.best) == (repr(result), result.evaluation, result.best)
        assert all(torch.equal(v, copy.model[name]) for name, v in result.model.items())
        assert len(pickle.dumps(result)) < 200_000
    assert result.simulation is not None  # the original keeps its own


def test_numbers_alone_cannot_be_judged_and_say_so(refused):
    [kept] = sweep([BASE])
    bare = pickle.loads(pickle.dumps(askew.Result(BASE, kept.records, {}, 1.0)))
    with refused("no folder keeps its models; train with out="):
        bare.evaluation  # noqa: B018
    assert len(bare.plot().axes) == 1  # the curve alone


def test_a_picture_as_a_figure_and_as_a_file(result, tmp_path, refused):
    figure = result.plot(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes()[:4] == figure._repr_png_()[:4] == b"\x89PNG"
    curve, clients = figure.axes
    assert np.array(curve.lines[0].get_xydata()).tolist() == [[r["round"], r["accuracy"]] for r in result.records]
    assert sum(bar.get_height() for bar in clients.patches) == 5
    with refused("exists already"):
        result.plot(tmp_path / "run.png")
    with refused("no evaluated round to draw"):
        askew.Result(BASE, [], {}, 0.0).plot()


def test_a_page(result, tmp_path):
    pytest.importorskip("askew.report.page")
    assert result.report(tmp_path / "run.html").read_text().lstrip().startswith("<!doctype html>")


@pytest.mark.parametrize("kept", ["memory", "folder", "pickle", "sweep", "page of a folder"])
@pytest.mark.parametrize("name", ["mine", "<i>visits</i>", "digits again"])
def test_data_of_ones_own_go_by_their_own_name(name, kept, tmp_path):
    x, y = torch.rand(40, 4), torch.arange(40) % 2
    mine = askew.Dataset.from_tensors((x, y), (x, y), name=name)
    recipe, folder = askew.Recipe(rounds=1, population="iid(clients=2)"), tmp_path / "run"
    if kept == "sweep":
        [result] = sweep([recipe], data=mine, folders=[folder])
    else:
        result = askew.run(recipe, data=mine, out=None if kept in ("memory", "pickle") else folder)
    if kept == "pickle":
        result = pickle.loads(pickle.dumps(result))
    assert repr(result).startswith(f"<askew.Result fedavg on {name}, seed 0: ")
    page = write_page([folder if kept == "page of a folder" else result], tmp_path / "p.html").read_text()
    assert f"<h1>{escape(f'fedavg on {name}')}</h1>" in page


def test_a_page_that_exists_is_refused_in_words_for_python(result, tmp_path, refused):
    (tmp_path / "p.html").write_text("mine")
    with refused("page: .*p.html' exists already; name another file, or remove it first"):
        result.report(tmp_path / "p.html")
    assert (tmp_path / "p.html").read_text() == "mine"

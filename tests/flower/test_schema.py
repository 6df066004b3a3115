"""Hospitals whose tables differ in categories, gaps, scale and classes: from a pooled table to one federation."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from local_grid import LocalGrid
from said import Said

import askew
from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.data import table
from askew.data.schema import SCHEMA, schema_text
from askew.flower.preparation import Prepared, prepare
from askew.flower.server import serve
from askew.flower.settings import ServerSettings
from askew.runs.result import Result

HEAD = "age,income,ward,ill"
WARDS = {"north": ["heart", "eye"], "south": ["heart", "lung"], "west": ["eye", "lung"]}


def rows_of(hospital: str, seed: int) -> list[str]:
    """Nobody is well in the west; gaps are in another column in each."""
    draw, lines = random.Random(seed), []
    for i in range(60):
        age, income = draw.randint(60 if hospital == "west" else 20, 90), draw.gauss(40_000, 15_000)
        ward = draw.choice(WARDS[hospital])
        ill = (age - 55) / 10 + 2 * (ward == "heart") > 0
        cells = [str(age), f"{income:.0f}", ward, "yes" if ill else "no"]
        if i % 6 == 1:
            cells[list(WARDS).index(hospital)] = ""
        lines.append(",".join(cells))
    return lines


@pytest.fixture
def pooled(tmp_path: Path) -> Recipe:
    """Three tables, the pooled one, and the recipe that the laboratory has for it."""
    lines = []
    for seed, hospital in enumerate(WARDS):
        rows = rows_of(hospital, seed)
        (tmp_path / f"{hospital}.csv").write_text("\n".join([HEAD, *rows]) + "\n")
        lines += [f"{hospital},{row}" for row in rows]
    (tmp_path / "pooled.csv").write_text("\n".join([f"hospital,{HEAD}", *lines]) + "\n")
    return Recipe(data=f"table('{tmp_path / 'pooled.csv'}', label='ill', client='hospital', missing='indicator')",
                  population="natural()", preprocess=["normalise()"], model="mlp(hidden=[8])", rounds=5,
                  client="sgd(lr=0.1)")


def served(folder: Path, prepared: Prepared, nodes: dict[str, str], **settings: object) -> Result:
    (folder / "recipe.toml").write_text(prepared.recipe.to_toml())
    if prepared.schema is not None:
        (folder / SCHEMA).write_text(schema_text(prepared.schema))
    grid = LocalGrid(folder / "nodes", {5 + i: f'client = "{name}"\ndata = "{data}"\n'
                                        for i, (name, data) in enumerate(nodes.items())})
    told = {"recipe": "recipe.toml", "schema": SCHEMA, "out": str(folder / "run"), "poll": 0.005, "wait": 3.0,
            "clients": len(nodes), **settings}
    return serve(grid, ServerSettings(**told), folder)  # type: ignore[arg-type]


def tables(folder: Path) -> dict[str, str]:
    return {name: f"table('{folder / f'{name}.csv'}', label='ill')" for name in WARDS}


def test_hospitals_whose_tables_differ_learn_together(tmp_path: Path, pooled: Recipe) -> None:
    prepared = prepare(pooled.replace(rounds=20))
    assert prepared.schema is not None
    result = served(tmp_path, prepared, tables(tmp_path))
    assert {record["clients"] for record in result.records} == {3}
    assert result.records[-1]["accuracy"] > 0.85
    # The run's folder knows how a row becomes inputs: its model can be used for tables.
    trained = askew.load(tmp_path / "run")
    assert len(trained.predict(str(tmp_path / "south.csv"))) == 60


def test_without_a_schema_they_take_no_part_and_the_line_says_what_to_do(tmp_path: Path, pooled: Recipe,
                                                                         said: Said) -> None:
    whole = {name: f"table('{tmp_path / f'{name}.csv'}', label='ill', missing='drop')" for name in WARDS}
    with pytest.raises(AskewError, match="1 of at least 2 clients"):
        served(tmp_path, Prepared(prepare(pooled).recipe), whole, schema="")
    lines = [line for line in said.messages if "takes no part" in line]
    assert len(lines) == 2
    assert all("columns become other inputs than most others' do; names, categories, gaps or " in line
               for line in lines)


def test_numbers_of_normalise_are_those_of_the_pooled_table(pooled: Recipe) -> None:
    recipe = prepare(pooled).recipe
    x = askew.data.load(pooled.data).train.x.double()
    [step] = recipe.preprocess
    assert step.args["mean"] == pytest.approx(x.mean(dim=0).tolist(), rel=1e-6)
    assert Recipe.from_toml(recipe.to_toml()) == recipe
    # As many digits as 32 bits have: the same numbers, bit by bit.
    ours, theirs = (askew.run(r.replace(rounds=1), engine="sequential").model for r in (recipe, pooled))
    assert all(torch.equal(ours[name], v) for name, v in theirs.items())


def test_a_recipe_that_measures_what_cannot_be_read_is_refused(tmp_path: Path, pooled: Recipe) -> None:
    (tmp_path / "pooled.csv").unlink()
    with pytest.raises(AskewError, match=r"preprocess: normalise measures the data, .* own cannot be read"):
        prepare(pooled)
    plain = prepare(pooled.replace(preprocess=()))
    assert plain.schema is None
    assert plain.without is not None
    assert "pooled.csv" in plain.without


def test_a_node_that_lacks_a_column_takes_no_part_and_its_log_says_why(tmp_path: Path, pooled: Recipe,
                                                                       said: Said) -> None:
    (tmp_path / "west.csv").write_text("age,ward,ill\n30,eye,yes\n40,eye,no\n" * 4)
    result = served(tmp_path, prepare(pooled.replace(rounds=1)), tables(tmp_path))
    assert result.records[0]["clients"] == 2
    assert any("no column 'income', which the schema names" in line for line in said.messages)
    assert any(line == "askew: node 7 takes no part: AskewError; the node's log says more" for line in said.messages)


def test_the_servers_own_table_is_encoded_alike_and_may_lack_a_class(tmp_path: Path, pooled: Recipe) -> None:
    own = f"table('{tmp_path / 'west.csv'}', label='ill')"  # where nobody is well
    result = served(tmp_path, prepare(pooled.replace(rounds=2)), tables(tmp_path), data=own)
    assert result.judged_on == "the whole test set (12 examples)"
    assert result.simulation.task.data.classes == ("no", "yes")
    assert set(result.simulation.task.data.test.y.tolist()) == {1}


def test_a_run_that_is_resumed_goes_on_with_the_schema_that_it_began_with(tmp_path: Path, pooled: Recipe) -> None:
    prepared = prepare(pooled.replace(rounds=2))
    with pytest.raises(AskewError, match="round 1: "):
        served(tmp_path, prepared, tables(tmp_path), deadline=0.001)
    columns = table(str(tmp_path / "north.csv"), label="ill", missing="mean").columns
    result = served(tmp_path, Prepared(prepared.recipe, columns), tables(tmp_path), resume=True)
    assert result.records[-1]["clients"] == 3


def test_texts_of_other_vocabularies_do_not_fit_together(tmp_path: Path, said: Said) -> None:
    """Their inputs have the same shape: without a look at the words, a number would be another word at each client."""
    for name, words in (("north", "pain fever"), ("south", "fever cough"), ("west", "cough pain")):
        one, other = words.split()
        (tmp_path / f"{name}.csv").write_text("note,ill\n" + f"{one},yes\n{one} {other},yes\n{other},no\n" * 5)
    notes = {name: f"table('{tmp_path / f'{name}.csv'}', label='ill', text='note', length=4)" for name in WARDS}
    recipe = Recipe(data=notes["north"], model="bag_of_words()", rounds=1)
    with pytest.raises(AskewError, match="1 of at least 2 clients"):
        served(tmp_path, Prepared(recipe), notes, schema="")
    result = served(tmp_path, prepare(recipe), notes)
    assert result.records[0]["clients"] == 3

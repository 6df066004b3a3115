"""A pool of one's own whose numbers are numpy's, and one with Python's: the same run, in a folder and without one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import askew
from askew.core import registry
from askew.core.pool import Changes, Pool

RECIPE = askew.Recipe(population="iid(clients=6) + validation(0.2)", model="mlp(hidden=[4])", batch_size=0, rounds=4)


def in_halves(numpys: bool) -> Pool:
    """Odd clients have a model of their own after round 1; a third one is made and forgotten again."""
    def given(values: Any) -> Any:
        return np.asarray(values) if numpys else np.asarray(values).tolist()

    def choice(state: Any) -> np.ndarray:
        return np.arange(6) % 2 * state["split"]

    def trainers(state: Any, clients: Sequence[int]) -> dict[int, Any]:
        who = np.asarray(clients)
        return {number: given(who[choice(state)[who] == number]) for number in given(np.unique(choice(state)))}

    def after_round(state: Any, accuracies: np.ndarray, round: int, key: Any) -> tuple[Any, Changes]:
        if round == 1:
            return {"split": 1}, Changes(clones=given([[0, 1], [0, 2]]))
        return state, Changes(deleted=given([2])) if round == 2 else Changes()

    def keeps(state: Any) -> tuple[Any, np.ndarray]:
        numbers = np.arange(state["split"] + 1)
        return given(numbers), choice(state)[:, None] == numbers

    def metrics(state: Any, groups: np.ndarray | None) -> dict[str, Any]:
        numbers, users = np.unique(choice(state), return_counts=True)
        return {"users": dict(zip(given(numbers), given(users), strict=True)), "most": given(users)[0]}

    return Pool(init=lambda clients: {"split": 0}, trainers=trainers, scores=lambda state, m, c: given(np.ones(len(c))),
                after_round=after_round, choice=lambda state: given(choice(state)), keeps=keeps, metrics=metrics,
                needs_validation=True)


@pytest.fixture(autouse=True)
def pieces() -> Iterator[None]:
    @registry.piece("pool")
    def halves_in_numpy() -> Pool:
        return in_halves(True)

    @registry.piece("pool")
    def halves() -> Pool:
        return in_halves(False)

    yield
    for name in ("halves_in_numpy", "halves"):
        registry._PIECES["pool"].pop(name)


def stop(record: dict[str, Any], recipe: askew.Recipe) -> None:
    if record["round"] == 3:
        raise KeyboardInterrupt


def test_a_pool_with_numbers_of_numpy_is_that_with_plain_ones(tmp_path: Path) -> None:
    plain = askew.run(RECIPE.replace(pool="halves()"), out=tmp_path / "plain")
    ours = askew.run(RECIPE.replace(pool="halves_in_numpy()"), out=tmp_path / "ours")
    assert ours.finished
    assert (tmp_path / "ours" / "metrics.jsonl").read_bytes() == (tmp_path / "plain" / "metrics.jsonl").read_bytes()
    assert (ours.records[0]["cloned"], ours.records[1]["deleted"]) == ([[0, 1], [0, 2]], [2])
    assert ours.records[-1]["users"] == {"0": 3, "1": 3}
    assert plain.records == ours.records


def test_it_is_stopped_and_goes_on(tmp_path: Path) -> None:
    recipe = RECIPE.replace(pool="halves_in_numpy()")
    stopped = askew.run(recipe, out=tmp_path / "run", on_round=stop)
    assert (stopped.interrupted, len(stopped.records)) == (True, 3)
    assert askew.resume(tmp_path / "run").records == askew.run(recipe).records


def test_changes_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(askew.AskewError, match=r"Changes: clones must be a list of .*, not \[0, 1\]"):
        Changes(clones=[0, 1])

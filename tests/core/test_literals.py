"""Whatever a piece accepts can be written down and read again; what a text cannot hold is refused when it is made."""

from __future__ import annotations

import collections
import enum
import math
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import askew
from askew.core import registry
from askew.core.pool import Pool
from askew.core.preprocess import Preprocess
from askew.core.server_piece import ServerPiece
from askew.pieces.pool import single_model


class Level(enum.IntEnum):
    LOW = 1


class Word(str, enum.Enum):  # noqa: UP042 - its `str` is not the word
    LOW = "low"


class Colour(enum.Enum):
    RED = 1



TAKEN: list[Any] = []
PLAIN: dict[str, tuple[Any, Any]] = {  # what is given, and what the piece takes where it says nothing of its type
    "a float of numpy": (np.float64(0.5), 0.5), "of 32 bits": (np.float32(0.5), 0.5), "an int": (np.int64(3), 3),
    "truth": (np.bool_(True), True), "a word": (np.str_("a"), "a"), "an array": (np.arange(3), [0, 1, 2]),
    "rows": (np.ones((2, 1)), [[1.0], [1.0]]), "an array of one": (np.array(2.0), 2.0), "a tuple": ((1, 2), [1, 2]),
    "tuples": ([1, (2, (3,))], [1, [2, [3]]]), "a range": (range(2), [0, 1]), "a set": ({"b", "a"}, ["a", "b"]),
    "a path": (Path("a") / "b", "a/b"), "a device": (torch.device("cpu"), "cpu"), "a level": (Level.LOW, 1),
    "a word of an enum": (Word.LOW, "low"), "bytes": (b"x", b"x"), "infinity": (-math.inf, -math.inf),
    "infinity in a list": ([math.inf], [math.inf]), "nothing": (None, None), "no list": ([], []), "no dict": ({}, {}),
    "shares": ({"a": np.float32(0.5)}, {"a": 0.5}),
    "a dict": ({np.int64(1): (np.float32(0.5), math.inf), "a": {"b": None}}, {1: [0.5, math.inf], "a": {"b": None}}),
}
REFUSED: dict[str, Any] = {
    "a function": len, "an object": object(), "NaN": math.nan, "NaN in a list": [math.nan], "complex": 1j,
    "a deque": collections.deque([1]), "a colour": Colour.RED, "a key of two": {(1, 2): 3}, "digits": [10**5000],
    "a date": np.datetime64("now"), "a long list": list(range(50_000)), "a long word": "x" * 200_000}
HINTS = [None, Any, object, tuple, list, dict, set, Sequence, Mapping, typing.Tuple, tuple[int, int],  # noqa: UP006
         tuple[float, ...], list[Any], Sequence[float], dict[str, float], np.ndarray, Path, str, int, float,
         tuple | None]


def taking(hint: Any, kind: str = "server") -> Any:
    """A piece with one argument, of that type."""
    def takes_any(g=None):  # type: ignore[no-untyped-def]
        TAKEN.append(g)
        return single_model() if kind == "pool" else ServerPiece(lambda u, state, ctx: (u, state))

    takes_any.__annotations__ = {} if hint is None else {"g": hint}
    return registry.piece(kind)(takes_any)


@pytest.fixture(autouse=True)
def pieces() -> Iterator[None]:
    TAKEN.clear()
    yield
    for kind in ("server", "pool"):
        registry._PIECES[kind].pop("takes_any", None)


def survivor(recipe: askew.Recipe) -> Any:
    """What the piece takes when the recipe is read again."""
    again = askew.Recipe.from_toml(recipe.to_toml())
    assert again == recipe
    assert again.fingerprint == recipe.fingerprint
    registry.build("server", again.server[1])
    return TAKEN[-1]


@pytest.mark.parametrize(("given", "plain"), PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("hint", [None, Any, object])
def test_an_argument_without_a_type_is_what_the_file_gives_back(hint: Any, given: Any, plain: Any) -> None:
    recipe = askew.Recipe(server=["mean()", taking(hint)(given)])
    assert (TAKEN, type(TAKEN[-1])) == ([plain], type(plain))
    assert survivor(recipe) == plain


@pytest.mark.parametrize("hint", HINTS, ids=str)
def test_whatever_a_piece_accepts_survives_the_trip_through_a_file(hint: Any) -> None:
    make, accepted = taking(hint), 0
    for value in [*(given for given, _ in PLAIN.values()), *REFUSED.values()]:
        try:
            recipe = askew.Recipe(server=["mean()", make(value)])
        except askew.AskewError:
            continue
        accepted += 1
        first = TAKEN[-1]
        np.testing.assert_equal(survivor(recipe), first)
        assert type(TAKEN[-1]) is type(first)
    assert accepted > 1  # beside None


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED)
def test_what_a_text_cannot_hold_is_refused_when_the_piece_is_made(value: Any) -> None:
    with pytest.raises(askew.AskewError, match=r"takes_any: (g must be what a recipe can|its arguments take)"):
        taking(None)(value)


def test_a_tuple_is_a_tuple_and_lists_take_its_place_in_a_file() -> None:
    taking(tuple)((1, 2))
    registry.parse("server", "takes_any([1, 2])")
    registry.build("server", "takes_any([1, 2])")
    assert TAKEN == [(1, 2), (1, 2)]
    with pytest.raises(askew.AskewError, match="takes_any: g must be tuple, not 3"):
        taking(tuple)(3)


def test_tensors_of_a_sweep_stay_tensors_where_nothing_is_said_of_the_type() -> None:
    """Configurations that differ in that number train together."""
    rates = torch.tensor([0.5, 0.25])
    assert taking(None)(rates).spec.args["g"] is rates
    assert askew.Recipe(server=["mean()", taking(None)(torch.tensor(0.5))]).server[1].args == {"g": 0.5}
    assert taking(None, "pool")(torch.tensor([1, 2])).spec.args == {"g": [1, 2]}


def test_what_the_program_supplies_is_left_as_it_is() -> None:
    @registry.piece("pool")
    def takes_any(data=None) -> Pool:  # type: ignore[no-untyped-def]
        TAKEN.append(data)
        return single_model()

    array = np.arange(3)
    takes_any(data=array)
    assert TAKEN[-1] is array


def test_a_run_ends_and_goes_on_with_a_number_of_numpy(tmp_path: Path) -> None:
    """It trained all rounds, and was lost after the last one."""
    @registry.piece("server")
    def takes_any(by=1.0) -> ServerPiece:  # type: ignore[no-untyped-def]
        return ServerPiece(lambda u, state, ctx: ({name: by * v for name, v in u.items()}, state))

    def stop(record: dict[str, Any], recipe: askew.Recipe) -> None:
        if record["round"] == 1:
            raise KeyboardInterrupt

    recipe = askew.Recipe(population="iid(clients=4)", model="mlp(hidden=[4])", batch_size=0, rounds=2,
                          server=["mean()", takes_any(np.float64(0.5))])
    whole = askew.run(recipe, out=tmp_path / "whole")
    assert askew.run(recipe, out=tmp_path / "run", on_round=stop).interrupted
    assert askew.resume(tmp_path / "run").records == whole.records


def test_what_a_step_has_measured_may_be_of_numpy(tmp_path: Path) -> None:
    """It stands in model.json, which is written after the last round."""
    @registry.piece("preprocess")
    def halved(by=None) -> Preprocess:  # type: ignore[no-untyped-def]
        return Preprocess(lambda x, *rest: 0.5 * x, lambda shape: shape, measured={"by": [np.float32(0.5)]})

    try:
        recipe = askew.Recipe(population="iid(clients=4)", batch_size=0, rounds=1, preprocess=["halved()"])
        assert askew.run(recipe, out=tmp_path / "run").finished
    finally:
        registry._PIECES["preprocess"].pop("halved")

"""What a checkpoint can hold is what torch's safe reader gives back, and nothing that runs code."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from askew.core.lasting import UnreadableError, read, unreadable_type
from askew.core.tensors import ModelState


class Plain:
    pass


class Tensors(torch.Tensor):
    pass


HELD = [None, True, 3, 10**400, 0.5, 1j, "a", b"a", bytearray(b"a"), [1], (1,), {1, 2}, {"a": {1: [None]}},
        Counter("a"), OrderedDict(a=1), torch.ones(2), torch.nn.Parameter(torch.ones(2)), torch.ones(2).to_sparse(),
        torch.Size([1]), torch.float32, torch.device("cpu"), ModelState({"w": torch.ones(2)}, {"b": torch.zeros(1)})]
NOT_HELD = [np.zeros(2), np.float64(1), np.int64(1), deque([1]), defaultdict(int), range(2), frozenset([1]), len,
            Plain(), torch.ones(2).as_subclass(Tensors), torch.Generator(), Path("a"), {np.int64(1): 2},
            [({"a": deque()},)], ModelState({"w": np.ones(2)})]  # type: ignore[dict-item]


def saved(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("value", HELD, ids=repr)
def test_what_can_be_held_is_read_again(value: Any) -> None:
    assert unreadable_type([{"a": (value,)}]) is None
    again = read(saved(value), torch.device("cpu"))
    assert type(again) is type(value)
    assert repr(again) == repr(value)


@pytest.mark.parametrize("value", NOT_HELD, ids=lambda value: type(value).__name__)
def test_what_cannot_be_held_is_named_before_and_behind(value: Any) -> None:
    assert unreadable_type([{"a": (value,)}]) is not None
    with pytest.raises(UnreadableError, match=r"it holds a [\w.]+, which is read from no file"):
        read(saved(value), "cpu")


def test_the_type_is_named() -> None:
    assert unreadable_type({"n": [np.zeros(1)]}) == "numpy.ndarray"
    assert unreadable_type(range(1)) == "range"


def test_a_list_may_hold_itself() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert unreadable_type(loop) is None


class Bomb:
    """Unpickled, it would make a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.mkdir, (self.path,)


class BombInModel:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return ModelState, ({"w": Bomb(self.path)}, {})


def test_a_model_brings_no_code_along(tmp_path: Path) -> None:
    """That a model may stand in a file lets nothing else in."""
    for bomb in (BombInModel(tmp_path / "made"), ModelState({}, {"b": Bomb(tmp_path / "made")})):  # type: ignore[dict-item]
        with pytest.raises(UnreadableError, match="which is read from no file"):
            read(saved(bomb), "cpu")
        assert not (tmp_path / "made").exists()
    pickle.loads(pickle.dumps(Bomb(tmp_path / "made")))
    assert (tmp_path / "made").exists()  # it would have done so


def test_damage_is_not_taken_for_a_type(tmp_path: Path) -> None:
    content = saved({"a": torch.ones(100)}).getvalue()
    for damaged in (content[:200], b"", b"PK" + content[2:100], b"x" * 50):
        with pytest.raises(Exception) as error:
            read(io.BytesIO(damaged), "cpu")
        assert not isinstance(error.value, UnreadableError)
    assert zipfile.is_zipfile(io.BytesIO(content))

"""Ownership: whole numbers of any type, in range, each example once with a client; nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from askew.core.errors import AskewError
from askew.core.ownership import Ownership, has_twice, whole_numbers

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", ">i4")


@pytest.mark.parametrize("kind", INTEGERS)
def test_every_type_of_whole_numbers_is_welcome(kind: str) -> None:
    owned = Ownership.of([np.array([3, 1], kind), np.array([], kind), np.array([2], kind)])
    assert owned.indices.dtype == owned.offsets.dtype == np.int64
    assert [owned[k].tolist() for k in range(3)] == [[3, 1], [], [2]]
    plain = Ownership(np.array([3, 1], kind), np.array([0, 2], kind))
    assert plain.indices.dtype == np.int64


@pytest.mark.parametrize("part", [[3, 1], (3, 1), range(1, 4, 2), torch.tensor([3, 1]), np.array([3, 1])[::1]])
def test_and_every_sequence_of_them(part: Any) -> None:
    assert sorted(Ownership.of([part]).indices.tolist()) == [1, 3]


@pytest.mark.parametrize(("part", "says"), [
    ([0, -1], "index -1 is negative"),
    ([0.0, 1.0], "client 0 must be whole numbers on 1 axis, not float64"),
    ([0.5], "float64"), ([np.nan], "float64"), ([True, False], "bool"), (["0"], "must be whole numbers"),
    ([None], "object"), ([[0, 1]], r"shape \(1, 2\)"), ([[0], [1, 2]], "must be whole numbers"), (3, r"shape \(\)"),
    ([2**63], "must be|beyond 64 bits"), ([2**70], "must be whole"), ([1 + 0j], "complex"),
    (np.array([2**63], np.uint64), "9223372036854775808, which is beyond 64 bits"),
    ([4, 2, 4], "client 0 has example 4 twice"),
    (np.array([2**62, 2**62]), f"has example {2**62} twice"),
    (np.datetime64("2020", "s"), "datetime"), ("01", "must be whole numbers"),
])
def test_everything_else_is_one_line(part: Any, says: str) -> None:
    with pytest.raises(AskewError, match=says) as caught:
        Ownership.of([part])
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("offsets", [[], [0], [0, 1], [1, 2], [0, 3], [0, 2, 1, 2], [-1, 2], [0.0, 2.0]])
def test_offsets_that_do_not_fit(offsets: list[int]) -> None:
    with pytest.raises(AskewError, match="ownership: offsets"):
        Ownership(np.array([5, 6]), np.array(offsets))


def test_owners_must_be_clients() -> None:
    with pytest.raises(AskewError, match=r"owner 3 is none of the 3 clients, who are 0\.\.2"):
        Ownership.by_owner(np.array([0, 3]), 3)
    with pytest.raises(AskewError, match="owners must be whole numbers"):
        Ownership.by_owner(np.array([0.0, 1.0]), 3)


def test_twice_is_found_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a plain search, with chunks of a few indices, small and huge numbers; two clients may share one."""
    monkeypatch.setattr("askew.core.ownership._CHUNK", 7)
    for seed in range(200):
        draw = np.random.default_rng(seed)
        parts = [draw.integers(0, 12, draw.integers(0, 6)) for _ in range(draw.integers(1, 8))]
        if seed % 2:
            parts = [np.unique(part) for part in parts]
        if seed % 3 == 0:
            parts = [part + 2**61 for part in parts]
        twice = [k for k, part in enumerate(parts) if len(set(part.tolist())) < len(part)]
        owned = Ownership(np.concatenate(parts), np.concatenate([[0], np.cumsum([len(part) for part in parts])]))
        assert has_twice(owned.indices) == (len(set(owned.indices.tolist())) < len(owned.indices))
        if twice:
            with pytest.raises(AskewError, match=f"client {twice[0]} has example"):
                owned.check_once()
        else:
            owned.check_once()
        assert [(first + k, part[k].tolist()) for first, part in owned.chunks() for k in range(len(part))] == [
            (k, owned[k].tolist()) for k in range(len(owned))]
        joined = owned.joined(owned)
        assert [joined[k].tolist() for k in range(len(owned))] == [part.tolist() * 2 for part in parts]


def test_an_empty_list_has_no_type() -> None:
    assert whole_numbers("x", []).dtype == np.int64
    assert whole_numbers("x", np.zeros((0, 3)), axes=2).shape == (0, 3)

"""Facts about the machine: what is not ours, or is damaged, counts as nothing known."""

from __future__ import annotations

from pathlib import Path

import pytest

from askew.papers.machine_facts import recall, remember


def test_what_is_remembered_is_recalled(tmp_path: Path) -> None:
    known = {"this machine": {"mlp on digits": 123.5}, "another": {}}
    remember(tmp_path / "cache" / "rates.json", known)
    assert recall(tmp_path / "cache" / "rates.json") == known
    assert [file.name for file in (tmp_path / "cache").iterdir()] == ["rates.json"]


@pytest.mark.parametrize(("text", "known"), [
    ("[]", {}), ("5", {}), ("", {}), ("{", {}), ("null", {}), ("[" * 100_000, {}),
    ('{"a": [1], "b": {"x": 2.0}}', {"b": {"x": 2.0}}), ('{"a": null, "b": 3}', {}),
    ('{"a": {"x": "fast", "y": [1.0], "z": {}, "w": 1.5}}', {"a": {"w": 1.5}}),
    ('{"a": {"x": 0.0, "y": -1.0, "z": NaN, "w": Infinity, "v": 1e999, "u": true}}', {"a": {}}),
])
def test_what_is_not_ours_is_nothing(text: str, known: dict, tmp_path: Path) -> None:
    (tmp_path / "rates.json").write_text(text)
    assert recall(tmp_path / "rates.json") == known


def test_a_folder_that_cannot_be_written_costs_nothing_more(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    remember(tmp_path / "file" / "rates.json", {"a": {"x": 1.0}})
    assert recall(tmp_path / "file" / "rates.json") == {}

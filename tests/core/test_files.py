"""Files are written whole or not at all, nothing of a person's is overwritten, and no file hangs a reader."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from askew.core import files
from askew.core.errors import AskewError


@pytest.mark.parametrize("name", ["a.npz", "metrics.jsonl", "recipe", "x.tar.gz"])
def test_what_is_being_written_lies_beside_and_is_known_as_a_leftover(tmp_path: Path, name: str) -> None:
    with files.written(tmp_path / name) as aside:
        assert (files.is_leftover(aside) and aside.suffix == Path(name).suffix) or not Path(name).suffix
        assert not files.is_leftover(tmp_path / name)
        aside.write_text("new")
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    files.write_text(path, "old")

    def fail() -> None:
        with files.written(path) as aside:
            aside.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_a_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(AskewError, match="cannot be written: No such file"):
        files.write_text(tmp_path / "gone" / "a.txt", "text")


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AskewError, match="no regular file"):
        files.read_text(tmp_path / "pipe", "recipe")


def test_what_is_too_large_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"12345")
    with pytest.raises(AskewError, match="5 bytes, too many for a recipe"):
        files.read_text(tmp_path / "large", "recipe", most=4)
    (tmp_path / "odd").write_bytes(b"a\xff")
    with pytest.raises(AskewError, match=r"not text in UTF-8 \(byte 1\)"):
        files.read_text(tmp_path / "odd", "recipe")
    with pytest.raises(AskewError, match="is a folder"):
        files.read_text(tmp_path, "recipe")
    with pytest.raises(AskewError, match="cannot be read"):
        files.read_text("a\0b", "recipe")


@pytest.mark.parametrize("text", ["[1]", "{", "1" * 5000, "[" * 100_000, ""])
def test_damaged_json_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(AskewError, match="is damaged"):
        files.read_json(tmp_path / "a.json", "summary")


def test_nothing_that_exists_is_taken(tmp_path: Path) -> None:
    assert files.check_new(tmp_path / "new.npz", "--save") == tmp_path / "new.npz"
    (tmp_path / "there").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("there", "link"):
        with pytest.raises(AskewError, match="exists already"):
            files.check_new(tmp_path / name, "--save")
    with pytest.raises(AskewError, match="there is no folder"):
        files.check_new(tmp_path / "no" / "x", "--save")
    with pytest.raises(AskewError, match=r"is a folder; name a file$"):
        files.check_new(tmp_path, "--save", "name another file, or add --overwrite", overwrite=True)


def test_a_file_that_is_not_there_says_where_it_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe names its data as seen from where the run began; it may be resumed from somewhere else."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AskewError, match=rf"^'t.csv' cannot be read: .*name a table \(a path .* in '{tmp_path}'\)$"):
        files.check_regular("t.csv", "table")
    with pytest.raises(AskewError, match=r"name a table$"):
        files.check_regular(tmp_path / "t.csv", "table")


def test_text_that_an_editor_on_windows_saved_is_read(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert files.read_json(tmp_path / "schema.json", "schema") == {"a": 1}

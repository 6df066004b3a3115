"""`askew resume` of a stranger's folder runs nothing of theirs, whatever they have put into it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from victims import BASE

import askew
from askew.runs import checkpoints


class Bomb:
    """Unpickled, it would make a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def stop(record: askew.Record, recipe: askew.Recipe) -> None:
        if record["round"] == 2:
            raise KeyboardInterrupt

    askew.run(BASE, out=tmp_path / "run", on_round=stop)
    return tmp_path / "run"


def put(folder: Path, content: bytes) -> None:
    """In place of the checkpoint, with a checksum that fits: who can write to a folder can write that, too."""
    (folder / "checkpoint-2.pt").write_bytes(content)
    path = folder / "checkpoint-2.json"
    about = json.loads(path.read_text())
    del about["sha256"]
    about["files"]["checkpoint-2.pt"] = hashlib.sha256(content).hexdigest()
    path.write_text(json.dumps({**about, "sha256": checkpoints._sum_of(about)}))


def zipped(folder: Path, bomb: bytes) -> bytes:
    """A checkpoint in torch's own form, with the bomb for its pickle."""
    buffer, original = io.BytesIO(), zipfile.ZipFile(folder / "checkpoint-2.pt")
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as made:
        for name in original.namelist():
            made.writestr(name, bomb if name.endswith("data.pkl") else original.read(name))
    return buffer.getvalue()


def test_a_checkpoint_with_a_pickle_that_calls_something(folder: Path, tmp_path: Path) -> None:
    bomb = pickle.dumps(Bomb(tmp_path / "made"))
    legacy = io.BytesIO()
    torch.save(Bomb(tmp_path / "made"), legacy, _use_new_zipfile_serialization=False)
    for content in (bomb, zipped(folder, bomb), legacy.getvalue()):
        put(folder, content)
        with pytest.raises(askew.AskewError, match=r"damaged|cannot be read: it holds a \w+.mkdir"):
            askew.resume(folder)
        assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("call", ["os:system(command='true')", "builtins:exec(code='1')", "__import__('os')",
                                  "sgd(lr=__import__('os').getpid())"])
def test_a_recipe_that_names_a_function(folder: Path, call: str) -> None:
    path = folder / "recipe.toml"
    path.write_text(path.read_text().replace('"sgd(lr=0.1)"', json.dumps(call)))
    with pytest.raises(askew.AskewError):
        askew.resume(folder)


def test_a_module_beside_the_run_is_not_imported(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("step_of_mine", "sitecustomize", "askew_pieces", "torch"):
        (folder / f"{name}.py").write_text(f"import os; os.mkdir({str(tmp_path / 'made')!r})\n")
    path = folder / "recipe.toml"
    path.write_text(path.read_text().replace('"sgd(lr=0.1)"', '"step_of_mine:step_of_mine(lr=0.1)"'))
    monkeypatch.chdir(folder)
    with pytest.raises(askew.AskewError, match="step_of_mine"):
        askew.resume(folder)
    assert not (tmp_path / "made").exists()

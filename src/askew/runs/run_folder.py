"""A run on disk: the recipe, metrics as they come, final weights, the environment, a checkpoint while it lasts."""

from __future__ import annotations

import functools
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Container, Iterable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.engine.threads import allowed_threads

RECIPE, METRICS, SUMMARY, ENVIRONMENT, CHECKPOINT = "recipe.toml", "metrics.jsonl", "summary.json", "environment.json", "checkpoint.pt"
MEMORY = "memory"  # a folder: what clients remember
INTERRUPTED = "interrupted"  # in a summary: why a run stopped that can be gone on with


class RunFolder:
    """The files of one run.

    recipe.toml          the full recipe
    environment.json     versions, device, commit, and what the run was given besides its recipe
    metrics.jsonl        one line a round; the same seed writes the same bytes (times are in summary.json)
    model.safetensors    the model to use; model-N.safetensors for further models of a pool
    training.safetensors the model that training would go on from, where it is another one (FedNNNN)
    summary.json         final numbers and times
    checkpoint.pt        only while a run is unfinished: what `askew resume` needs
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, recipe: Recipe, environment: Mapping[str, Any], overwrite: bool = False) -> RunFolder:
        cls.check_free(path, overwrite)
        if path.exists() and any(path.iterdir()):
            shutil.rmtree(path)
        path.mkdir(parents=True, exist_ok=True)
        (path / RECIPE).write_text(recipe.to_toml(), encoding="utf-8")
        _write_json(path / ENVIRONMENT, environment)
        (path / METRICS).touch()
        return cls(path)

    @staticmethod
    def check_free(path: Path, overwrite: bool = False) -> None:
        """Refuse a folder that holds a run, and, with `overwrite`, one that holds anything else."""
        if not path.exists():
            parent = next(folder for folder in path.absolute().parents if folder.exists())
            if not parent.is_dir() or not os.access(parent, os.W_OK):
                raise AskewError(f"--out: {str(path)!r} cannot be made: {str(parent)!r} is "
                                 f"{'not writable' if parent.is_dir() else 'a file'}; name another folder")
            return
        if not path.is_dir():
            raise AskewError(f"--out: {str(path)!r} is a file; name a folder")
        if (path / RECIPE).exists():
            if not overwrite:
                raise AskewError(f"--out: {str(path)!r} already holds a run; name another folder, or add --overwrite")
        elif any(path.iterdir()):
            raise AskewError(f"--out: {str(path)!r} is not empty and holds no run; name another folder")

    @staticmethod
    def check_many(path: Path | None, go_on: bool, what: str) -> None:
        """Refuse, before any work, a folder that could not take a sweep or a comparison, or hold one to go on with."""
        if go_on and (path is None or not path.is_dir()):
            raise AskewError(f"--resume needs --out with the folder of an interrupted {what}, got {str(path) if path else 'none'}")
        if path is not None and not go_on:
            if path.is_dir() and any(path.iterdir()):
                raise AskewError(f"--out: {str(path)!r} is not empty; name another folder")
            RunFolder.check_free(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        if not (path / RECIPE).is_file():
            raise AskewError(f"{str(path)!r} is not a run folder: it has no {RECIPE}")
        return cls(path)

    @property
    def recipe(self) -> Recipe:
        text = (self.path / RECIPE).read_text(encoding="utf-8")
        # Earlier versions wrote pieces of one's own with their modules; they are found by name, when the module is imported.
        return Recipe.from_toml(re.sub(r'"[\w.]+:(\w+(?:\(|"))', r'"\1', text))

    @property
    def environment(self) -> dict[str, Any]:
        return json.loads((self.path / ENVIRONMENT).read_text())

    def append(self, record: Mapping[str, Any]) -> None:
        with (self.path / METRICS).open("a") as file:
            file.write(json.dumps(record) + "\n")

    def records(self) -> list[dict[str, Any]]:
        """The rounds so far; a last line that a power cut left unfinished is none."""
        return [json.loads(line) for line in (self.path / METRICS).read_text().rpartition("\n")[0].splitlines()]

    def rewrite(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Make the metrics these records."""
        (self.path / METRICS).write_text("".join(json.dumps(record) + "\n" for record in records))

    def save_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Written beside the old one, then renamed: an interruption leaves one of them whole.

        What clients remember lies in files of its own, of which only those are written that have changed.
        """
        fresh, state = self.path / (CHECKPOINT + ".new"), dict(state)
        files: dict[int, str] = {}
        if memory := state.get("memory"):
            (self.path / MEMORY).mkdir(exist_ok=True)
            files = {n: f"{n}-{block['version']}.pt" for n, block in memory["blocks"].items()}
            for n, block in memory["blocks"].items():
                if not (self.path / MEMORY / files[n]).is_file():
                    aside = self.path / MEMORY / f"{files[n]}.new"
                    torch.save([v.cpu().clone() for v in block["rows"]], aside)
                    aside.replace(self.path / MEMORY / files[n])
            versions = {n: block["version"] for n, block in memory["blocks"].items()}
            state["memory"] = {"place": memory["place"], "versions": versions}
        torch.save(state, fresh)
        fresh.replace(self.path / CHECKPOINT)
        for old in (self.path / MEMORY).glob("*"):
            if old.name not in files.values():
                old.unlink()

    def load_checkpoint(self, device: torch.device) -> dict[str, Any]:
        self.check_checkpoint()
        state: dict[str, Any] = torch.load(self.path / CHECKPOINT, weights_only=True, map_location=device)
        if memory := state.get("memory"):
            state["memory"] = {"place": memory["place"], "blocks": {
                n: {"version": version, "rows": torch.load(self.path / MEMORY / f"{n}-{version}.pt", weights_only=True, map_location=device)}
                for n, version in memory["versions"].items()}}
        self.rewrite(record for record in self.records() if record["round"] <= state["round"])
        return state

    def check_checkpoint(self) -> None:
        """Refuse a folder that cannot be gone on with."""
        if not self.has_checkpoint:
            if (self.path / SUMMARY).is_file():
                raise AskewError(f"{str(self.path)!r} has no checkpoint: the run is finished")
            raise AskewError(f"{str(self.path)!r} was stopped before its first checkpoint; run it again with --overwrite")

    @property
    def has_checkpoint(self) -> bool:
        return (self.path / CHECKPOINT).is_file()

    @property
    def is_finished(self) -> bool:
        """Whether the run reached its last round: neither interrupted nor diverged."""
        return (self.path / SUMMARY).is_file() and self.summary["stopped"] is None and not self.has_checkpoint

    @property
    def divergence(self) -> str | None:
        """Why training broke off, if it did."""
        stopped = self.summary["stopped"] if (self.path / SUMMARY).is_file() else None
        return None if stopped == INTERRUPTED else stopped

    @property
    def seconds(self) -> float:
        """Spent so far, as far as it was written down."""
        return float(self.summary["seconds"]) if (self.path / SUMMARY).is_file() else 0.0

    @property
    def together(self) -> int:
        """Configurations that were trained at once."""
        return int(self.summary.get("together", 1))

    @property
    def was_compiled(self) -> bool | None:
        """For the same bits when it goes on; before that was written down, every run on a GPU was."""
        on_cpu = str(self.environment.get("device", "cpu")).startswith("cpu")
        return self.environment.get("compiled", None if on_cpu else True)

    def drop_checkpoint(self) -> None:
        (self.path / CHECKPOINT).unlink(missing_ok=True)
        shutil.rmtree(self.path / MEMORY, ignore_errors=True)

    def save_weights(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        save_file({key: v.detach().cpu().contiguous() for key, v in tensors.items()}, self.path / f"{name}.safetensors")

    def drop_other_weights(self, keep: Container[str]) -> None:
        """Forget all weights but these."""
        for path in self.path.glob("*.safetensors"):
            if path.stem not in keep:
                path.unlink()

    def load_weights(self, name: str) -> dict[str, Tensor]:
        return load_file(self.path / f"{name}.safetensors")

    def save_summary(self, summary: Mapping[str, Any]) -> None:
        _write_json(self.path / SUMMARY, summary)

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.path / SUMMARY).read_text())


def default_folder(name: str) -> Path:
    """runs/DATE-TIME-NAME, with a number behind it if that exists; of the name what a folder's may hold."""
    plain = re.sub(r"[^\w.=+]+", "-", name)[:60].strip("-")
    stem = f"{datetime.now():%Y%m%d-%H%M%S}-{plain}"
    return next(path for n in itertools.count(1) if not (path := Path("runs") / (stem if n == 1 else f"{stem}-{n}")).exists())


def describe_environment(device: torch.device | str, **given: Any) -> dict[str, Any]:
    """Versions, machine and commit: what a number needs beside it to mean anything."""
    versions = {"python": platform.python_version()}
    for package in ("askew", "torch", "numpy", "safetensors"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # askew run from its source tree
            versions[package] = "not installed"
    return {"versions": versions, "device": device_name(device), "threads": allowed_threads(),
            "platform": f"{platform.system()} {platform.machine()}", "cpus": os.cpu_count(), "commit": _commit(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"), **given}


def device_name(device: torch.device | str) -> str:
    device = torch.device(device)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device.type} ({platform.machine()})"


@functools.cache
def _commit() -> str | None:
    """The commit of the source tree that askew runs from, if it runs from one; '+' marks uncommitted changes."""
    here = Path(__file__).parent

    def git(*args: str) -> str:
        return subprocess.run(["git", *args], cwd=here, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        if not Path(git("rev-parse", "--show-toplevel"), "src", "askew").is_dir():
            return None
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")

"""A run on disk: the recipe, metrics as they come, final weights, the environment, checkpoints while it lasts."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import re
import tomllib
import warnings
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from askew.core import files
from askew.core.errors import AskewError, first_line
from askew.core.recipe import Recipe
from askew.runs.checkpoints import MEMORY, About, Checkpoints, DamagedError
from askew.runs.evaluation import EVALUATION, write_evaluation
from askew.runs.folders import ENVIRONMENT, MARKER, METRICS, PAGE, RECIPE, check_free, mark
from askew.runs.lock import Lock

SUMMARY = "summary.json"
INTERRUPTED = "interrupted"  # in a summary: why a run stopped that can be resumed
FAILED = "failed"  # likewise: an error broke it off; `failed` beside it says which
MODEL = "model.json"
WEIGHTS = re.compile(r"((model|training)(-\d+)?|personal)\.safetensors")


class RunFolder:
    """The files of one run.

    askew.json           says that the folder is askew's; only such folders are ever written to again
    recipe.toml          the full recipe
    environment.json     versions, device, commit, and what the run was given besides its recipe
    metrics.jsonl        one line per round; the same seed writes the same bytes (times are in summary.json)
    model.safetensors    the model to use; model-N.safetensors for further models of a pool
    personal.safetensors tensors that each client keeps for itself, one row per client
    model.json           what else one needs to use the weights without the data
    training.safetensors the model that training would go on from, where it is another one (FedNNNN)
    evaluation.json      what the final models are worth, in detail: only of a run that reached its end
    summary.json         final numbers and times, and the SHA-256 of metrics, weights and evaluation
    report.html          the page of `askew report`, where one was written
    checkpoint-N.*       only while a run is unfinished: what `askew resume` needs
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = Checkpoints(path)
        self._lock: Lock | None = None
        self._sum, self._rows, self._bytes = hashlib.sha256(), 0, 0  # of the metrics
        self._recipe: str | None = None  # as the run began with it, whatever becomes of the file meanwhile

    @classmethod
    def create(cls, path: Path, recipe: Recipe, environment: Mapping[str, Any], overwrite: bool = False) -> RunFolder:
        """A folder for a run that begins, held by this process; what askew wrote there goes, with `overwrite`."""
        check_free(path, overwrite)
        mark(path, "run")
        folder = cls(path)
        folder.hold()
        try:
            check_free(path, overwrite)  # nobody else has used it between the first look and now
            folder.clear()
            folder._recipe, folder.__dict__["environment"] = recipe.to_toml(), dict(environment)
            files.write_text(path / RECIPE, folder._recipe)
            files.write_json(path / ENVIRONMENT, environment)
            files.write_text(path / METRICS, "")
        except BaseException:
            folder.release()
            raise
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        if not (path / RECIPE).is_file():
            raise AskewError(f"{str(path)!r} is not a run folder: it has no {RECIPE}")
        return cls(path)

    def hold(self) -> None:
        """Keep other processes out until `release`, or until this one ends."""
        if self._lock is not None:
            return
        memory = self.path / MEMORY
        if memory.is_symlink():
            raise AskewError(f"{str(memory)!r} is a link, and what it leads to is not askew's to write; remove "
                             "the link")
        mark(self.path, "run")
        self._lock = Lock(self.path / MARKER, self.path)
        for path in [*self.path.iterdir(), *memory.glob("*")]:
            if files.is_leftover(path) and path.is_file():  # of a process that was killed while it wrote
                path.unlink(missing_ok=True)

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def clear(self) -> None:
        """Remove what askew wrote, and nothing else, but for the marker; a folder in a file's place is nobody's of
        ours."""
        ours = [path for path in self.path.iterdir()
                if path.name in (RECIPE, METRICS, SUMMARY, ENVIRONMENT, EVALUATION, MODEL, PAGE)
                or WEIGHTS.fullmatch(path.name)]
        for path in [*ours, *self.checkpoints.paths]:
            if path.is_dir() and not path.is_symlink():
                raise AskewError(f"{str(path)!r} is a folder, where a run has a file; move it away")
        self.checkpoints.drop()
        for path in ours:
            path.unlink()

    @property
    def recipe(self) -> Recipe:
        text = files.read_text(self.path / RECIPE, "recipe")
        if not text.strip():
            raise AskewError(f"{str(self.path / RECIPE)!r} is damaged: the recipe is empty")
        # Earlier versions wrote pieces of one's own with their modules; they are found by name, once it is imported.
        return Recipe.from_toml(re.sub(r'"[\w.]+:(\w+(?:\(|"))', r'"\1', text))

    @functools.cached_property
    def environment(self) -> dict[str, Any]:
        """With what the run was begun, by its checkpoint, which is checked, or by the file."""
        about = self.checkpoints.newest_about()
        if about is not None and isinstance(about.get("environment"), dict):
            return about["environment"]
        content = files.read_json(self.path / ENVIRONMENT, "description of the environment")
        if not isinstance(content.get("replaced", {}), dict):
            raise AskewError(f"{str(self.path / ENVIRONMENT)!r} is damaged: `replaced` must be an object")
        return content

    def append(self, record: Mapping[str, Any]) -> None:
        line = (json.dumps(record) + "\n").encode()
        self._check_there()
        try:
            with (self.path / METRICS).open("ab") as file:
                file.write(line)
        except OSError as error:
            raise files.cannot_write(self.path / METRICS, error) from error
        self._note(line)

    def records(self) -> list[dict[str, Any]]:
        """The rounds so far; a last line that a power cut left unfinished is none."""
        text = files.read_text(self.path / METRICS, "record of rounds", most=2**40)
        lines = text.rpartition("\n")[0].splitlines()
        try:
            records = [json.loads(line) for line in lines]
            if all(isinstance(record["round"], int) for record in records):
                return records
        except (ValueError, TypeError, LookupError, RecursionError):
            pass
        raise AskewError(f"{str(self.path / METRICS)!r} is damaged: a line is no record of a round")

    def rewrite(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Make the metrics these records."""
        lines = [(json.dumps(record) + "\n").encode() for record in records]
        self._replace_metrics(b"".join(lines), len(lines))

    def _replace_metrics(self, content: bytes, rows: int) -> None:
        with files.written(self.path / METRICS) as aside:
            aside.write_bytes(content)
        self._sum, self._rows, self._bytes = hashlib.sha256(content), rows, len(content)

    def _check_there(self) -> None:
        """Files of a run whose folder was removed meanwhile would be left without what belongs to them."""
        for name in (MARKER, METRICS):
            if not (self.path / name).exists():
                raise files.cannot_write(self.path / name, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))

    def _note(self, line: bytes) -> None:
        self._sum.update(line)
        self._rows, self._bytes = self._rows + 1, self._bytes + len(line)

    def save_checkpoint(self, state: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Args:
            about: what the run belongs to: its data, ...
        """
        self._check_there()
        with contextlib.suppress(OSError):
            files.sync(self.path / METRICS)
        metrics = {"rows": self._rows, "bytes": self._bytes, "sha256": self._sum.hexdigest()}
        self.checkpoints.save(state["round"], state, {
            **about, "recipe": self._recipe or self.recipe.to_toml(), "environment": self.environment,
            "metrics": metrics})

    def load_checkpoint(self, device: torch.device, about: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """The state to go on from, and the seconds that led to it. Metrics of later rounds are dropped.

        Args:
            about: what the run belongs to now; it must be what it belonged to before.
        """
        self.check_checkpoint()
        state, stored = self.checkpoints.load(device, lambda candidate: self._check(candidate, about))
        self._recipe = stored.get("recipe")
        if not stored:  # of an earlier version
            self.rewrite(record for record in self.records() if record["round"] <= state["round"])
            return state, self.seconds
        content = (self.path / METRICS).read_bytes()[: stored["metrics"]["bytes"]]
        self._replace_metrics(content, stored["metrics"]["rows"])
        self.__dict__["environment"] = stored["environment"]
        return state, float(stored["seconds"])

    def _check(self, stored: About, given: Mapping[str, Any]) -> None:
        """That a checkpoint belongs to this recipe, these data and these metrics."""
        before, now = Recipe.from_toml(stored["recipe"]), self.recipe
        if now != before.replace(name=now.name):
            was, is_now = (tomllib.loads(recipe.to_toml()) for recipe in (before, now))
            changed = [name for name in is_now if name != "name" and is_now[name] != was[name]]
            shown = "; ".join(f"{name} was {was[name]}, is {is_now[name]}" for name in changed)
            raise AskewError(f"{str(self.path / RECIPE)!r} is another recipe than the one that the run began with "
                             f"({shown}); put it back, or run the new one in a folder of its own")
        for name, value in given.items():
            if name in stored and name != "seconds" and stored[name] != value:
                raise AskewError(f"{str(self.path)!r} cannot be resumed: the {name} is not the one that it began "
                                 "with; bring that back, or begin a new run")
        metrics, path = stored["metrics"], self.path / METRICS
        try:
            with path.open("rb") as file:
                content = file.read(metrics["bytes"])
        except OSError as error:
            raise DamagedError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
        if hashlib.sha256(content).hexdigest() != metrics["sha256"]:
            raise DamagedError(f"{str(path)!r} is damaged: the bytes of its first "
                               f"{metrics['rows']} rounds have changed")

    def check_checkpoint(self) -> None:
        """Refuse a folder that cannot be resumed."""
        if self.is_finished:
            try:
                self.check_whole()
            except AskewError as error:
                if not self.has_checkpoint:
                    raise
                warnings.warn(f"{SUMMARY} says that the run is finished, but {error}: going on from its checkpoint",
                              stacklevel=2)
                return
            self.tidy()
            raise AskewError(f"{str(self.path)!r} has no checkpoint: the run is finished")
        if not self.has_checkpoint:
            raise AskewError(f"{str(self.path)!r} was stopped before its first checkpoint; run it "
                             "again with --overwrite")

    def tidy(self) -> None:
        """Remove the checkpoints of a finished run, where it was killed before it did that."""
        if self.is_finished and (self.checkpoints.paths or (self.path / MEMORY).exists()):
            self.check_whole()
            self.hold()
            self.checkpoints.drop()
            self.release()

    def check_whole(self) -> None:
        """Refuse a run that has ended whose files are not those that were written at its end."""
        self.check_files()
        if self.is_finished and len(self.records()) != self.summary["rounds"]:
            raise AskewError(f"{str(self.path / METRICS)!r} has not all rounds of the run")

    def check_files(self) -> None:
        """Refuse files whose bytes are not those of the end of the run."""
        sums = self.summary.get("files")
        if not isinstance(sums, dict):
            if (self.path / MARKER).exists():  # earlier versions had neither
                raise AskewError(f"{str(self.path / SUMMARY)!r} is damaged: it has lost its checksums")
            return
        for name in (METRICS, "model.safetensors", *sums):
            path = self.path / name
            if path.name != name or sums.get(name) is None:
                raise AskewError(f"{str(self.path / SUMMARY)!r} is damaged: it has no checksum of {name}")
            files.check_regular(path, "file of a run")
            if files.sha256(path) != sums[name]:
                raise AskewError(f"{str(path)!r} is damaged: its bytes have changed since the run ended")

    @property
    def has_checkpoint(self) -> bool:
        return bool(self.checkpoints)

    @property
    def is_finished(self) -> bool:
        """Whether the run reached its end: neither interrupted nor diverged nor failed."""
        return "stopped" in self.summary and self.summary["stopped"] is None and (
            self.summary.get("rounds") == self.recipe.rounds or self.stopped_early is not None)

    @property
    def stopped_early(self) -> str | None:
        """Why it is finished before the recipe's last round, where it is."""
        return self.summary.get("stopped_early")

    @property
    def divergence(self) -> str | None:
        """Why training broke off, if it did."""
        stopped = self.summary.get("stopped")
        return None if stopped in (INTERRUPTED, FAILED) else stopped

    @property
    def failure(self) -> str | None:
        """The error that broke it off, if one did."""
        return str(self.summary.get(FAILED)) if self.summary.get("stopped") == FAILED else None

    @property
    def seconds(self) -> float:
        """Spent so far, as far as it was written down."""
        return float(self.summary.get("seconds", 0.0))

    @property
    def together(self) -> int:
        """Configurations that were trained at once."""
        return int(self.summary.get("together", 1))

    @property
    def judged_on(self) -> str:
        """On what the headline was taken; nothing in folders of earlier versions."""
        return str(self.summary.get("judged_on", ""))

    @property
    def was_compiled(self) -> bool | None:
        """For the same bits when it goes on; before that was written down, every run on a GPU was."""
        on_cpu = str(self.environment.get("device", "cpu")).startswith("cpu")
        return self.environment.get("compiled", None if on_cpu else True)

    def save_weights(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        content = save({key: v.detach().cpu().contiguous() for key, v in tensors.items()})
        with files.written(self.path / f"{name}.safetensors") as aside:
            aside.write_bytes(content)

    def drop_other_weights(self, keep: Container[str]) -> None:
        """Forget all weights but these."""
        for path in self.path.glob("*.safetensors"):
            if WEIGHTS.fullmatch(path.name) and path.stem not in keep:
                path.unlink()

    def load_weights(self, name: str) -> dict[str, Tensor]:
        path = self.path / f"{name}.safetensors"
        files.check_regular(path, "file of a run")
        try:
            return load_file(path)
        except Exception as error:  # safetensors' own
            raise AskewError(f"{str(path)!r} is damaged: {first_line(error)}") from None

    def save_evaluation(self, value: Mapping[str, Any] | None) -> None:
        """Args:
            value: None leaves the folder without one: the run is not at its end.
        """
        if value is None:
            (self.path / EVALUATION).unlink(missing_ok=True)
        else:
            write_evaluation(self.path / EVALUATION, value)

    def save_summary(self, summary: Mapping[str, Any]) -> None:
        names = sorted(path.name for path in self.path.iterdir()
                       if path.name in (METRICS, EVALUATION, MODEL) or WEIGHTS.fullmatch(path.name))
        self.__dict__.pop("summary", None)
        files.write_json(self.path / SUMMARY,
                         {**summary, "files": {name: files.sha256(self.path / name) for name in names}})

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """Empty where the run has not ended yet, or a power cut left half a file."""
        try:
            content = files.read_json(self.path / SUMMARY, "summary")
        except AskewError:
            return {}
        numbers = all(isinstance(content.get(name, 0), int | float) for name in ("seconds", "together"))
        return content if numbers and isinstance(content.get("stopped"), str | None) else {}

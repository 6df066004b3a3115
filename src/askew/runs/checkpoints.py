"""The checkpoints of a run: the last two, each checked when it is read, so that damage is noticed and never trained on.

    checkpoint-120.pt    the state after round 120: tensors and plain values
    checkpoint-120.json  its format, what it belongs to (recipe, environment, data), the SHA-256 of all that it needs
    memory/3-7.pt        what clients remember: block 3 in its 7th version; only blocks that have changed are written
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from askew.core import files, lasting
from askew.core.errors import AskewError, first_line

FORMAT = 1
KEPT = 2
MEMORY = "memory"  # a folder
EARLIER = "checkpoint.pt"  # of versions that kept one, without a checksum
NAME = re.compile(r"checkpoint-(\d{1,12})\.(pt|json)")
BLOCK = re.compile(r"\d{1,12}-\d{1,12}\.pt")
About = dict[str, Any]


class DamagedError(AskewError):
    """A checkpoint whose bytes are not those that were written."""


class Checkpoints:
    """Those of one run folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sums: dict[str, str] = {}  # files whose content is known: written or checked by this process
        self._at: int | None = None  # the round of the last one that this process has written or read

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.rounds) or (self._folder / EARLIER).is_file()

    @property
    def rounds(self) -> list[int]:
        """Of which there are checkpoints, the newest first."""
        matches = [NAME.fullmatch(path.name) for path in self._folder.glob("checkpoint-*.json")]
        return sorted((int(match[1]) for match in matches if match), reverse=True)

    @property
    def paths(self) -> list[Path]:
        """The files of all of them."""
        memory = self._folder / MEMORY
        return [*(path for path in self._folder.glob("checkpoint*") if NAME.fullmatch(path.name)
                  or path.name == EARLIER),
                *(path for path in memory.glob("*") if BLOCK.fullmatch(path.name))]

    def newest_about(self) -> About | None:
        """What the newest one that is whole says about itself; none where there is none."""
        for round in self.rounds:
            with contextlib.suppress(AskewError):
                return self._read_about(round)
        return None

    def save(self, round: int, state: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Beside the last one, which is kept; an interruption leaves that one whole.

        Args:
            about: what it belongs to, as JSON.
        """
        if self._at == round:  # nothing has happened since
            return
        state, needed = dict(state), {}
        if memory := state.get("memory"):
            versions = {n: block["version"] for n, block in memory["blocks"].items()}
            for n, block in memory["blocks"].items():
                name = f"{MEMORY}/{n}-{versions[n]}.pt"
                if name not in self._sums:
                    self._write(name, [v.cpu().clone() for v in block["rows"]])
                needed[name] = self._sums[name]
            state["memory"] = {"place": memory["place"], "versions": versions}
        name = f"checkpoint-{round}.pt"
        self._write(name, state)
        content = {"format": FORMAT, "round": round, **about, "files": {name: self._sums[name], **needed}}
        files.write_json(self._folder / f"checkpoint-{round}.json", {**content, "sha256": _sum_of(content)})
        self._at = round
        self._drop_all_but([round, *(r for r in self.rounds if r < round)][:KEPT])

    def load(self, device: torch.device, check: Callable[[About], None]) -> tuple[dict[str, Any], About]:
        """The state of the newest checkpoint that is whole, and what it says about itself.

        Args:
            check: what else must hold of it; raises DamagedError for one that is not to be used.
        """
        damaged: list[str] = []
        for round in self.rounds:
            try:
                about = self._read_about(round)
                check(about)
                state = self._read_state(round, about, device)
            except DamagedError as error:
                damaged.append(str(error))
                continue
            if damaged:
                warnings.warn(f"{'; '.join(damaged)}; going on from the one after round {round}", stacklevel=2)
            self._at = round
            return state, about
        if damaged:
            raise AskewError(f"{str(self._folder)!r} cannot be resumed: {'; '.join(damaged)}; run it "
                             "again with --overwrite")
        return self._load_earlier(device), {}

    def drop(self) -> None:
        """Forget all."""
        self._drop_all_but([])
        (self._folder / EARLIER).unlink(missing_ok=True)

    def _write(self, name: str, value: Any) -> None:
        path = self._folder / name
        with contextlib.suppress(FileExistsError):
            path.parent.mkdir()
        buffer = io.BytesIO()  # torch's own writing would hide what the system says of a full disk
        torch.save(value, buffer)
        with files.written(path) as aside:
            aside.write_bytes(buffer.getbuffer())
        self._sums[name] = hashlib.sha256(buffer.getbuffer()).hexdigest()

    def _read_about(self, round: int) -> About:
        path = self._folder / f"checkpoint-{round}.json"
        try:
            about = files.read_json(path, "checkpoint")
        except AskewError as error:
            raise DamagedError(str(error)) from None
        if about.pop("sha256", None) != _sum_of(about) or about.get("round") != round:
            raise DamagedError(f"{str(path)!r} is damaged: its bytes have changed")
        if about["format"] > FORMAT:
            raise AskewError(f"{str(path)!r} was written by a newer version of askew (format {about['format']}, known: "
                             f"{FORMAT}); continue with that one")
        return about

    def _read_state(self, round: int, about: About, device: torch.device) -> dict[str, Any]:
        for name, expected in about["files"].items():
            path = self._folder / name
            try:
                files.check_regular(path, "checkpoint")
                checksum = files.sha256(path)
            except (AskewError, OSError) as error:
                raise DamagedError(f"the checkpoint after round {round} is damaged: {first_line(error)}") from None
            if checksum != expected:
                raise DamagedError(f"{str(path)!r} is damaged: its bytes have changed")
            self._sums[name] = checksum
        return self._with_memory(_load(self._folder / f"checkpoint-{round}.pt", device), device)

    def _with_memory(self, state: dict[str, Any], device: torch.device) -> dict[str, Any]:
        """With what clients remember in it, which lies in files of its own."""
        if memory := state.get("memory"):
            state["memory"] = {"place": memory["place"], "blocks": {
                n: {"version": version, "rows": _load(self._folder / MEMORY / f"{n}-{version}.pt", device)}
                for n, version in memory["versions"].items()}}
        return state

    def _load_earlier(self, device: torch.device) -> dict[str, Any]:
        """Of a version that kept one checkpoint, without a checksum."""
        warnings.warn(f"the checkpoint in {str(self._folder)!r} is of an earlier version, which wrote no checksums: "
                      "whether it is whole cannot be known", stacklevel=3)
        return self._with_memory(_load(self._folder / EARLIER, device), device)

    def _drop_all_but(self, rounds: Iterable[int]) -> None:
        """Checkpoints other than these, and blocks that none of these needs. First what says that they exist."""
        keep, needed = set(rounds), set()
        for round in sorted(keep):
            with contextlib.suppress(AskewError):
                needed |= set(self._read_about(round)["files"])
        for path in sorted(self._folder.glob("checkpoint-*")):  # .json before .pt
            match = NAME.fullmatch(path.name)
            if match and int(match[1]) not in keep:
                path.unlink(missing_ok=True)
        memory = self._folder / MEMORY
        for path in memory.glob("*") if memory.is_dir() and not memory.is_symlink() else ():
            name = f"{MEMORY}/{path.name}"
            if (BLOCK.fullmatch(path.name) and name not in needed) or files.is_leftover(path):
                path.unlink(missing_ok=True)
                self._sums.pop(name, None)
        if not keep and memory.is_dir() and not memory.is_symlink():
            with contextlib.suppress(OSError):  # somebody put something of their own there
                memory.rmdir()


def _sum_of(about: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _load(path: Path, device: torch.device) -> Any:
    files.check_regular(path, "checkpoint")
    try:
        return lasting.read(path, device)
    except lasting.UnreadableError as error:  # written by an earlier version, or by somebody else
        raise AskewError(f"{str(path)!r} cannot be read: {error}; let the piece that keeps it between rounds keep "
                         "tensors, numbers and words, and begin the run again") from None
    except Exception as error:  # torch's reader has many ways to say that a file is damaged
        raise AskewError(f"{str(path)!r} is damaged: {first_line(error)}; run it again with --overwrite") from None

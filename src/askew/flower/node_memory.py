"""What a client remembers between rounds (SCAFFOLD's control, kept momentum, private layers): files of its node.

A version is what the client remembered of one model after one of its rounds. The server says which version a round
starts from: the one of the last reply that counted. A reply that was lost, late or refused leaves the version before it
in place, so that the run goes on as if that round of the client had not been.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection
from pathlib import Path

from safetensors.torch import load, save

from askew.core.compat import tree_flatten, tree_unflatten
from askew.core.errors import AskewError
from askew.core.files import check_regular, is_leftover, written
from askew.core.tensors import Tree

Version = tuple[int, int]  # (model, rounds completed before the one that made it)
_NAME = re.compile(r"(\d+)-(\d+)\.safetensors")
_RUN = re.compile(r"[0-9a-f]{16}")


class NodeMemory:
    """The versions of one run.

    Args:
        folder: of the node, for all runs.
        run: its name, given by the server.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     memory = NodeMemory(folder, "0123456789abcdef")
        ...     memory.put((0, 4), {"seen": torch.ones(())}, keep=[])
        ...     memory.get((0, 4), {"seen": torch.zeros(())}), memory.get((0, 3), {"seen": torch.zeros(())})
        ({'seen': tensor(1.)}, None)
    """

    def __init__(self, folder: str | Path, run: str) -> None:
        if not _RUN.fullmatch(run):
            raise AskewError(f"the run's name {run[:40]!r} is none that a server of askew gives")
        self._folder = Path(folder) / run

    def get(self, version: Version, like: Tree) -> Tree | None:
        """A version, of the form of `like`; None where there is none that is whole."""
        leaves, shape = tree_flatten(like)
        try:
            check_regular(self._path(version), "memory")  # a device would be read for ever
            stored = load(self._path(version).read_bytes())
        except Exception:  # none, or a damaged one: in either case it is lost
            return None
        tensors = [stored.get(str(i)) for i in range(len(leaves))]
        fits = len(stored) == len(leaves) and all(
            v is not None and v.shape == w.shape and v.dtype == w.dtype for v, w in zip(tensors, leaves, strict=True))
        return tree_unflatten(tensors, shape) if fits else None

    def put(self, version: Version, row: Tree, keep: Collection[Version]) -> None:
        """Write a version down, and forget all others but `keep`."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AskewError(f"memory: {str(self._folder)!r} cannot be made: {error.strerror}; name a folder of this "
                             "node's in its settings") from None
        content = save({str(i): v.detach().cpu().contiguous() for i, v in enumerate(tree_flatten(row)[0])})
        with written(self._path(version)) as aside:
            aside.write_bytes(content)
        for path in self._folder.iterdir():
            match = _NAME.fullmatch(path.name)
            old = match is not None and (int(match[1]), int(match[2])) not in {version, *keep}
            # Another model's round may be at work beside this one: what it is writing is left alone.
            if old and not is_leftover(path):
                with contextlib.suppress(OSError):
                    path.unlink()

    def _path(self, version: Version) -> Path:
        model, round = version
        return self._folder / f"{model}-{round}.safetensors"


def as_text(versions: Collection[Version]) -> list[int]:
    """Versions as a flat list of numbers, for a message."""
    return [number for version in versions for number in version]


def from_text(numbers: Collection[int]) -> list[Version]:
    """And back."""
    flat = list(numbers)
    return [(int(model), int(round)) for model, round in zip(flat[::2], flat[1::2], strict=True)]

"""The other processes of a run that several train together: torch.distributed, as `torchrun` starts it.

All processes run the same program on the same recipe and seed, so that they know of each other what there is to do:
client k belongs to process k mod their number, and nobody has to say so. What they do tell each other goes through
here, and every exchange begins with a word from each: whether all is well, whether somebody pressed Ctrl-C, whether an
error came up. So a run ends everywhere in the same round and for the same reason, and nobody waits for one that has
given up. Values travel as checkpoints hold them (`askew.core.lasting`): tensors and plain values, no code.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from askew.core import interrupt, lasting
from askew.core.errors import AskewError, DivergedError, LostError, PeerError, first_line
from askew.core.interrupt import shielded

DISTRIBUTED = "distributed"  # the name of the engine
WAIT = "ASKEW_WAIT_S"  # an environment variable: seconds to wait for another process before it counts as lost
WAIT_S = 1800.0
START = "torchrun --standalone --nproc-per-node 2 -m askew run --engine distributed"
MOST_GPUS = 64  # of one machine
_WELL, _STOPPED, _FAILED, _DIVERGED = range(4)


class Peers:
    """This process among those of its run.

    Args:
        rank: its number, from 0; 0 writes files and speaks.
        world: how many there are.
        local_rank, local_world: likewise on this machine.
    """

    def __init__(self, rank: int, world: int, local_rank: int = 0, local_world: int = 1) -> None:
        self.rank, self.world, self.local_rank, self.local_world = rank, world, local_rank, local_world
        self.agreed = False  # all know that the run is over, and why
        self.within = False  # of a block that `in_step` guards
        self.lost: str | None = None  # why the others can no longer be reached
        self._gpu: torch.device | None = None
        self._on_gpu: dist.ProcessGroup | None = None  # NCCL's, where each process has a GPU of its own

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def owns(self, client: int) -> bool:
        """Whether a client trains here, and keeps its memory here."""
        return client % self.world == self.rank

    def device(self, name: str) -> str:
        """`cuda` is another GPU for each process of a machine, as far as there are some."""
        return f"cuda:{self.local_rank % torch.cuda.device_count()}" if name == "cuda" and torch.cuda.is_available() \
            else name

    def use_gpus(self, device: torch.device) -> None:
        """Sum on the GPUs, where each process has one to itself; else sums go through the host."""
        self._gpu = device if device.type == "cuda" else None
        alone = device.type == "cuda" and self.local_world <= torch.cuda.device_count()
        if all(self.exchange(alone)) and self._on_gpu is None and self.world > 1:
            self._on_gpu = dist.new_group(backend="nccl")

    def exchange(self, value: Any) -> list[Any]:
        """What each process gives here, by rank: tensors, plain values, lists, tuples and dicts of them."""
        if self.world == 1:
            return [value]
        content = _written(value)
        sizes = self._words(len(content))
        return [self._read(part) for part in self._all(content, sizes)]

    def first(self, value: Any) -> Any:
        """What the first process gives here."""
        if self.world == 1:
            return value
        content = _written(value if self.leads else None)
        sizes = self._words(len(content))
        content = content if self.leads else torch.empty(sizes[0], dtype=torch.uint8)
        with _waiting(self):
            dist.broadcast(content, 0)
        return self._read(content)

    def decide(self, word: bool) -> bool:
        """What the first process says."""
        return word if self.world == 1 else bool(self._words(int(word))[0])

    def to_first(self, value: Any) -> list[Any]:
        """What each process gives here, by rank, for the first one; nothing for the others."""
        if self.world == 1:
            return [value]
        content = _written(None if self.leads else value)
        sizes, values = self._words(len(content)), [value]
        with _waiting(self):
            if not self.leads:
                dist.send(content, 0)
                return []
            for rank in range(1, self.world):
                part = torch.empty(sizes[rank], dtype=torch.uint8)
                dist.recv(part, rank)
                values.append(self._read(part))
        return values

    def sum(self, values: Tensor) -> Tensor:
        """Their sum over all processes, in place where it can be. Follows an exchange: nothing may fail between."""
        if self.world == 1:
            return values
        with _waiting(self):
            if self._on_gpu is not None:
                dist.all_reduce(values, group=self._on_gpu)
                return values
            on_host = values.cpu()
            dist.all_reduce(on_host)
        return on_host.to(values.device)

    def check_same(self, what: str, value: Any) -> None:
        """Refuse processes that were started with different things."""
        odd = [rank for rank, other in enumerate(self.exchange(value)) if other != value]
        if odd:
            raise AskewError(f"engine distributed: {what} of process {max(odd[0], self.rank)} is not that of process "
                             f"{min(odd[0], self.rank)}; start all of them with the same")

    def of_owners(self, values: np.ndarray) -> np.ndarray:
        """One value per client: of each, what the process that owns it says."""
        whole = values.copy()
        for rank, part in enumerate(self.exchange(torch.from_numpy(values))):
            whole[rank :: self.world] = part.numpy()[rank :: self.world]
        return whole

    def tell(self, error: BaseException) -> None:
        """An error came up here, of which the others do not know: they raise it, too, where they next exchange
        anything."""
        if self.agreed or self.world == 1:
            return
        stopped, diverged = isinstance(error, KeyboardInterrupt), isinstance(error, DivergedError)
        state = _STOPPED if stopped else _DIVERGED if diverged else _FAILED
        with contextlib.suppress(LostError, PeerError, DivergedError, KeyboardInterrupt):  # the own one is raised
            self._words(0, state, "" if stopped else _in_words(error))
        self.agreed = True

    def _words(self, word: int, state: int = _WELL, text: str = "") -> list[int]:
        """A number from each, after all have said how they are.

        Raises:
            KeyboardInterrupt, DivergedError, PeerError: on all, where one of them was stopped or failed.
            LostError: where one is gone, or does not answer.
        """
        if state == _WELL and interrupt.came() and not self.agreed:
            state = _STOPPED
        said = torch.tensor(list(text.encode()), dtype=torch.uint8)
        headers = [torch.empty(3, dtype=torch.int64) for _ in range(self.world)]
        with _waiting(self):
            dist.all_gather(headers, torch.tensor([state, word, len(said)]))
        states, words, lengths = zip(*(v.tolist() for v in headers), strict=True)
        worst = max(states)
        if worst == _WELL:
            return list(words)
        self.agreed = True
        texts = self._all(said, list(lengths)) if max(lengths) else []
        if worst == _STOPPED:
            raise KeyboardInterrupt
        rank = states.index(worst)
        told = bytes(texts[rank].tolist()).decode(errors="replace")
        raise (DivergedError if worst == _DIVERGED else PeerError)(f"rank {rank}: {told}")

    def _all(self, content: Tensor, sizes: list[int]) -> list[Tensor]:
        """Bytes from each, of different lengths."""
        most = max(sizes)
        padded = torch.zeros(most, dtype=torch.uint8)
        padded[: len(content)] = content
        parts = [torch.empty(most, dtype=torch.uint8) for _ in range(self.world)]
        with _waiting(self):
            dist.all_gather(parts, padded)
        return [part[:size] for part, size in zip(parts, sizes, strict=True)]

    def _read(self, content: Tensor) -> Any:
        place = str(self._gpu or "cpu")  # what another process had on its GPU
        return lasting.read(io.BytesIO(content.numpy().tobytes()), {f"cuda:{i}": place for i in range(MOST_GPUS)})


_joined: Peers | None = None


def joined(engine: str) -> Peers | None:
    """The processes of this run, where the engine is the distributed one.

    Raises:
        AskewError: for a process that `torchrun`, or something that sets the same variables, has not started.
    """
    global _joined
    if engine != DISTRIBUTED:
        return None
    if _joined is not None:
        return _joined
    if not dist.is_available():
        raise AskewError("engine distributed: this torch was built without torch.distributed; install another build")
    if not dist.is_initialized():
        _initialise()
    local = int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    _joined = Peers(dist.get_rank(), dist.get_world_size(), *local)
    return _joined


def _initialise() -> None:
    numbers = ("RANK", "WORLD_SIZE", "MASTER_PORT")
    odd = [name for name in (*numbers, "MASTER_ADDR") if not os.environ.get(name)]
    odd += [name for name in numbers if name not in odd and not os.environ[name].isdigit()]
    if odd:
        given = f"{odd[0]}={os.environ[odd[0]]!r} is no number" if os.environ.get(odd[0]) else f"{odd[0]} is not set"
        raise AskewError(f"engine distributed: this process was not started as one of several ({given}); start it "
                         f"with: {START} ...")
    asked = os.environ.get(WAIT, str(WAIT_S))
    try:
        wait = timedelta(seconds=float(asked))
        if wait <= timedelta(0):
            raise ValueError
    except (ValueError, OverflowError):
        raise AskewError(f"{WAIT} must be a number of seconds above 0, not {asked!r}") from None
    try:
        dist.init_process_group("gloo", timeout=wait)
    except (RuntimeError, ValueError) as error:
        raise LostError(f"engine distributed: the processes did not find each other at {os.environ['MASTER_ADDR']}:"
                        f"{os.environ['MASTER_PORT']} ({first_line(error)}); see that all {os.environ['WORLD_SIZE']} "
                        "are started and reach that address") from None
    atexit.register(_leave)


def _leave() -> None:
    with contextlib.suppress(Exception):  # the others may be gone
        dist.destroy_process_group()


@contextlib.contextmanager
def in_step(engine: str) -> Iterator[Peers | None]:
    """A block that all processes of a run do; an error in one of them, or Ctrl-C, ends it in all. Nothing with another
    engine.

    Signals do not raise where they come, but at the next exchange, in all processes at once.
    """
    peers = joined(engine)
    if peers is None or peers.within:
        yield peers
        return
    peers.agreed, peers.within = False, True
    try:
        with shielded():
            yield peers
            if not peers.agreed:
                peers.exchange(None)  # nobody leaves while somebody may yet fail
    except BaseException as error:
        peers.tell(error)
        raise
    finally:
        peers.within = False


@contextlib.contextmanager
def _waiting(peers: Peers) -> Iterator[None]:
    """For the others; what torch says where one is gone, or silent for too long, in one line."""
    try:
        if peers.lost is None:
            yield
            return
    except RuntimeError as error:
        peers.agreed = True
        peers.lost = (f"rank {peers.rank} of {peers.world}: another process of the run is gone, or has not answered "
                      f"within {os.environ.get(WAIT, f'{WAIT_S:.0f}')} s ({_plain(error)}); see what it said")
    raise LostError(peers.lost)


def _plain(error: Exception) -> str:
    """What torch says, without the place in its code."""
    return re.sub(r"^\[\S+\] ", "", first_line(error))


def _in_words(error: BaseException) -> str:
    said = first_line(error) if isinstance(error, Exception) else str(error)
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", []))
    return (said if isinstance(error, AskewError) else f"{type(error).__name__}: {said}") + notes


def _written(value: Any) -> Tensor:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return torch.frombuffer(buffer.getbuffer(), dtype=torch.uint8)

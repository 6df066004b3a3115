"""Which examples belong to which client: the two arrays of whole numbers that every federation rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from askew.core.arguments import checked
from askew.core.bounds import Bounds, Count
from askew.core.errors import AskewError, first_line, shown

_CHUNK = 1_000_000  # indices that are looked at in one go where there may be a hundred million
_MOST_EXAMPLES = 2**40  # beyond, a number that holds client and example would not fit 64 bits


@dataclass(frozen=True)
class Ownership:
    """Index arrays of all clients laid end to end: client k owns `indices[offsets[k]:offsets[k + 1]]`.

    Two arrays, however many clients: a million of them need no Python object each. An example may belong to several
    clients, but to each of them once.
    """

    indices: np.ndarray
    offsets: np.ndarray

    def __post_init__(self) -> None:
        for name in ("indices", "offsets"):
            object.__setattr__(self, name, whole_numbers(f"ownership: {name}", getattr(self, name)))
        if len(self.indices) and int(self.indices.min()) < 0:
            raise AskewError(f"ownership: index {int(self.indices.min())} is negative; examples are numbered from 0")
        ends = self.offsets[[0, -1]].tolist() if len(self.offsets) else []
        if ends != [0, len(self.indices)] or (np.diff(self.offsets) < 0).any():
            raise AskewError(f"ownership: offsets must go up from 0 to the {len(self.indices)} indices, not as {ends}")

    @classmethod
    def of(cls, parts: Sequence[np.ndarray | Sequence[int]]) -> Ownership:
        """From the indices of each client: whole numbers of any type, none of them twice.

        Example:
            >>> Ownership.of([[0, 2], [1]]).sizes.tolist()
            [2, 1]
            >>> Ownership.of([[0, 2], [1, 1]])
            Traceback (most recent call last):
            askew.core.errors.AskewError: ownership: client 1 has example 1 twice; name each of its examples once
        """
        try:
            arrays = [whole_numbers(f"ownership: client {k}", part) for k, part in enumerate(parts)]
        except TypeError:
            raise AskewError("ownership: give the indices of each client, such as [[0, 2], [1]], "
                             f"not {shown(parts)}") from None
        offsets = np.concatenate([[0], np.cumsum([len(a) for a in arrays])]).astype(np.int64)
        owned = cls(np.concatenate(arrays) if arrays else np.zeros(0, np.int64), offsets)
        owned.check_once()
        return owned

    @classmethod
    @checked
    def by_owner(cls, owner: np.ndarray, num_clients: Annotated[int, Bounds(0)]) -> Ownership:
        """From one owner per example; a negative owner means that nobody has it. Examples keep their order."""
        owner = whole_numbers("ownership: owners", owner)
        if len(owner) and int(owner.max()) >= num_clients:
            raise AskewError(f"ownership: owner {int(owner.max())} is none of the {num_clients} clients, who are "
                             f"0..{num_clients - 1}")
        order = np.argsort(owner, kind="stable")
        order = order[np.searchsorted(owner[order], 0) :]
        counts = np.bincount(owner[order], minlength=num_clients)
        return cls(order.astype(np.int64), np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, client: int) -> np.ndarray:
        if not 0 <= client < len(self):
            raise IndexError(f"client {client} of {len(self)}")
        return self.indices[self.offsets[client] : self.offsets[client + 1]]

    @cached_property
    def sizes(self) -> np.ndarray:
        """Examples of each client; computed once, so that looking up one of a million clients costs nothing."""
        return np.diff(self.offsets)

    def chunks(self) -> Iterator[tuple[int, Ownership]]:
        """The same clients, some at a time, with the first one's number: what is computed of them stays small."""
        first = 0
        while first < len(self):
            last = int(np.searchsorted(self.offsets, self.offsets[first] + _CHUNK, "right")) - 1
            last = min(max(last, first + 1), len(self))
            low, high = self.offsets[[first, last]]
            yield first, Ownership(self.indices[low:high], self.offsets[first : last + 1] - low)
            first = last

    def check_once(self) -> None:
        """Refuse a client that has an example twice."""
        if not has_twice(self.indices):
            return
        examples = np.unique(self.indices) if int(self.indices.max()) >= _MOST_EXAMPLES else None
        for first, part in self.chunks():
            indices = part.indices if examples is None else np.searchsorted(examples, part.indices)
            size = int(indices.max(initial=0)) + 1
            owner = np.repeat(np.arange(len(part)), part.sizes)
            keys = np.sort(owner * size + indices)  # client and example in one number
            twice = np.flatnonzero(np.diff(keys) == 0)
            if len(twice):
                client, example = divmod(int(keys[twice[0]]), size)
                example = example if examples is None else int(examples[example])
                raise AskewError(f"ownership: client {first + client} has example {example} twice; "
                                 "name each of its examples once")

    @checked
    def check_below(self, what: str, size: int, name: str) -> None:
        """Refuse an index beyond the examples that there are."""
        if len(self.indices) and int(self.indices.max()) >= size:
            raise AskewError(f"population: {what} index {int(self.indices.max())} is outside the {size} examples of "
                             f"{name}; it was drawn for other data")

    @checked
    def counts(self, labels: np.ndarray, num_classes: Count) -> np.ndarray:
        """Examples per client and class, shape (clients, classes)."""
        labels = whole_numbers("ownership: labels", labels)
        self.check_below("train", len(labels), "these labels")
        owner = np.repeat(np.arange(len(self), dtype=np.int64), self.sizes)
        flat = np.bincount(owner * num_classes + labels[self.indices], minlength=len(self) * num_classes)
        return flat.reshape(len(self), num_classes)

    @checked
    def joined(self, other: Ownership) -> Ownership:
        """What each client has in one or the other."""
        owner = np.repeat(np.tile(np.arange(len(self)), 2), np.concatenate([self.sizes, other.sizes]))
        indices = np.concatenate([self.indices, other.indices])
        return Ownership(indices[np.argsort(owner, kind="stable")], self.offsets + other.offsets)

    @checked
    def at(self, positions: np.ndarray) -> Ownership:
        """The same ownership with each index i replaced by positions[i] (from a subset back to the whole)."""
        positions = whole_numbers("ownership: positions", positions)
        self.check_below("train", len(positions), "these positions")
        return Ownership(positions[self.indices], self.offsets)


def whole_numbers(where: str, values: Any, axes: int = 1) -> np.ndarray:
    """An array of int64 from whole numbers of any type; real numbers are never cut, true and false are no numbers."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # lists of several lengths, tensors elsewhere
        raise AskewError(f"{where} must be whole numbers ({first_line(error)})") from None
    if array.size == 0 and array.ndim == axes:  # an empty list has no type of its own
        return np.zeros(array.shape, np.int64)
    if array.dtype.kind not in "iu" or array.ndim != axes:
        raise AskewError(f"{where} must be whole numbers on {axes} ax{'i' if axes == 1 else 'e'}s, "
                         f"not {array.dtype} of shape {array.shape}")
    if array.dtype.kind == "u" and int(array.max()) >= 2**63:
        raise AskewError(f"{where} has the number {int(array.max())}, which is beyond 64 bits")
    return array.astype(np.int64, copy=False)


def has_twice(indices: np.ndarray) -> bool:
    """Whether a number occurs twice."""
    if len(indices) == 0:
        return False
    if int(indices.max()) < 10 * len(indices) + 1_000_000:  # numbers of examples: counting is faster than sorting
        return bool(np.bincount(indices).max() > 1)
    return len(np.unique(indices)) < len(indices)

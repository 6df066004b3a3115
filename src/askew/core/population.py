"""Who owns which examples: the result of every partition, the input of every diagnostic."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from askew.core import skew
from askew.core.arguments import check_fields, checked
from askew.core.bounds import Bounds, Count
from askew.core.errors import AskewError
from askew.core.files import written


@dataclass(frozen=True)
class Ownership:
    """Index arrays of all clients laid end to end: client k owns `indices[offsets[k]:offsets[k + 1]]`.

    Two arrays, however many clients: a million of them need no Python object each.
    """

    indices: np.ndarray
    offsets: np.ndarray

    @classmethod
    @checked
    def of(cls, parts: Sequence[np.ndarray | Sequence[int]]) -> Ownership:
        arrays = [np.asarray(part, dtype=np.int64) for part in parts]
        offsets = np.concatenate([[0], np.cumsum([len(a) for a in arrays])]).astype(np.int64)
        return cls(np.concatenate(arrays) if arrays else np.zeros(0, np.int64), offsets)

    @classmethod
    @checked
    def by_owner(cls, owner: np.ndarray, num_clients: Annotated[int, Bounds(0)]) -> Ownership:
        """From one owner an example; a negative owner means that nobody has it. Examples keep their order."""
        owner = _whole("owner", owner)
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

    @checked
    def counts(self, labels: np.ndarray, num_classes: Count) -> np.ndarray:
        """Examples per client and class, shape (clients, classes)."""
        labels = _whole("labels", labels)
        self._check_inside("labels", labels)
        owner = np.repeat(np.arange(len(self), dtype=np.int64), self.sizes)
        flat = np.bincount(owner * num_classes + labels[self.indices], minlength=len(self) * num_classes)
        return flat.reshape(len(self), num_classes)

    @checked
    def at(self, positions: np.ndarray) -> Ownership:
        """The same ownership with each index i replaced by positions[i] (from a subset back to the whole)."""
        self._check_inside("positions", positions)
        return Ownership(positions[self.indices], self.offsets)

    def _check_inside(self, what: str, array: np.ndarray) -> None:
        if len(self.indices) and int(self.indices.max()) >= len(array):
            raise AskewError(f"ownership: index {int(self.indices.max())} is outside the {len(array)} {what}")


@dataclass(frozen=True)
class Population:
    """A federation: what each client owns, and how it was drawn.

    Args:
        train: indices into the training examples.
        counts: training examples per client and class.
        scheme: how it was drawn, as a recipe writes it.
        seed: the seed it was drawn with.
        validation: each device's validation examples (indices into the *training* examples, disjoint from `train`),
            for schemes that give it some.
        test: each device's own test examples (indices into the *test* examples), likewise.
        server: training examples that stay with the server and belong to no client.
        groups: the archetype of each client, where the scheme has archetypes.
        class_totals: examples of each class in the whole training set that was divided; EMD compares with it.
    """

    train: Ownership
    counts: np.ndarray
    scheme: str = ""
    seed: int = 0
    validation: Ownership | None = None
    test: Ownership | None = None
    server: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    groups: np.ndarray | None = None
    class_totals: np.ndarray | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if len(self.train) == 0:
            raise AskewError("a population needs at least one client")
        empty = np.flatnonzero(self.train.sizes == 0)
        if len(empty):
            raise AskewError(f"{self.scheme or 'population'}: client {empty[0]} has no examples "
                             f"({len(empty)} of {len(self.train)} are empty); ask for fewer clients or less skew")

    @classmethod
    @checked
    def of(cls, train: Ownership, labels: np.ndarray, num_classes: Count, **rest: Any) -> Population:
        """From the training indices and the labels they point to."""
        totals = np.bincount(_whole("labels", labels), minlength=num_classes)
        return cls(train, train.counts(labels, num_classes), class_totals=totals, **rest)

    @property
    def num_clients(self) -> int:
        return len(self.train)

    @property
    def num_classes(self) -> int:
        return int(self.counts.shape[1])

    @property
    def sizes(self) -> np.ndarray:
        """Training examples of each client."""
        return self.train.sizes

    @property
    def emd(self) -> np.ndarray:
        """Each client's earth mover's distance from the whole (zhao2018)."""
        return skew.emd(self.counts, self.class_totals)

    @property
    def mean_emd(self) -> float:
        """The plain mean of the clients' EMD."""
        return float(self.emd.mean())

    @property
    def entropy(self) -> np.ndarray:
        """Entropy of each client's class distribution, in bits."""
        return skew.entropy(self.counts)

    @property
    def classes_per_client(self) -> np.ndarray:
        """How many classes each client has examples of."""
        return skew.classes_per_client(self.counts)

    @property
    def is_one_place(self) -> bool:
        """Whether one client has all training examples: nothing is federated.

        Example:
            >>> Population.of(Ownership.of([[0, 1, 2]]), np.array([0, 1, 1]), 2).is_one_place
            True
        """
        return self.num_clients == 1 and self.class_totals is not None and int(self.sizes[0]) == int(self.class_totals.sum())

    @checked
    def accuracies(self, correct: np.ndarray, class_accuracy: np.ndarray) -> np.ndarray:
        """Each client's accuracy with one model.

        On its own test examples where the population gives it some; otherwise on the test set, its classes weighted as
        in the client's training data (exact for a client whose inputs differ from the others' only in their labels).

        Args:
            correct: whether the model is right, per test example.
            class_accuracy: its accuracy on the test examples of each class.

        Example:
            >>> two = Population.of(Ownership.of([[0, 1], [2, 3]]), np.array([0, 0, 0, 1]), 2)
            >>> two.accuracies(np.zeros(0), np.array([0.9, 0.5])).tolist()  # the second: (0.9 + 0.5) / 2
            [0.9, 0.7]
        """
        if self.test is None:
            if class_accuracy.shape != (self.num_classes,):
                raise AskewError(f"population: accuracies of {self.num_classes} classes are needed, not "
                                 f"{class_accuracy.shape}")
            return self.counts / self.counts.sum(axis=1, keepdims=True) @ class_accuracy
        owner = np.repeat(np.arange(self.num_clients), self.test.sizes)
        sums = np.bincount(owner, weights=correct[self.test.indices], minlength=self.num_clients)
        return sums / np.maximum(self.test.sizes, 1)

    @checked
    def at(self, positions: np.ndarray) -> Population:
        """Indices of a subset turned into indices of the whole training set."""
        validation = None if self.validation is None else self.validation.at(positions)
        return replace(self, train=self.train.at(positions), validation=validation, server=positions[self.server])

    def describe(self) -> Mapping[str, Any]:
        """Scheme, seed and sizes: what a report says about where the federation came from."""
        return {"scheme": self.scheme, "seed": self.seed, "clients": self.num_clients, "classes": self.num_classes,
                "examples": int(self.sizes.sum()), "server_examples": len(self.server)}

    @checked
    def save(self, path: str | Path) -> None:
        """Write one small file (numpy's compressed archive)."""
        arrays: dict[str, np.ndarray] = {"counts": self.counts, "server": self.server}
        for name in ("train", "validation", "test"):
            part: Ownership | None = getattr(self, name)
            if part is not None:
                arrays[f"{name}_indices"], arrays[f"{name}_offsets"] = part.indices, part.offsets
        for name in ("groups", "class_totals"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        about = json.dumps({"format": "askew population 1", "scheme": self.scheme, "seed": self.seed})
        with written(path) as aside, aside.open("wb") as file:
            np.savez_compressed(file, about=np.array(about), **{k: _narrow(v) for k, v in arrays.items()})  # type: ignore[arg-type]

    @classmethod
    @checked
    def load(cls, path: str | Path) -> Population:
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            about = json.loads(str(arrays["about"]))
            parts = {name: Ownership(arrays[f"{name}_indices"].astype(np.int64), arrays[f"{name}_offsets"].astype(np.int64))
                     for name in ("train", "validation", "test") if f"{name}_indices" in arrays}
            return cls(train=parts["train"], counts=arrays["counts"].astype(np.int64), scheme=about["scheme"],
                       seed=about["seed"], validation=parts.get("validation"), test=parts.get("test"),
                       server=arrays["server"].astype(np.int64), groups=arrays.get("groups"),
                       class_totals=arrays.get("class_totals"))
        except FileNotFoundError:
            raise AskewError(f"no population file {str(path)!r}; write one with 'askew partition --save'") from None
        except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:  # TypeError: a single .npy array
            raise AskewError(f"{str(path)!r} is not a population file ({error}); write one with 'askew partition --save'") from None


def _whole(what: str, array: np.ndarray) -> np.ndarray:
    """A vector of whole numbers."""
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise AskewError(f"{what} must be a vector of whole numbers, not {array.dtype} of shape {array.shape}")
    return array.astype(np.int64, copy=False)


def _narrow(array: np.ndarray) -> np.ndarray:
    """int64 as int32 where it fits: half the file."""
    fits = array.dtype == np.int64 and (array.size == 0 or (abs(array.min()) < 2**31 and array.max() < 2**31))
    return array.astype(np.int32) if fits else array

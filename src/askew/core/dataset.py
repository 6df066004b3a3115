"""A classification data set in memory: raw arrays, labels, names of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from askew.core.errors import AskewError


@dataclass(frozen=True)
class Examples:
    """Inputs (first axis: examples; uint8 stays uint8) and integer labels, same length."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def to(self, device: torch.device | str) -> Examples:
        return Examples(self.x.to(device), self.y.to(device))


@dataclass(frozen=True)
class Dataset:
    """Training and test examples with the names of their classes.

    Args:
        name: how the data set calls itself in reports.
        train: the examples that clients share out among them.
        test: the examples on which the global model is judged.
        classes: one name a class; labels are positions in it.
        client_ids: the natural owner of each training example (any integers), where the data have one.
        test_client_ids: the same for the test examples.
    """

    name: str
    train: Examples
    test: Examples
    classes: tuple[str, ...]
    client_ids: np.ndarray | None = None
    test_client_ids: np.ndarray | None = None

    def __post_init__(self) -> None:
        for split, examples in (("train", self.train), ("test", self.test)):
            _check(f"{self.name}: {split}", examples, len(self.classes))
        if self.train.x.shape[1:] != self.test.x.shape[1:]:
            raise AskewError(f"{self.name}: training inputs are {tuple(self.train.x.shape[1:])}, test inputs "
                             f"{tuple(self.test.x.shape[1:])}; they must have one shape")
        for split, ids in (("train", self.client_ids), ("test", self.test_client_ids)):
            if ids is not None and len(ids) != len(getattr(self, split)):
                raise AskewError(f"{self.name}: {len(ids)} client ids for {len(getattr(self, split))} {split} examples")

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.train.x.shape[1:])

    def to(self, device: torch.device | str) -> Dataset:
        return replace(self, train=self.train.to(device), test=self.test.to(device))

    @classmethod
    def from_tensors(cls, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], *, name: str = "custom",
                     classes: Sequence[str] | None = None) -> Dataset:
        """Wrap tensors you already have; the classes default to 0, 1, ... up to the largest training label."""
        examples = [Examples(x, y.to(torch.int64)) for x, y in (train, test)]
        if classes is None:
            classes = [str(c) for c in range(int(train[1].max()) + 1 if len(train[1]) else 0)]
        return cls(name, examples[0], examples[1], tuple(classes))


@dataclass(frozen=True)
class Source:
    """What a partition may look at: labels and natural owners, never the inputs.

    Args:
        labels: of the training examples that are to be shared out.
        num_classes: how many classes there are, whether or not each occurs.
        test_labels: of the test examples, for schemes that give each device a test set of its own.
        client_ids: the natural owner of each training example, where there is one.
        test_client_ids: the same for the test examples.
    """

    labels: np.ndarray
    num_classes: int
    test_labels: np.ndarray | None = None
    client_ids: np.ndarray | None = None
    test_client_ids: np.ndarray | None = None

    @classmethod
    def of(cls, data: Dataset) -> Source:
        return cls(data.train.y.cpu().numpy(), data.num_classes, data.test.y.cpu().numpy(),
                   data.client_ids, data.test_client_ids)

    def take(self, indices: np.ndarray) -> Source:
        """The same source with only these training examples."""
        ids = None if self.client_ids is None else self.client_ids[indices]
        return replace(self, labels=self.labels[indices], client_ids=ids)


def _check(where: str, examples: Examples, num_classes: int) -> None:
    x, y = examples.x, examples.y
    if len(x) != len(y):
        raise AskewError(f"{where}: {len(x)} inputs but {len(y)} labels; there must be one label an input")
    if len(y) == 0:
        raise AskewError(f"{where}: no examples")
    if y.dtype != torch.int64 or y.ndim != 1:
        raise AskewError(f"{where}: labels must be a vector of int64, not {tuple(y.shape)} {y.dtype}")
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= num_classes:
        raise AskewError(f"{where}: label {low if low < 0 else high} is outside the {num_classes} classes 0..{num_classes - 1}")
    if x.is_floating_point() and not bool(torch.isfinite(x).all()):
        bad = int((~torch.isfinite(x)).flatten(1).any(dim=1).nonzero()[0])
        raise AskewError(f"{where}: example {bad} holds NaN or infinity; clean the data first")

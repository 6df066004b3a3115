"""A classification data set in memory: raw arrays, labels, names of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askew.core.errors import AskewError

MOST_CLASSES = 1_000_000  # a label beyond is an identifier or a mistake: a name for each class below it would fill the memory


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
        """Wrap tensors (or arrays) you already have.

        Args:
            train: inputs, and labels 0, 1, ...: whole numbers of any type.
            test: likewise.
            name: how the data set calls itself in reports.
            classes: their names; default: 0, 1, ... up to the largest training label.

        Example:
            >>> x, y = torch.zeros(3, 2), torch.tensor([0.0, 2.0, 1.0])
            >>> data = Dataset.from_tensors((x, y), (x, y))
            >>> data.train.y, data.classes
            (tensor([0, 2, 1]), ('0', '1', '2'))
            >>> Dataset.from_tensors((x, y + 0.7), (x, y))
            Traceback (most recent call last):
            askew.core.errors.AskewError: custom: train: label 0.7 of example 0 is no class; labels must be whole numbers
        """
        examples = [Examples(_tensor(f"{name}: {split} inputs", x), _whole(f"{name}: {split}", y))
                    for split, (x, y) in (("train", train), ("test", test))]
        return cls(name, examples[0], examples[1], tuple(classes) if classes is not None else numbered(name, examples[0]))


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


def numbered(name: str, *splits: Examples) -> tuple[str, ...]:
    """The classes 0, 1, ... up to the largest label."""
    largest = max((int(split.y.max()) for split in splits if len(split)), default=-1)
    if largest >= MOST_CLASSES:
        raise AskewError(f"{name}: label {largest} would make {largest + 1:,} classes; number the labels from 0, or name the classes")
    return tuple(str(label) for label in range(largest + 1))


def _tensor(where: str, values: Any) -> Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise AskewError(f"{where}: {type(values).__name__} cannot become a tensor ({str(error).splitlines()[0]})") from None


def _whole(where: str, values: Any) -> Tensor:
    """Labels as a vector of int64; a number that is not whole is no class, and is never rounded to one."""
    y = _tensor(f"{where} labels", values)
    if y.ndim == 2 and y.shape[1] == 1:  # a column is a vector
        y = y[:, 0]
    if y.ndim != 1:
        raise AskewError(f"{where}: labels must be a vector of int64, not {tuple(y.shape)} {y.dtype}; "
                         "of one-hot rows take argmax(dim=1)")
    if y.is_complex():
        raise AskewError(f"{where}: labels must be whole numbers, not {y.dtype}")
    if y.is_floating_point():
        bad = (~(y.isfinite() & (y == y.round()) & (y.abs() < 2**63))).nonzero()
        if len(bad):
            raise AskewError(f"{where}: label {float(y[bad[0, 0]]):.6g} of example {int(bad[0, 0])} is no class; "
                             "labels must be whole numbers")
    return y.to(torch.int64)


def _check(where: str, examples: Examples, num_classes: int) -> None:
    x, y = examples.x, examples.y
    for what, given in (("inputs", x), ("labels", y)):
        if not isinstance(given, Tensor) or given.ndim == 0:
            raise AskewError(f"{where}: {what} must be a tensor with one entry per example, not {type(given).__name__}; "
                             "Dataset.from_tensors takes arrays")
    if len(x) != len(y):
        raise AskewError(f"{where}: {len(x)} inputs but {len(y)} labels; there must be one label an input")
    if len(y) == 0:
        raise AskewError(f"{where}: no examples")
    if y.dtype != torch.int64 or y.ndim != 1:
        raise AskewError(f"{where}: labels must be a vector of int64, not {tuple(y.shape)} {y.dtype}; "
                         "Dataset.from_tensors takes whole numbers of any type")
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= num_classes:
        raise AskewError(f"{where}: label {low if low < 0 else high} is outside the {num_classes} classes 0..{num_classes - 1}")
    if x.is_floating_point() and not bool(torch.isfinite(x).all()):
        bad = int((~torch.isfinite(x)).flatten(1).any(dim=1).nonzero()[0])
        raise AskewError(f"{where}: example {bad} holds NaN or infinity; clean the data first")

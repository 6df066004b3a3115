"""A data set in memory: raw arrays, what is to be learnt of each example, and the names of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askew.core.arguments import check_fields, checked
from askew.core.columns import Columns
from askew.core.errors import AskewError, first_line
from askew.core.targets import Targets, as_tensor, check_targets, numbered, read_targets


@dataclass(frozen=True)
class Examples:
    """Inputs (first axis: examples; uint8 stays uint8) and targets, same length."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    @checked
    def to(self, device: torch.device | str) -> Examples:
        try:
            return Examples(self.x.to(device), self.y.to(device))
        except RuntimeError as error:
            raise AskewError(f"device {str(device)!r} is not available here: {first_line(error)}") from None


@dataclass(frozen=True)
class Dataset:
    """Training and test examples with the names of what is to be learnt.

    Args:
        name: how the data set calls itself in reports.
        train: the examples that clients share out among them.
        test: the examples on which the global model is judged.
        classes: one name per class, of which labels are positions; of other targets one
            name per number, label or token.
        client_ids: the natural owner of each training example (any integers), where the data have one.
        test_client_ids: the same for the test examples.
        targets: what is to be learnt: "classes" (int64 [N]), "numbers" (float32 [N, d]), several "labels" per example
            (0 or 1 as float32 [N, L]) or "tokens" (int64 [N, T], -100 where there is none).
        client_names: what `client_ids` 0, 1, ... are called, where they have names.
        columns: how rows of a table became the inputs, where they did.
    """

    name: str
    train: Examples
    test: Examples
    classes: tuple[str, ...]
    client_ids: np.ndarray | None = None
    test_client_ids: np.ndarray | None = None
    targets: Targets = "classes"
    client_names: tuple[str, ...] | None = None
    columns: Columns | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for split, examples in (("train", self.train), ("test", self.test)):
            _check(f"{self.name}: {split}", examples)
            check_targets(f"{self.name}: {split}", examples.y, self.targets, len(self.classes))
        if self.train.x.shape[1:] != self.test.x.shape[1:]:
            raise AskewError(f"{self.name}: training inputs are {tuple(self.train.x.shape[1:])}, test inputs "
                             f"{tuple(self.test.x.shape[1:])}; they must have one shape")
        for split, ids in (("train", self.client_ids), ("test", self.test_client_ids)):
            if ids is not None and len(ids) != len(getattr(self, split)):
                raise AskewError(f"{self.name}: {len(ids)} client ids for {len(getattr(self, split))} {split} examples")
            if ids is not None and self.client_names is not None and not _are_places(ids, len(self.client_names)):
                raise AskewError(f"{self.name}: client ids of {split} examples are not all places in the "
                                 f"{len(self.client_names)} names of clients")

    @property
    def num_classes(self) -> int:
        """Classes by which examples can be told apart: one where the targets are not classes."""
        return len(self.classes) if self.targets == "classes" else 1

    @property
    def class_names(self) -> tuple[str, ...]:
        """Of the classes by which examples can be told apart."""
        return self.classes if self.targets == "classes" else (self.targets,)

    @property
    def num_outputs(self) -> int:
        """Outputs that a network must have: classes, numbers, labels, or tokens at each place."""
        return len(self.classes)

    @checked
    def labels_of(self, examples: Examples) -> np.ndarray:
        """The class of each example: all 0 where the targets are not classes."""
        return examples.y.cpu().numpy() if self.targets == "classes" else np.zeros(len(examples), np.int64)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.train.x.shape[1:])

    @checked
    def to(self, device: torch.device | str) -> Dataset:
        return replace(self, train=self.train.to(device), test=self.test.to(device))

    @classmethod
    @checked
    def from_tensors(cls, train: tuple[Any, Any], test: tuple[Any, Any], *, name: str = "custom",
                     classes: Sequence[str] | None = None, targets: Targets = "classes") -> Dataset:
        """Wrap tensors (or arrays) you already have.

        Args:
            train: inputs, and what is to be learnt of them.
            test: likewise.
            name: how the data set calls itself in reports.
            classes: names of the classes, numbers, labels or tokens; default: 0, 1, ... up to the largest training
                label (of tokens: the largest at all).
            targets: "classes": whole numbers 0, 1, ... of any type; "numbers": [N] or [N, d]; "labels": 0 or 1 for each
                of several labels, [N, L]; "tokens": whole numbers [N, T], -100 where there is none.

        Example:
            >>> x, y = torch.zeros(3, 2), torch.tensor([0.0, 2.0, 1.0])
            >>> data = Dataset.from_tensors((x, y), (x, y))
            >>> data.train.y, data.classes
            (tensor([0, 2, 1]), ('0', '1', '2'))
            >>> Dataset.from_tensors((x, y + 0.5), (x, y), targets="numbers").train.y.flatten()
            tensor([0.5000, 2.5000, 1.5000])
            >>> Dataset.from_tensors((x, y + 0.7), (x, y))  # doctest: +ELLIPSIS
            Traceback (most recent call last):
            askew.core.errors.AskewError: custom: train: label 0.7 of example 0 is no class; ...
        """
        examples = [Examples(as_tensor(f"{name}: {split} inputs", x), read_targets(f"{name}: {split}", y, targets))
                    for split, (x, y) in (("train", train), ("test", test))]
        if classes is None:
            classes = numbered(name, targets, *(e.y for e in (examples if targets == "tokens" else examples[:1])))
        return cls(name, examples[0], examples[1], tuple(classes), targets=targets)


@dataclass(frozen=True)
class Source:
    """What a partition may look at: labels and natural owners, never the inputs.

    Args:
        labels: of the training examples that are to be shared out.
        num_classes: how many classes there are, whether or not each occurs.
        test_labels: of the test examples, for schemes that give each device a test set of its own.
        client_ids: the natural owner of each training example, where there is one.
        test_client_ids: the same for the test examples.
        targets: what the data have to be learnt; where that is not classes, all labels are 0.
    """

    labels: np.ndarray
    num_classes: int
    test_labels: np.ndarray | None = None
    client_ids: np.ndarray | None = None
    test_client_ids: np.ndarray | None = None
    targets: Targets = "classes"

    @classmethod
    def of(cls, data: Dataset) -> Source:
        return cls(data.labels_of(data.train), data.num_classes, data.labels_of(data.test), data.client_ids,
                   data.test_client_ids, data.targets)

    def take(self, indices: np.ndarray) -> Source:
        """The same source with only these training examples."""
        ids = None if self.client_ids is None else self.client_ids[indices]
        return replace(self, labels=self.labels[indices], client_ids=ids)


def _are_places(ids: np.ndarray, number: int) -> bool:
    return ids.dtype.kind in "iu" and (len(ids) == 0 or (int(ids.min()) >= 0 and int(ids.max()) < number))


def _check(where: str, examples: Examples) -> None:
    x, y = examples.x, examples.y
    given: Any
    for what, given in (("inputs", x), ("labels", y)):
        if not isinstance(given, Tensor) or given.ndim == 0:
            raise AskewError(f"{where}: {what} must be a tensor with one entry per example, "
                             f"not {type(given).__name__}; Dataset.from_tensors takes arrays")
        if given.layout != torch.strided:
            raise AskewError(f"{where}: {what} are a sparse tensor; make it dense first: tensor.to_dense()")
    if len(x) != len(y):
        raise AskewError(f"{where}: {len(x)} inputs but {len(y)} labels; there must be one label per input")
    if len(y) == 0:
        raise AskewError(f"{where}: no examples")
    check_inputs(where, x)


def check_inputs(where: str, x: Tensor) -> None:
    """Refuse NaN and infinity, with the number of the first example that has one."""
    if x.is_floating_point() and not bool(torch.isfinite(x).all()):
        bad = int((~torch.isfinite(x)).flatten(1).any(dim=1).nonzero()[0])
        raise AskewError(f"{where}: example {bad} holds NaN or infinity; clean the data first")

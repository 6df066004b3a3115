"""Your own `torch.utils.data.Dataset`, read once into memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askew.core.arguments import checked
from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError, first_line
from askew.core.targets import NUMBERS, Targets, numbered, read_targets


@checked
def from_torch_dataset(train: Any, test: Any, *, name: str = "custom", classes: Sequence[str] | None = None,
                       client_ids: Sequence[int] | None = None, targets: Targets = "classes") -> Dataset:
    """Read every example of two map-style data sets that yield (tensor, target).

    Args:
        train, test: objects with `len` and `[i]`, such as those of torchvision with a `ToTensor` transform. Leave
            random transforms out: each example is read once (random steps belong in the recipe's preprocessing).
        name: what the data set is called in reports.
        classes: their names; default: `train.classes` where there is one, else 0, 1, ... up to the largest label.
        client_ids: the natural owner of each training example.
        targets: what the second of each pair is: "classes": one whole number; "numbers": one or several; "labels": 0 or
            1 for each of several; "tokens": whole numbers, one per place.

    Returns:
        A data set; uint8 inputs stay uint8, all others become float32 (beside tokens, whole numbers become int64).

    Example:
        >>> pairs = [(torch.zeros(3), 0), (torch.ones(3), 1)]
        >>> from_torch_dataset(pairs, pairs).num_classes
        2
    """
    examples = [_read(f"{name}: {split}", pairs, targets) for split, pairs in (("train", train), ("test", test))]
    if classes is None:
        classes = getattr(train, "classes", None) or numbered(name, targets, *(part.y for part in examples))
    ids = None if client_ids is None else torch.as_tensor(client_ids).numpy()
    return Dataset(name, examples[0], examples[1], tuple(map(str, classes)), client_ids=ids, targets=targets)


def _read(where: str, pairs: Any, targets: Targets) -> Examples:
    try:
        length = len(pairs)
    except TypeError:
        raise AskewError(f"{where}: {type(pairs).__name__} has no length; a map-style Dataset is needed") from None
    if length == 0:
        raise AskewError(f"{where}: no examples")
    x, y = torch.empty(0), []
    for i in range(length):
        value, target = _pair(where, i, pairs[i], targets)
        if i == 0:
            x = torch.empty((length, *value.shape), dtype=_stored(value.dtype, targets))
        if value.shape != x.shape[1:]:
            raise AskewError(f"{where}: example {i} has shape {tuple(value.shape)}, example 0 {tuple(x.shape[1:])}; "
                             "resize them to one shape in the data set's transform")
        x[i] = value
        y.append(target)
    if targets == "classes":
        return Examples(x, torch.tensor(y, dtype=torch.int64))
    try:
        stacked = torch.stack([torch.as_tensor(target) for target in y])
    except (TypeError, ValueError, RuntimeError) as error:  # words; rows of several lengths
        raise AskewError(f"{where}: targets cannot become one tensor ({first_line(error)}); "
                         "all must be numbers of one shape") from None
    return Examples(x, read_targets(where, stacked, targets))


def _stored(dtype: torch.dtype, targets: Targets) -> torch.dtype:
    """The type in which inputs are kept: tokens lead to tokens, other whole numbers but bytes are measurements."""
    if targets == "tokens" and not dtype.is_floating_point:
        return torch.int64
    return torch.uint8 if dtype == torch.uint8 else torch.float32


def _pair(where: str, i: int, item: Any, targets: Targets) -> tuple[Tensor, Any]:
    if not isinstance(item, tuple | list) or len(item) != 2 or not isinstance(item[0], Tensor):
        got = f"({', '.join(type(part).__name__ for part in item)})" if isinstance(item, tuple) else type(item).__name__
        raise AskewError(f"{where}: example {i} is {got}, not (Tensor, target); "
                         "give the data set a transform to tensors")
    if targets != "classes":
        return item[0], item[1]
    try:
        complex_ = item[1].is_complex() if isinstance(item[1], Tensor) else np.iscomplexobj(item[1])
        is_whole = not complex_ and bool(int(item[1]) == item[1]) and abs(int(item[1])) < 2**63
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last two: infinity; tensors of several numbers
        is_whole = False
    if is_whole:
        return item[0], int(item[1])
    raise AskewError(f"{where}: the label of example {i} is {item[1]!r}, not a whole number{NUMBERS}")

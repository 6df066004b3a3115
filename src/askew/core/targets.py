"""What a network is to learn of each example: a class, numbers, several labels or tokens."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from askew.core.errors import AskewError

Targets = Literal["classes", "numbers", "labels", "tokens"]
PADDING = -100  # a token that stands for no token, as torch has it
NUMBERS = "; for numbers to be learnt say targets='numbers'"  # what else to do about labels that are not whole
# A label beyond is an identifier or a mistake: a name for each class below it would fill the memory.
MOST_CLASSES = 1_000_000


def read_targets(where: str, values: Any, targets: Targets) -> Tensor:
    """Targets as an objective takes them, from any array of numbers.

    Args:
        where: what to call them in an error.
        values: one row per example.
        targets: "classes": whole numbers [N] -> int64 [N]; "numbers": [N] or [N, d] -> float32 [N, d]; "labels": 0 and
            1, [N, L] -> float32; "tokens": whole numbers [N, T] -> int64, with -100 where there is none.

    Example:
        >>> read_targets("price", [1, 2.5], "numbers")
        tensor([[1.0000],
                [2.5000]])
    """
    y = as_tensor(f"{where} {'labels' if targets == 'classes' else 'targets'}", values)
    if y.is_complex():
        raise AskewError(f"{where}: labels must be whole numbers, not {y.dtype}")
    return {"classes": _classes, "numbers": _numbers, "labels": _labels, "tokens": _tokens}[targets](where, y)


def check_targets(where: str, y: Tensor, targets: Targets, outputs: int) -> None:
    """Refuse targets that `read_targets` would not have made, and those beyond the outputs that there are names for."""
    integers, rank = targets in ("classes", "tokens"), 1 if targets == "classes" else 2
    if y.dtype != (torch.int64 if integers else torch.float32) or y.ndim != rank:
        wanted = {"classes": "labels must be a vector of int64",
                  "tokens": "tokens must be int64 [examples, places]"}.get(
                      targets, f"{targets} must be float32 [examples, {targets}]")
        kinds = "whole numbers" if integers else "numbers"
        raise AskewError(f"{where}: {wanted}, not {tuple(y.shape)} {y.dtype}; "
                         f"Dataset.from_tensors takes {kinds} of any type")
    if not integers:
        if y.shape[1] != outputs:
            raise AskewError(f"{where}: {y.shape[1]} {targets} per example, but names for {outputs}")
        _refuse(where, y, ~y.isfinite(), "target", "is not a finite number; clean the data first")
        return
    real = y if targets == "classes" else y[y != PADDING]
    if len(real) == 0:
        raise AskewError(f"{where}: every token is {PADDING}, which stands for none")
    low, high = int(real.min()), int(real.max())
    if low < 0 or high >= outputs:
        what = "label" if targets == "classes" else "token"
        raise AskewError(f"{where}: {what} {low if low < 0 else high} is outside the {outputs} "
                         f"{targets} 0..{outputs - 1}")


def numbered(name: str, targets: Targets, *splits: Tensor) -> tuple[str, ...]:
    """The names 0, 1, ...: of classes and tokens up to the largest, else one per column."""
    if targets in ("numbers", "labels"):
        return tuple(str(column) for column in range(splits[0].shape[1]))
    largest = max((int(y.max()) for y in splits if len(y)), default=-1)
    if largest >= MOST_CLASSES:
        raise AskewError(f"{name}: label {largest} would make {largest + 1:,} classes; "
                         "number the labels from 0, or name the classes")
    return tuple(str(label) for label in range(largest + 1))


def as_tensor(where: str, values: Any) -> Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise AskewError(f"{where}: {type(values).__name__} cannot become a tensor "
                         f"({str(error).splitlines()[0]})") from None


def _classes(where: str, y: Tensor) -> Tensor:
    """A number that is not whole is no class, and is never rounded to one."""
    if y.ndim == 2 and y.shape[1] == 1:  # a column is a vector
        y = y[:, 0]
    if y.ndim != 1:
        raise AskewError(f"{where}: labels must be a vector of int64, not {tuple(y.shape)} {y.dtype}; of one-hot rows "
                         "take argmax(dim=1), for several labels per example say targets='labels'")
    return _whole(where, y, "label", "is no class; labels must be whole numbers" + NUMBERS)


def _numbers(where: str, y: Tensor) -> Tensor:
    if y.ndim == 1:  # as a network with one output gives them: [B] - [B, 1] would be [B, B]
        y = y[:, None]
    if y.ndim != 2:
        raise AskewError(f"{where}: numbers must be [examples] or [examples, numbers], not {tuple(y.shape)}")
    y = y.to(torch.float32)
    _refuse(where, y, ~y.isfinite(), "target", "is not a finite number; clean the data first")
    return y


def _labels(where: str, y: Tensor) -> Tensor:
    if y.ndim != 2:
        raise AskewError(f"{where}: labels must be [examples, labels] of 0 and 1, not {tuple(y.shape)}; one class per "
                         "example is targets='classes'")
    _refuse(where, y, (y != 0) & (y != 1), "label", "is neither 0 nor 1: each label is there or not")
    return y.to(torch.float32)


def _tokens(where: str, y: Tensor) -> Tensor:
    if y.ndim != 2:
        raise AskewError(f"{where}: tokens must be [examples, places], not {tuple(y.shape)}; "
                         f"fill short rows up with {PADDING}")
    return _whole(where, y, "token", "is no token; tokens must be whole numbers")


def _whole(where: str, y: Tensor, what: str, problem: str) -> Tensor:
    if y.is_floating_point():
        _refuse(where, y, ~(y.isfinite() & (y == y.round()) & (y.abs() < 2**63)), what, problem)
    return y.to(torch.int64)


def _refuse(where: str, y: Tensor, bad: Tensor, what: str, problem: str) -> None:
    """Name the first bad value and its example, if there is one."""
    places = bad.nonzero()
    if len(places):
        raise AskewError(f"{where}: {what} {float(y[tuple(places[0])]):.6g} of example {int(places[0, 0])} {problem}")

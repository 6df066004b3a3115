"""Inputs on their way from storage to the network: a batched function on the device.

uint8 inputs have already been divided by 255 when a preprocessing step sees them. Other integers (tokens) reach a
network that takes them as they are. Randomness comes from one key per example, so an example is augmented the same way
alone or in any batch, on any engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from askew.core.registry import Spec


@dataclass(frozen=True)
class Preprocess:
    """One step.

    Args:
        apply: (inputs [N, ...], keys [N] or None) -> inputs [N, ...]. Keys are None when the model is evaluated: a
            random step then does its deterministic counterpart (a centre crop, no flip).
        shape: input shape of one example -> output shape of one example.
        random: whether `apply` uses its keys; a chain without a random step skips drawing them.
        measured: arguments that it found in the data: with these it can be made again without them.
        spec: how it was made, set by `@piece`.
    """

    apply: Callable[[Tensor, Tensor | None], Tensor]
    shape: Callable[[tuple[int, ...]], tuple[int, ...]] = lambda shape: shape
    random: bool = False
    measured: Mapping[str, Any] = field(default_factory=dict)
    spec: Spec | None = None


def pipeline(steps: Sequence[Preprocess], dtype: torch.dtype = torch.float32, tokens: bool = False) -> Preprocess:
    """Divide uint8 by 255, then all steps in order, as one step.

    Args:
        dtype: in which the network takes its inputs.
        tokens: integers stay integers, of 64 bits; uint8 is taken for images.
    """

    def apply(x: Tensor, keys: Tensor | None) -> Tensor:
        # Always in new memory: a network may change its inputs in place.
        if tokens and is_token(x.dtype):
            return x.to(torch.int64, copy=True)
        x = (x.to(torch.float32) / 255.0 if x.dtype == torch.uint8
             else x.to(torch.promote_types(dtype, torch.float32), copy=True))
        for step in steps:
            x = step.apply(x, keys if step.random else None)
        return x.to(dtype)

    def shape(of: tuple[int, ...]) -> tuple[int, ...]:
        for step in steps:
            of = step.shape(of)
        return of

    return Preprocess(apply, shape, random=any(step.random for step in steps))


def is_token(dtype: torch.dtype) -> bool:
    """Whether inputs of this type may be tokens: integers, but not the bytes of images."""
    return not dtype.is_floating_point and not dtype.is_complex and dtype not in (torch.uint8, torch.bool)

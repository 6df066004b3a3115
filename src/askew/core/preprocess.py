"""Inputs on their way from storage to the network: a batched function on the device.

uint8 inputs have already been divided by 255 when a preprocessing step sees them. Randomness comes from one key an
example, so an example is augmented the same way alone or in any batch, on any engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
        spec: how it was made, set by `@piece`.
    """

    apply: Callable[[Tensor, Tensor | None], Tensor]
    shape: Callable[[tuple[int, ...]], tuple[int, ...]] = lambda shape: shape
    random: bool = False
    spec: Spec | None = None


def pipeline(steps: Sequence[Preprocess]) -> Preprocess:
    """Divide uint8 by 255, then all steps in order, as one step."""

    def apply(x: Tensor, keys: Tensor | None) -> Tensor:
        x = x.to(torch.float32) / 255.0 if x.dtype == torch.uint8 else x.to(torch.float32)
        for step in steps:
            x = step.apply(x, keys if step.random else None)
        return x

    def shape(of: tuple[int, ...]) -> tuple[int, ...]:
        for step in steps:
            of = step.shape(of)
        return of

    return Preprocess(apply, shape, random=any(step.random for step in steps))

"""Inputs with each client's noise on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from askew.core import rng
from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError
from askew.core.ownership import Ownership
from askew.core.population import Population


def noised(data: Dataset, population: Population) -> Dataset:
    """The data as the clients of a federation with `noise` see them; the same object where it has none.

    A function of the population and its seed. Noise is added where inputs lie, so whoever looks at an example
    (training, validation, evaluation) sees the same one.
    """
    if population.noise is None:
        return data
    if not (data.train.x.is_floating_point() or data.train.x.dtype == torch.uint8):
        raise AskewError(f"feature_noise: the inputs of {data.name} are {data.train.x.dtype}, to which no noise can be "
                         "added; leave it out")
    return replace(data, train=_with(data.train, _levels(population, len(data.train), test=False), population, "train"),
                   test=_with(data.test, _levels(population, len(data.test), test=True), population, "test"))


def _levels(population: Population, examples: int, test: bool) -> np.ndarray:
    """Standard deviation of the noise on each example."""
    noise = population.noise
    assert noise is not None
    in_turn = noise[np.arange(examples) % len(noise)]
    owned = [population.test] if test else [population.train, population.validation]
    levels = in_turn if test else np.zeros(examples)  # training examples that nobody has are seen by nobody
    for part in owned:
        if part is not None:
            levels[part.indices] = in_turn[part.indices] if population.noise_mixed else noise[_owners(part)]
    if not test:
        levels[population.server] = 0.0
    return levels


def _owners(part: Ownership) -> np.ndarray:
    return np.repeat(np.arange(len(part)), part.sizes)


def _with(examples: Examples, levels: np.ndarray, population: Population, split: str) -> Examples:
    x = examples.x
    x = x.to(torch.float32) / 255.0 if x.dtype == torch.uint8 else x.clone()
    flat: Tensor = x.view(len(x), -1)
    draw = torch.Generator().manual_seed(rng.int_seed(population.seed, f"feature noise, {split}"))
    rows = max(1, 4_000_000 // flat.shape[1])  # some megabytes at a time
    for start in range(0, len(flat), rows):
        part = flat[start : start + rows]
        drawn = torch.randn(part.shape, generator=draw) * torch.from_numpy(levels[start : start + rows, None]).float()
        part += drawn.to(x.device, x.dtype)
    return Examples(x, examples.y)

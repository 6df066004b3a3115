"""Fingerprints of data and populations: a checkpoint knows what it was trained on, and continues on nothing else."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import Tensor

from askew.core.dataset import Dataset
from askew.core.population import Population


def print_of_data(data: Dataset) -> str:
    """Of all examples and labels; two data sets with the same one are the same, whatever they are called."""
    digest = hashlib.sha256(repr((data.classes, data.targets)).encode())
    for split in (data.train, data.test):
        for tensor in (split.x, split.y):
            _add(digest, tensor)
    return digest.hexdigest()


def print_of_population(population: Population) -> str:
    """Of who has which training examples."""
    digest = hashlib.sha256()
    for array in (population.train.indices, population.train.offsets, population.server):
        _add(digest, torch.from_numpy(np.ascontiguousarray(array)))
    return digest.hexdigest()


def _add(digest: hashlib._Hash, tensor: Tensor) -> None:
    digest.update(repr((tuple(tensor.shape), str(tensor.dtype))).encode())
    if tensor.numel() > 0:
        flat = tensor.detach().cpu().reshape(-1)
        flat = flat if flat.stride(0) == 1 else flat.clone()
        digest.update(flat.view(torch.uint8).numpy().data)

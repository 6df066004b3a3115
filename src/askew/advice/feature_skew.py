"""Do clients' inputs differ where their labels do not? A permutation test on features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from askew.core.dataset import Dataset
from askew.core.population import Population

EXAMPLES = 4_000  # looked at: enough to see a few percent of the variance
WIDTH = 24  # projections of the inputs: images have thousands of numbers, and random ones keep distances
PERMUTATIONS = 199  # so that the smallest p is 0.005


@dataclass(frozen=True)
class FeatureSkew:
    """What the test says.

    Args:
        p: chance of a difference as large as this were owners dealt at random among examples of a class.
        share: of the variance of inputs (and of their squares) within classes that lies between clients, beyond what
            chance gives.
    """

    p: float
    share: float

    @property
    def is_seen(self) -> bool:
        return self.p <= 0.01


def feature_skew(data: Dataset, population: Population, seed: int = 0) -> FeatureSkew | None:
    """Compare clients' inputs within each class: means and spreads of random projections.

    The statistic is the variance between clients as a share of all variance within classes, for projections and for
    their squares (noise moves no mean). Under the null hypothesis owners of one class' examples are exchangeable, so
    they are permuted within classes; labels' own skew plays no part.

    Returns:
        None where inputs are no numbers, or no two clients share a class.
    """
    x = data.train.x
    if not (x.is_floating_point() or x.dtype == torch.uint8) or population.num_clients < 2:
        return None
    draw = np.random.default_rng(seed)
    owner = np.repeat(np.arange(population.num_clients), population.sizes)
    at = np.arange(len(owner)) if len(owner) <= EXAMPLES else np.sort(draw.choice(len(owner), EXAMPLES, replace=False))
    indices, owner = population.train.indices[at], owner[at]
    flat = x[torch.from_numpy(indices).to(x.device)].cpu().flatten(1).double().numpy()
    flat = (flat - flat.mean(axis=0)) / (flat.std() + 1e-12)
    if flat.shape[1] > WIDTH:
        flat = flat @ draw.standard_normal((flat.shape[1], WIDTH)) / np.sqrt(WIDTH)
    labels = data.labels_of(data.train)[indices]
    order = np.argsort(labels, kind="stable")
    labels, owner, flat = labels[order], owner[order], flat[order]
    within = _centred(flat, labels)
    columns = np.concatenate([within, _centred(within**2, labels)], axis=1)
    columns /= columns.std(axis=0) + 1e-12
    starts = np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1]]))
    ends = np.append(starts[1:], len(labels))
    if all(len(np.unique(owner[a:b])) < 2 for a, b in zip(starts, ends, strict=True)):
        return None
    between = _between(columns, owner)
    shuffled = owner.copy()
    chance = np.empty(PERMUTATIONS)
    for i in range(PERMUTATIONS):
        for a, b in zip(starts, ends, strict=True):
            shuffled[a:b] = draw.permutation(owner[a:b])
        chance[i] = _between(columns, shuffled)
    p = (1 + int((chance >= between).sum())) / (PERMUTATIONS + 1)
    return FeatureSkew(p, float(max(0.0, between - chance.mean())))


def _centred(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Less the mean of each class."""
    _, group, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), values.shape[1]))
    np.add.at(sums, group, values)
    return values - (sums / sizes[:, None])[group]


def _between(columns: np.ndarray, owner: np.ndarray) -> float:
    """The share of the variance that lies between clients."""
    _, group, sizes = np.unique(owner, return_inverse=True, return_counts=True)
    sums = np.stack([np.bincount(group, weights=column, minlength=len(sizes)) for column in columns.T])
    return float((sums**2 / sizes).sum() / max((columns**2).sum(), 1e-12))

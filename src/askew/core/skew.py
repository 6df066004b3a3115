r"""How skewed a federation is: measures of a table of counts, one row per client, one column per class.

All of them need the counts only, which a real federation can collect without seeing an example. The reference p is the
class distribution of the whole training set where it is known (`Population.class_totals`), else of all clients' data
together.

References:
    Zhao et al. 2018, section 3.1: EMD and proposition 3.1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from askew.core.arguments import checked
from askew.core.bounds import Count
from askew.core.errors import AskewError, shown


@checked
def class_shares(counts: np.ndarray) -> np.ndarray:
    """Each client's class distribution: rows that sum to 1 (a row of zeros stays one)."""
    _check_counts(counts)
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


@checked
def reference_shares(counts: np.ndarray, reference: np.ndarray | None = None) -> np.ndarray:
    """The class distribution p that clients are compared with.

    Args:
        counts: examples per client and class.
        reference: examples (or shares) of each class in the whole; None pools the clients.
    """
    _check_counts(counts)
    totals = counts.sum(axis=0) if reference is None else reference
    if totals.shape != counts.shape[1:] or totals.dtype.kind not in "iuf" or not totals.sum() > 0:
        raise AskewError(f"reference must hold examples or shares of {counts.shape[1]} classes, not {shown(totals)}")
    return np.asarray(totals, np.float64) / totals.sum()


@checked
def emd(counts: np.ndarray, reference: np.ndarray | None = None) -> np.ndarray:
    r"""Earth mover's distance of each client from the population, as Zhao et al. define it: the L1 distance.

    $$\mathrm{EMD}_k = \sum_c |p_k(c) - p(c)|$$

    From 0 (like the whole) to `largest_emd` (one class only, p uniform).

    Args:
        counts: examples per client and class.
        reference: examples (or shares) of each class in the whole; None pools the clients.

    Returns:
        One distance a client.

    Example:
        >>> emd(np.array([[5, 5], [10, 0]]), np.array([1, 1])).tolist()
        [0.0, 1.0]

    References:
        Zhao et al. 2018, remark 3.4.
    """
    return np.abs(class_shares(counts) - reference_shares(counts, reference)).sum(axis=1)


@checked
def mean_emd(counts: np.ndarray, reference: np.ndarray | None = None, weighted: bool = False) -> float:
    r"""The mean of the clients' EMD.

    Args:
        counts: examples per client and class.
        reference: see `emd`.
        weighted: weight clients by their number of examples, $\sum_k \frac{n_k}{n} \mathrm{EMD}_k$, as the bound on the
            weight divergence does (proposition 3.1); False takes the plain mean.
    """
    return float(np.average(emd(counts, reference), weights=counts.sum(axis=1) if weighted else None))


@checked
def largest_emd(num_classes: Count) -> float:
    """The EMD of a client with one class in a uniform population: 2 (1 - 1/C), 1.8 for ten classes."""
    return 2.0 * (1.0 - 1.0 / num_classes)


@checked
def chance_emd(sizes: np.ndarray, reference: np.ndarray) -> np.ndarray:
    r"""The EMD that clients of these sizes would have by chance alone, were their examples drawn from p.

    The sum over classes of the mean absolute deviation of a binomial share, exactly (De Moivre 1730): with
    $m = \lfloor n p \rfloor + 1$,

    $$\mathbb{E}\,|X/n - p| = \frac{2 m}{n} \binom{n}{m} p^m (1 - p)^{n - m + 1}$$

    A client of 10 examples and 10 classes is at 0.70 even if nothing is skewed; measured EMD means skew where it
    exceeds this.

    Args:
        sizes: examples of each client.
        reference: class distribution p.

    Returns:
        One expectation a client.

    Example:
        >>> chance_emd(np.array([1, 2]), np.array([0.5, 0.5])).round(12).tolist()
        [1.0, 0.5]
    """
    _check_sizes("chance_emd", sizes, reference)
    distinct, place = np.unique(sizes, return_inverse=True)
    p = torch.as_tensor(np.asarray(reference, np.float64))
    p = p[(p > 0) & (p < 1)]
    n = torch.as_tensor(distinct, dtype=torch.float64)[:, None]
    m = torch.clamp(torch.floor(n * p) + 1, max=n)
    log_ways = torch.lgamma(n + 1) - torch.lgamma(m + 1) - torch.lgamma(n - m + 1)
    terms = 2 * m / n * torch.exp(log_ways + m * torch.log(p) + (n - m + 1) * torch.log1p(-p))
    return terms.sum(dim=1).numpy()[place]


@checked
def hellinger(counts: np.ndarray, reference: np.ndarray | None = None) -> np.ndarray:
    r"""Hellinger distance of each client's class distribution from the whole: 0 alike, 1 nothing in common.

    $$H_k = \sqrt{1 - \sum_c \sqrt{p_k(c)\, p(c)}}$$

    Example:
        >>> hellinger(np.array([[5, 5], [10, 0]]), np.array([1, 1])).round(4).tolist()  # sqrt(1 - sqrt(1/2))
        [0.0, 0.5412]
    """
    overlap = np.sqrt(class_shares(counts) * reference_shares(counts, reference)).sum(axis=1)
    return np.sqrt(np.clip(1 - overlap, 0, 1).round(15))


@checked
def jensen_shannon(counts: np.ndarray, reference: np.ndarray | None = None) -> np.ndarray:
    r"""Jensen-Shannon distance of each client's class distribution from the whole: 0 alike, 1 nothing in common.

    The square root of the mean of the divergences, in bits, of both from their mean.

    Example:
        One class of two: (log2(1 / 0.75) + 0.5 log2(0.5 / 0.75) + 0.5 log2(0.5 / 0.25)) / 2 = 0.3113.

        >>> jensen_shannon(np.array([[5, 5], [10, 0]]), np.array([1, 1])).round(4).tolist()  # sqrt(0.3113)
        [0.0, 0.5579]

    References:
        Endres and Schindelin 2003, "A new metric for probability distributions".
    """
    shares, p = class_shares(counts), reference_shares(counts, reference)[None]
    middle = (shares + p) / 2
    divergence = np.zeros(len(shares))
    for part in (shares, np.broadcast_to(p, shares.shape)):
        ratio = np.divide(part, middle, out=np.ones_like(middle), where=part > 0)
        divergence += (part * np.log2(ratio)).sum(axis=1) / 2
    return np.sqrt(np.clip(divergence, 0, 1).round(15))


@checked
def chance_level(measure: Callable[[np.ndarray, np.ndarray], np.ndarray], sizes: np.ndarray, reference: np.ndarray,
                 draws: Count = 20) -> float:
    """The mean of a measure that clients of these sizes would have by chance alone, were their examples drawn from p.

    By drawing them so, always with the same random numbers; of many clients, a thousand are drawn.

    Example:
        A client of one example has one class, whatever the measure: sqrt(1 - sqrt(1/2)).

        >>> round(chance_level(hellinger, np.array([1]), np.array([0.5, 0.5])), 4)
        0.5412
    """
    _check_sizes("chance_level", sizes, reference)
    if not len(sizes) or not reference.sum() > 0 or (reference < 0).any() or (sizes < 1).any():
        raise AskewError("chance_level takes the sizes, 1 or more, of one client or more, and shares not all 0, "
                         f"not {shown(sizes)} and {shown(reference)}")
    draw = np.random.default_rng(0)
    some = sizes if len(sizes) <= 1000 else draw.choice(sizes, 1000, replace=False)
    p = np.asarray(reference, np.float64) / np.sum(reference)
    return float(np.mean([measure(draw.multinomial(some, p), p).mean() for _ in range(draws)]))


@checked
def entropy(counts: np.ndarray) -> np.ndarray:
    r"""Shannon entropy of each client's class distribution, in bits: 0 for one class, log2 C for all evenly.

    Example:
        >>> entropy(np.array([[4, 4], [8, 0]])).tolist()
        [1.0, 0.0]
    """
    shares = class_shares(counts)
    logs = np.zeros_like(shares)
    np.log2(shares, out=logs, where=shares > 0)
    return np.abs(-(shares * logs).sum(axis=1))  # abs turns -0.0 into 0.0


@checked
def classes_per_client(counts: np.ndarray) -> np.ndarray:
    """How many classes each client has at least one example of."""
    _check_counts(counts)
    return (counts > 0).sum(axis=1)


@checked
def missing_classes(counts: np.ndarray) -> np.ndarray:
    """Classes of which no client has an example."""
    _check_counts(counts)
    return np.flatnonzero(counts.sum(axis=0) == 0)


@checked
def most_unusual(counts: np.ndarray, reference: np.ndarray | None = None, number: Count = 5) -> np.ndarray:
    """The clients whose EMD exceeds what chance explains at their size by most, the most unusual first.

    Plain EMD would name the smallest clients, which are far from everything by chance.
    """
    p = reference_shares(counts, reference)
    excess = np.round(emd(counts, reference) - chance_emd(counts.sum(axis=1), p), 12)
    return np.lexsort((-counts.sum(axis=1), -excess))[:number]


def _check_sizes(name: str, sizes: np.ndarray, reference: np.ndarray) -> None:
    if sizes.ndim != 1 or reference.ndim != 1 or sizes.dtype.kind not in "iu" or reference.dtype.kind not in "iuf":
        raise AskewError(f"{name} takes whole sizes [clients] and shares [classes], not {shown(sizes)} and "
                         f"{shown(reference)}")


def _check_counts(counts: np.ndarray) -> None:
    if counts.ndim != 2 or not counts.size or counts.dtype.kind not in "iuf":
        raise AskewError(f"counts must be numbers [clients, classes], not {counts.dtype} of shape {counts.shape}")

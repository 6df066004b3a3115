"""Dividing a whole number of examples in given proportions: with limits on the parts, and without fractions."""

from __future__ import annotations

import numpy as np

# Far above the error of a sum of 64-bit shares, far below any effect on the expected number.
_SLACK = 1e-9


def even_sizes(total: int, parts: int) -> np.ndarray:
    """`total` in `parts` whole numbers that differ by at most one, the larger ones first.

    Example:
        >>> even_sizes(11, 3).tolist()
        [4, 4, 3]
    """
    return total // parts + (np.arange(parts) < total % parts).astype(np.int64)


def fill_in_proportion(weights: np.ndarray, total: float, limits: np.ndarray) -> np.ndarray:
    r"""Divide `total` in proportion to `weights`, no part above its limit; what a full part cannot take, others do.

    Solves $x_i = \min(\ell_i, t w_i)$ with $\sum_i x_i$ = `total`. The limits must sum to at least `total`, and parts
    of positive weight must be able to take it.

    Example:
        >>> fill_in_proportion(np.array([3.0, 1.0, 1.0]), 10.0, np.array([4.0, 9.0, 9.0])).tolist()
        [4.0, 3.0, 3.0]
    """
    filled = np.zeros(len(weights))
    is_open = weights > 0
    rest = float(total)
    while rest > _SLACK and is_open.any():
        share = np.where(is_open, weights, 0.0)
        share = share * (rest / share.sum())
        over = is_open & (share >= limits)
        if not over.any():
            return np.where(is_open, share, filled)
        filled[over] = limits[over]  # at least one part fills up each time round: the loop ends
        is_open &= ~over
        rest = float(total) - filled.sum()
    return filled


def round_systematically(shares: np.ndarray, totals: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    r"""Whole numbers in the given proportions, one row per client: each is off by less than one and unbiased.

    With cumulative shares $S_c$ and an offset $u \sim U(0, 1)$ a row, class $c$ gets
    $\lfloor n S_c + u \rfloor - \lfloor n S_{c-1} + u \rfloor$: the sum is exactly $n$, the expectation exactly
    $n s_c$, and shares that are whole already stay as they are (systematic sampling, Madow 1949).

    Args:
        shares: rows that sum to 1.
        totals: what each row's whole numbers sum to.
        offsets: u, one per row; 0.5 for every row is ordinary rounding.

    Returns:
        int64 of the shape of `shares`.
    """
    totals = np.asarray(totals, np.int64)[:, None]
    bounds = np.floor(np.cumsum(shares, axis=1) * totals + np.asarray(offsets)[:, None] + _SLACK).astype(np.int64)
    np.minimum(bounds, totals, out=bounds)
    bounds[:, -1] = totals[:, 0]
    return np.diff(bounds, axis=1, prepend=0)

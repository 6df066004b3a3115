"""Small real data that need no download: 1,797 handwritten digits of 8 x 8 pixels, embedded in the package.

They are the digits of scikit-learn's `load_digits` (the test part of "Optical Recognition of Handwritten Digits",
E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998, CC BY 4.0): each pixel counts the ink in a block of
4 x 4, 0 to 16.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import numpy as np
import torch

from askew.core.dataset import Dataset, Examples
from askew.core.registry import piece
from askew.data.split import take_per_class

TEST_PER_CLASS = 36  # 360 of 1,797: a fifth


@piece("data")
def digits() -> Dataset:
    """The 1,797 embedded digits: 1,437 to train on, 360 (36 of each class) to test on, always the same ones.

    Pixels are stored as uint8, 15 times the original 0..16, so that the usual division by 255 gives [0, 0.94].

    Returns:
        A data set of inputs [N, 1, 8, 8] and ten classes.

    Example:
        >>> digits().train.x.shape
        torch.Size([1437, 1, 8, 8])

    References:
        F. Pedregosa et al., "Scikit-learn: Machine Learning in Python", JMLR 12, 2011.
    """
    x, y, test = map(torch.from_numpy, _stored())  # what is taken out below is in memory of its own
    return Dataset("digits", Examples(x[~test], y[~test]), Examples(x[test], y[test]), tuple("0123456789"))


@cache
def _stored() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pixels, labels, and which of them are test examples: read once per process."""
    with resources.files("askew.data").joinpath("digits.npz").open("rb") as file, np.load(file) as arrays:
        x, y = arrays["x"], arrays["y"].astype(np.int64)
    test = np.zeros(len(y), dtype=bool)
    test[take_per_class(y, np.full(10, TEST_PER_CLASS))] = True
    return x, y, test

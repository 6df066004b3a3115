"""Clients with wrong labels.

References:
    Patrini et al. 2017, "Making Deep Neural Networks Robust to Label Noise: a Loss Correction Approach" (symmetric
    noise).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from askew.core import rng
from askew.core.adversity import Adversity, Who
from askew.core.bounds import Share
from askew.core.registry import piece


@piece("adversity")
def flip_labels(share: Share = 0.2, of_clients: Share = 1.0, clients: Sequence[int] | None = None) -> Adversity:
    """Each label is, with chance `share`, one of the C - 1 other classes, all equally likely.

    Drawn once, by (seed, client, example). Only what clients train on is changed: validation, the server's and the test
    examples keep their labels. An example that several clients have may be wrong at one of them and right at another.

    Args:
        share: of a struck client's labels.
        of_clients: share of the clients that are struck, to the nearest whole number of them, but at least one unless
            it is 0.
        clients: only these can be struck; default: all.

    Example:
        With share 1 every label is wrong, and still a class.

        >>> labels = flip_labels(share=1.0).relabel(torch.tensor([0, 1, 2]), torch.tensor([5, 6, 7]), 3)
        >>> bool((labels != torch.tensor([0, 1, 2])).all()), bool(((labels >= 0) & (labels < 3)).all())
        (True, True)
    """
    who = Who(of_clients, clients, lasting=True)

    def relabel(labels: Tensor, keys: Tensor, classes: int) -> Tensor:
        chance, which = rng.uniform(keys, 2).double().unbind(dim=-1)
        other = (labels + 1 + (which * (classes - 1)).long()) % classes
        return torch.where(chance < share, other, labels)

    return Adversity(who, relabel=relabel, check=partial(who.check, "flip_labels"))

"""Examples at the server, held out of the training set."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from askew.core.bounds import Bounds, Count
from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.population_spec import Combinator
from askew.core.registry import piece
from askew.partition.apportion import even_sizes
from askew.partition.deal import by_class, class_totals, generator


@piece("combinator")
def hold_out(fraction: Annotated[float, Bounds(0, 1, open_low=True, open_high=True)],
             use: Count | None = None) -> Combinator:
    """A fraction of the training examples, as many of each class, stays with the server; the scheme divides the rest.

    Args:
        fraction: of the training examples, held out of the clients' reach.
        use: how many of those held out the server actually gets; None gives it all. The others are set aside, so
            that the clients' part is the same for each number (Zhao's D of 40,000 beside a G of 1,000 to 10,000).

    Example:
        >>> server, rest = hold_out(0.2, use=10).split(Source(np.arange(100) % 10, 10), 0)
        >>> len(server), len(rest)
        (10, 80)

    References:
        Ozdayi et al. 2020, "server-side training" (5%, balanced); Zhao et al. 2018, section 4.2 (H is 20%, G from it).
    """
    return Combinator(split=lambda source, seed: split_off(source, fraction, use, seed))


def split_off(source: Source, fraction: float, use: int | None = None, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the server's examples and of the clients' examples, ascending; arguments as in `hold_out`."""
    examples = len(source.labels)
    number = round(fraction * examples)
    if not 0 < number < examples:
        raise AskewError(f"hold_out: a fraction of {fraction} leaves the server or the clients without any of the "
                         f"{examples} examples; ask for a number between 0 and 1, such as 0.05")
    if use is not None and use > number:
        raise AskewError(f"hold_out: use={use} is more than the {number} examples held out by a fraction of {fraction}")
    draw = generator(seed, "hold_out")
    totals = class_totals(source)
    present = np.flatnonzero(totals)
    wanted = np.zeros(len(totals), np.int64)
    wanted[draw.permutation(present)] = even_sizes(number, len(present))
    if (wanted > totals).any():
        short = int((wanted - totals).argmax())
        raise AskewError(f"hold_out: a balanced {fraction} of the data needs {wanted[short]} examples of class "
                         f"{short}, there are {totals[short]}; ask for at most "
                         f"{len(present) * totals[present].min() / examples:.3g}")
    order = by_class(source.labels, draw)
    rank = np.arange(examples) - np.repeat(np.cumsum(totals) - totals, totals)
    held = np.zeros(examples, bool)
    held[order] = rank < wanted[source.labels[order]]
    used = held
    if use is not None:
        # The first of each class in the same random order, so that a larger G contains a smaller one.
        part = np.zeros(len(totals), np.int64)
        part[np.argsort(-wanted, kind="stable")[: len(present)]] = even_sizes(use, len(present))
        used = np.zeros(examples, bool)
        used[order] = rank < part[source.labels[order]]
    return np.flatnonzero(used), np.flatnonzero(~held)

"""Sizes drawn from a Dirichlet distribution, examples at random: quantity skew alone."""

from __future__ import annotations

import numpy as np

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.core.registry import piece
from askew.partition.deal import check_clients, check_min_examples, population_of

_WORK = 20_000_000  # shares drawn before giving up on min_examples: some seconds


@piece("partition")
def dirichlet_sizes(source: Source, clients: int, beta: float | None = None, min_examples: int = 10,
                    seed: int = 0) -> Population:
    r"""Clients own random examples, and shares $s \sim \mathrm{Dir}_K(\beta \mathbf{1})$ of them.

    Index for index what NIID-Bench draws with `init_seed` = seed: `iid-diff-quantity`, and `homo` where `beta` is None.
    So it takes numpy's legacy stream, as that code does, and no stream of askew's.

    Args:
        source: labels of the examples to divide.
        clients: how many clients.
        beta: concentration, above 0: smaller is less even; None makes sizes equal.
        min_examples: sizes are drawn again until the smallest share is worth so many (10 there).
        seed: of all draws.

    Returns:
        The population; every example is used. A client's examples are in ascending order (there: in drawn order).

    Example:
        >>> dirichlet_sizes(Source(np.zeros(100, np.int64), 1), clients=3, beta=0.5).sizes.tolist()
        [66, 15, 19]

    References:
        Li et al. 2022, "Federated Learning on Non-IID Data Silos: An Experimental Study", section 4.3; `utils.py` of
        its code, NIID-Bench.
    """
    check_clients("dirichlet_sizes", clients, source, by_class=False)
    examples = len(source.labels)
    if beta is not None and not 0 < beta < np.inf:
        raise AskewError(f"dirichlet_sizes: beta={beta} must be above 0; leave sizes equal with beta=None")
    check_min_examples("dirichlet_sizes", min_examples, clients, examples)
    draw = np.random.RandomState(seed % 2**32)  # the legacy stream, which numpy keeps as it is
    order = draw.permutation(examples)
    if beta is None:
        parts = np.array_split(order, clients)
    else:
        for _ in range(tries := min(100_000, max(10, _WORK // clients))):
            shares = draw.dirichlet(np.repeat(beta, clients))
            if np.min(shares * examples) >= min_examples:
                break
        else:
            raise AskewError(f"dirichlet_sizes: no draw in {tries:,} gave every one of {clients} clients "
                             f"min_examples={min_examples} at beta={beta}; ask for a larger beta or fewer clients")
        parts = np.split(order, (np.cumsum(shares) * examples).astype(int)[:-1])
    owned = Ownership.of([np.sort(part) for part in parts])
    return population_of(owned, source, seed, "dirichlet_sizes", clients=clients, beta=beta, min_examples=min_examples)

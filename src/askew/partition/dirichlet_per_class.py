"""Client shares drawn per class from a Dirichlet distribution; unequal sizes."""

from __future__ import annotations

import math

import numpy as np

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.population import Population
from askew.core.registry import piece
from askew.partition.deal import check_clients, check_min_examples, class_totals, deal, generator, population_of

_WORK = 200_000_000  # shares drawn before giving up on min_examples: some seconds


@piece("partition")
def dirichlet_per_class(source: Source, clients: int, alpha: float, min_examples: int = 10, balance: bool = False,
                        seed: int = 0) -> Population:
    r"""Each class is divided among the clients in shares of its own; sizes come out unequal.

    $$s_c \sim \mathrm{Dir}_K(\alpha \mathbf{1}), \qquad n_{k,c} \approx n_c\, s_{c,k}$$

    The other common meaning of "a Dirichlet partition" (Yurochkin et al. 2019; most benchmark suites), where alpha
    also decides how unequal the sizes are. `dirichlet` is the one with a class distribution a client and equal sizes.
    As is customary, the whole draw is repeated until the smallest client has `min_examples`; so small clients are
    rarer than the formula says, and the same alpha means something else for another number of clients.

    Args:
        source: labels of the examples to divide.
        clients: how many clients.
        alpha: concentration, above 0; inf divides every class evenly.
        min_examples: repeat the draw until every client has at least so many (10 is customary).
        balance: a client that already has more than its even share gets nothing of the classes that follow
            (in the code of Yurochkin et al., not in their text).
        seed: of all draws.

    Returns:
        The population; every example is used.

    Example:
        >>> labels = np.arange(1000) % 10
        >>> int(dirichlet_per_class(Source(labels, 10), clients=5, alpha=0.5).sizes.sum())
        1000

    References:
        Yurochkin et al. 2019, "Bayesian Nonparametric Federated Learning of Neural Networks", section 4.
    """
    check_clients("dirichlet_per_class", clients, source)
    if not alpha > 0:
        raise AskewError(f"dirichlet_per_class: alpha={alpha} must be above 0; for one class per client use dirichlet "
                         "with alpha=0")
    check_min_examples("dirichlet_per_class", min_examples, clients, len(source.labels))
    draw = generator(seed, "dirichlet_per_class")
    totals = class_totals(source)
    tries = int(np.clip(_WORK // (clients * len(totals)), 10, 1000))
    for _ in range(tries):
        counts = _draw_counts(totals, clients, alpha, balance, draw)
        if counts.sum(axis=1).min() >= min_examples:
            break
    else:
        raise AskewError(f"dirichlet_per_class: in {tries} draws no population gave each of {clients} clients "
                         f"min_examples={min_examples}; ask for a larger alpha (now {alpha}), fewer clients or a "
                         "smaller min_examples")
    return population_of(deal(counts, source.labels, draw), source, seed, "dirichlet_per_class", clients=clients,
                         alpha=alpha, min_examples=min_examples, balance=balance)


def _draw_counts(totals: np.ndarray, clients: int, alpha: float, balance: bool,
                 draw: np.random.Generator) -> np.ndarray:
    counts = np.zeros((clients, len(totals)), np.int64)
    sizes = np.zeros(clients, np.int64)
    for label in np.flatnonzero(totals):
        shares = np.full(clients, 1.0 / clients) if math.isinf(alpha) else draw.dirichlet(np.full(clients, alpha))
        if balance:
            shares = np.where(sizes > totals.sum() / clients, 0.0, shares)
            shares = shares / shares.sum() if shares.sum() > 0 else np.full(clients, 1.0 / clients)
        # The slack is for sums that fall short of 1 by rounding: a last client without a share must not get the rest.
        bounds = (np.cumsum(shares) * totals[label] + 1e-9).astype(np.int64)
        bounds[-1] = totals[label]
        counts[:, label] = np.diff(bounds, prepend=0)
        sizes += counts[:, label]
    return counts

"""Class shares drawn per client from a Dirichlet distribution; equal sizes."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.population import Population
from askew.core.registry import piece
from askew.partition.apportion import even_sizes, round_systematically
from askew.partition.deal import check_clients, class_totals, deal, generator, population_of

_BLOCK = 4096  # clients computed at once; a class that runs out costs the recomputation of one block
_TINY = 1e-100  # below it alpha is 0 for every purpose, and 1 / alpha would overflow


@piece("partition")
def dirichlet(source: Source, clients: int, alpha: float, examples_per_client: int | None = None,
              prior: Literal["data", "uniform"] = "data", seed: int = 0) -> Population:
    r"""Each client draws its own class distribution and owns equally many examples.

    $$q_k \sim \mathrm{Dir}(\alpha p), \qquad n_{k,c} \approx n\, q_{k,c}$$

    with p the class distribution of the data. `alpha = inf` gives every client p itself, `alpha = 0` one class a
    client, chosen at random with probabilities p. Each example belongs to one client. When a class runs out, q is
    renormalised over the classes left (at alpha = 0, where nothing is left to renormalise, its limit is taken: a
    new class is chosen at random). Clients therefore draw in a random order: no position is special.

    alpha is the total concentration, since p sums to 1: each of C even classes has the parameter alpha / C. Code that
    draws Dir(a, a, ..., a) means alpha = a C. Not to be confused with `dirichlet_per_class`, which draws shares of
    clients for each class, and unequal sizes.

    Args:
        source: labels of the examples to divide.
        clients: how many clients.
        alpha: concentration, 0 to inf; small is skewed.
        examples_per_client: None divides all examples, with sizes that differ by at most one; fewer leave the rest
            with nobody, so that classes seldom run out.
        prior: p is the class distribution of the data, or uniform over the classes present.
        seed: of all draws.

    Returns:
        The population.

    Example:
        >>> one_class = dirichlet(Source(np.arange(100) % 2, 2), clients=10, alpha=0.0)
        >>> (one_class.counts > 0).sum(axis=1).tolist()
        [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]

    References:
        Hsu, Qi and Brown 2019, section 3 (100 clients of 500 images of CIFAR-10, p uniform).
    """
    check_clients("dirichlet", clients, source)
    check_alpha("dirichlet", alpha)
    examples = len(source.labels)
    if examples_per_client is not None and not 1 <= examples_per_client <= examples // clients:
        raise AskewError(f"dirichlet: examples_per_client={examples_per_client} is outside 1..{examples // clients} "
                         f"({examples} examples for {clients} clients)")
    draw = generator(seed, "dirichlet")
    totals = class_totals(source)
    p = totals / examples if prior == "data" else (totals > 0) / (totals > 0).sum()
    sizes = even_sizes(examples, clients) if examples_per_client is None else np.full(clients, examples_per_client)
    drawn = _counts_within_stock(log_shares(clients, alpha, p, draw), sizes, totals, draw.random(clients))
    counts = np.empty_like(drawn)
    counts[draw.permutation(clients)] = drawn
    return population_of(deal(counts, source.labels, draw), source, seed, "dirichlet", clients=clients, alpha=alpha,
                         examples_per_client=examples_per_client, prior=prior)


def check_alpha(scheme: str, alpha: float) -> None:
    """Refuse what is no concentration."""
    if math.isnan(alpha) or alpha < 0:
        raise AskewError(f"{scheme}: alpha={alpha} must be at least 0 (0: one class per client, inf: all alike)")


def log_shares(clients: int, alpha: float, p: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    r"""Logarithms of Dirichlet draws, not normalised: softmax of a row is one draw of $\mathrm{Dir}(\alpha p)$.

    The softmax over a *part* of a row is the draw renormalised over these classes, exact however small alpha is,
    because a Gamma(a) variable is $G U^{1/a}$ with $G$ a Gamma(a + 1) and $U$ uniform: its logarithm never underflows.

    Args:
        clients: number of rows.
        alpha: concentration, 0 and inf included.
        p: the mean of the shares; a class with p = 0 gets none.
        draw: the random stream.

    Returns:
        Table of shape (clients, classes); -inf where p is 0.
    """
    table = np.full((clients, len(p)), -np.inf)
    has = p > 0
    if math.isinf(alpha):
        table[:, has] = np.log(p[has])
    elif alpha < _TINY:
        # One class has all; the next in line only where that one is missing. The order of exponential races with
        # rates p picks each next class with probability proportional to p among those left.
        race = draw.standard_exponential((clients, int(has.sum()))) / p[has]
        table[:, has] = -1e6 * np.argsort(np.argsort(race, axis=1), axis=1)  # exp(-1e6) is 0
    else:
        a = alpha * p[has]
        gamma = draw.standard_gamma(a + 1.0, (clients, len(a)))
        table[:, has] = np.log(gamma) + np.log1p(-draw.random((clients, len(a)))) / a
    return table


def _counts_within_stock(log_q: np.ndarray, sizes: np.ndarray, totals: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Counts per client and class; client after client, none above what is left of its class."""
    clients, classes = log_q.shape
    counts = np.zeros((clients, classes), np.int64)
    stock = totals.astype(np.int64).copy()
    done = 0
    while done < clients:
        block = slice(done, min(done + _BLOCK, clients))
        wanted = round_systematically(_softmax(log_q[block], stock > 0), sizes[block], offsets[block])
        fits = (np.cumsum(wanted, axis=0) <= stock).all(axis=1)
        number = len(wanted) if fits.all() else int(fits.argmin())  # up to the first client that finds a class short
        counts[done : done + number] = wanted[:number]
        stock -= wanted[:number].sum(axis=0)
        done += number
        if number < len(wanted):
            counts[done] = _fill_one(log_q[done], int(sizes[done]), stock, offsets[done])
            stock -= counts[done]
            done += 1
    return counts


def _fill_one(log_q: np.ndarray, size: int, stock: np.ndarray, offset: float) -> np.ndarray:
    """One client's counts when classes run out on it: take what there is, renormalise, take the rest."""
    taken = np.zeros_like(stock)
    while (rest := size - int(taken.sum())) > 0:
        shares = _softmax(log_q[None], stock > taken)
        wanted = round_systematically(shares, np.array([rest]), np.array([offset]))[0]
        taken = np.minimum(taken + wanted, stock)
    return taken


def _softmax(log_q: np.ndarray, available: np.ndarray) -> np.ndarray:
    shares = np.where(available, log_q, -np.inf)
    shares -= shares.max(axis=1, keepdims=True)
    np.exp(shares, out=shares)
    shares /= shares.sum(axis=1, keepdims=True)
    return shares

"""Archetypes that slide from the first label to the last."""

from __future__ import annotations

import math

import numpy as np

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.population import Population
from askew.core.registry import piece
from askew.partition.archetypes import draw_devices
from askew.partition.deal import check_clients


@piece("partition")
def hypergeometric(source: Source, clients: int = 30, successes: list[int] | None = None, examples: int | None = None,
                   validation: float = 0.2, seed: int = 0) -> Population:
    r"""Archetype i has labels distributed as the number of successes among n draws from an urn of N with K_i successes.

    $$q_i(x) \propto \binom{K_i}{x} \binom{N - K_i}{n - x} \Big/ \binom{N}{n}, \qquad x = 0, \dots, n - 1$$

    with n the number of classes C and N = 11 C (10 and 110 in the paper). The count x = n has no label; the
    distribution is cut off there and renormalised over the labels that exist. (The authors' notebook drops these
    draws without a word, which for K = 105 removes 62% of the distribution.) **Devices may own the same example**;
    see `archetypes`, also for validation and test.

    Args:
        source: labels of training and test examples.
        clients: how many devices, a multiple of the number of archetypes.
        successes: K of each archetype; None: C/2 + 2 C i for i = 0 ... 5, which is 5, 25, 45, 65, 85, 105.
        examples: training examples per device; None: an eighth of the training part, or what the most one-sided
            archetype permits (the paper gives no number here).
        validation: fraction of the training set that makes the validation part.
        seed: which examples.

    Returns:
        The population, with `validation`, `test` and `groups` (the archetype).

    Example:
        >>> urn = label_shares(10, 110, 5)
        >>> round(float(urn[0]), 3), int(urn.argmax())
        (0.615, 0)

    References:
        The FedCD paper 2020, section 3.3 and figure 3.
    """
    check_clients("hypergeometric", clients, source)
    classes = source.num_classes
    urn = 11 * classes
    chosen = [round(classes / 2) + 2 * classes * i for i in range(6)] if successes is None else list(successes)
    bad = [k for k in chosen if not 0 <= k < urn]
    if bad or not chosen:
        raise AskewError(f"hypergeometric: successes={successes} must be numbers from 0 to {urn - 1} ({urn} balls in "
                         "the urn)")
    if clients % len(chosen):
        raise AskewError(f"hypergeometric: clients={clients} must be a multiple of the {len(chosen)} archetypes")
    archetype = np.repeat(np.arange(len(chosen)), clients // len(chosen))
    shares = np.stack([label_shares(classes, urn, k) for k in chosen])[archetype]
    return draw_devices("hypergeometric", source, shares, archetype, examples, validation, seed, clients=clients,
                        successes=successes)


def label_shares(draws: int, urn: int, successes: int) -> np.ndarray:
    """Probabilities of 0 ... draws-1 successes, renormalised without the last possible count."""
    ways = [math.comb(successes, x) * math.comb(urn - successes, draws - x) for x in range(draws)]
    return np.array([way / sum(ways) for way in ways])

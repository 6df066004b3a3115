"""From a table of counts to owners: which example goes to whom once it is settled how many of each class go where."""

from __future__ import annotations

from typing import Any

import numpy as np

from askew.core import rng
from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.core.registry import Spec


def generator(seed: int, role: str) -> np.random.Generator:
    """The random stream of one scheme: a function of the seed and the scheme's name, of nothing else."""
    return np.random.Generator(np.random.Philox(rng.int_seed(seed, f"partition/{role}")))


def check_clients(scheme: str, clients: int, source: Source, by_class: bool = True) -> None:
    """Refuse a number of clients that the data cannot give one example each, and data without classes.

    Args:
        by_class: whether the scheme tells examples apart by their classes.
    """
    if by_class and source.targets != "classes":
        raise AskewError(f"{scheme}: it divides examples by their classes, and these data have {source.targets} to "
                         "learn instead; use iid, power_law, natural or pooled")
    if clients < 1:
        raise AskewError(f"{scheme}: clients must be at least 1, not {clients}")
    if clients > len(source.labels):
        raise AskewError(f"{scheme}: clients={clients} but there are only {len(source.labels)} examples; "
                         f"ask for at most {len(source.labels)} clients")


def check_min_examples(scheme: str, min_examples: int, clients: int, examples: int) -> None:
    """Refuse a least number that not all clients can have."""
    if not 1 <= min_examples <= examples // clients:
        raise AskewError(f"{scheme}: min_examples={min_examples} is outside 1..{examples // clients} "
                         f"({examples} examples for {clients} clients); change min_examples or clients")


def check_classes(scheme: str, classes: int, totals: np.ndarray) -> None:
    """Refuse a number of classes per client that the data do not have."""
    present = int((totals > 0).sum())
    if not 1 <= classes <= present:
        raise AskewError(f"{scheme}: classes={classes} but the data have {present} classes; ask for 1 to {present}")


def class_totals(source: Source) -> np.ndarray:
    """Examples of each class, zeros included."""
    return np.bincount(source.labels, minlength=source.num_classes)


def by_class(labels: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Example indices sorted by label, in random order within a label."""
    shuffled = draw.permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


def deal(counts: np.ndarray, labels: np.ndarray, draw: np.random.Generator) -> Ownership:
    r"""Give each client the asked number of examples of each class, chosen at random, each example at most once.

    Args:
        counts: examples per client and class; no column may sum to more than the class has.
        labels: of all examples.
        draw: decides which examples.

    Returns:
        Who owns what; a client's indices are in ascending order.

    Example:
        >>> owned = deal(np.array([[2, 0], [0, 1]]), np.array([0, 1, 0]), np.random.default_rng(0))
        >>> owned[0].tolist(), owned[1].tolist()
        ([0, 2], [1])
    """
    clients, classes = counts.shape
    totals = np.bincount(labels, minlength=classes)
    asked = counts.sum(axis=0)
    assert (asked <= totals).all(), "a scheme asked for more examples of a class than there are"
    starts = np.concatenate([[0], np.cumsum(totals)])
    order = by_class(labels, draw)
    taken = np.concatenate([order[starts[c] : starts[c] + asked[c]] for c in range(classes)])
    owner = np.full(len(labels), -1, np.int64)
    owner[taken] = np.repeat(np.tile(np.arange(clients), classes), counts.T.ravel())
    return Ownership.by_owner(owner, clients)


def parted(owned: Ownership, wanted: np.ndarray, draw: np.random.Generator) -> tuple[Ownership, Ownership]:
    """Of client k's examples `wanted[k]`, chosen at random, and the others; both in the order they had.

    Example:
        >>> some, others = parted(Ownership.of([[4, 5, 6], [7, 8]]), np.array([2, 1]), np.random.default_rng(0))
        >>> some.sizes.tolist(), others.sizes.tolist()
        ([2, 1], [1, 1])
    """
    owner = np.repeat(np.arange(len(owned)), owned.sizes)
    order = np.lexsort((draw.random(len(owner)), owner))  # by client, within a client at random
    rank = np.arange(len(order)) - owned.offsets[owner[order]]
    chosen = np.zeros(len(order), bool)
    chosen[order] = rank < wanted[owner[order]]

    def part(mask: np.ndarray) -> Ownership:
        sizes = np.bincount(owner[mask], minlength=len(owned))
        return Ownership(owned.indices[mask], np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    return part(chosen), part(~chosen)


def population_of(owned: Ownership, source: Source, seed: int, scheme: str, **args: Any) -> Population:
    """The population, with counts, and the call it came from as a recipe writes it (arguments at None left out).

    Example:
        >>> source = Source(np.array([0]), 2)
        >>> population_of(Ownership.of([[0]]), source, 0, "natural", clients=None, min_examples=1).scheme
        'natural(min_examples=1)'
    """
    call = Spec(scheme, {key: value for key, value in args.items() if value is not None})
    return Population.of(owned, source.labels, source.num_classes, scheme=str(call), seed=seed)

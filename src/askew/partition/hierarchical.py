"""Archetypes within meta-archetypes: a favourite label, and others of the same group only."""

from __future__ import annotations

import numpy as np

from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.population import Population
from askew.core.registry import piece
from askew.partition.apportion import even_sizes
from askew.partition.archetypes import draw_devices
from askew.partition.deal import check_clients, generator


@piece("partition")
def hierarchical(source: Source, clients: int = 30, meta_archetypes: int = 2, low: float = 0.6, high: float = 0.7,
                 examples: int | None = None, validation: float = 0.2, seed: int = 0) -> Population:
    r"""One archetype a label: a fraction b of a device's examples has it, the rest is spread over its group.

    $$b \sim U(low, high), \quad q(a) = b, \quad q(c) = \frac{1 - b}{|M| - 1} \text{ for the other labels } c \in M$$

    Groups (meta-archetypes) are contiguous blocks of labels: 0-4 and 5-9. Devices come by archetype: with 30, devices
    0-2 favour label 0. **Devices may own the same example**; see `archetypes`, also for validation and test.

    Args:
        source: labels of training and test examples.
        clients: how many devices, a multiple of the number of classes.
        meta_archetypes: how many groups of labels.
        low: smallest bias b. The paper also uses fixed biases: give `low` and `high` the same value.
        high: largest bias b; drawn for each device.
        examples: training examples per device; None: an eighth of the training part, 5,000 for CIFAR-10.
        validation: fraction of the training set that makes the validation part.
        seed: of biases and examples.

    Returns:
        The population, with `validation`, `test` and `groups` (the archetype, which is the favourite label).

    Example:
        >>> labels = np.arange(4000) % 4
        >>> hierarchical(Source(labels, 4), clients=4, low=0.7, high=0.7, examples=100).counts.tolist()
        [[70, 30, 0, 0], [30, 70, 0, 0], [0, 0, 70, 30], [0, 0, 30, 70]]

    References:
        The FedCD paper 2020, section 3.2.
    """
    check_clients("hierarchical", clients, source)
    classes = source.num_classes
    if clients % classes:
        raise AskewError(f"hierarchical: clients={clients} must be a multiple of the {classes} archetypes, one for "
                         "each class")
    if not 1 <= meta_archetypes <= classes // 2:
        raise AskewError(f"hierarchical: meta_archetypes={meta_archetypes} is outside 1..{classes // 2}: a group needs "
                         f"two of the {classes} classes")
    if not 0 <= low <= high <= 1:
        raise AskewError(f"hierarchical: the bias runs from low={low} to high={high}; 0 <= low <= high <= 1 must hold")
    archetype = np.repeat(np.arange(classes), clients // classes)
    meta = np.repeat(np.arange(meta_archetypes), even_sizes(classes, meta_archetypes))
    bias = generator(seed, "hierarchical/bias").uniform(low, high, clients)
    mates = (meta[archetype][:, None] == meta[None, :]).astype(float)
    mates[np.arange(clients), archetype] = 0.0
    shares = mates / mates.sum(axis=1, keepdims=True) * (1 - bias)[:, None]
    shares[np.arange(clients), archetype] = bias
    return draw_devices("hierarchical", source, shares, archetype, examples, validation, seed, clients=clients,
                        meta_archetypes=meta_archetypes, low=low, high=high)

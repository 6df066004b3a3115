"""Examples with wrong labels, beside those they are copies of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from askew.core import rng
from askew.core.adversity import Adversity, AdversityContext
from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.core.recipe import Recipe


def mislabelled(recipe: Recipe, adversities: Sequence[Adversity], population: Population,
                data: Dataset) -> tuple[Population, Examples]:
    """The population, and the examples that its clients train on.

    What a client has mislabelled is a copy behind the training examples, to which the client's index now points:
    whoever else has the example, and whoever looks into the data themselves, sees the true label.
    """
    relabelling = [(at, adversity) for at, adversity in enumerate(adversities) if adversity.relabel]
    if not relabelling:
        return population, data.train
    if data.targets != "classes" or data.num_classes < 2:
        spec = relabelling[0][1].spec
        has = f"{data.num_classes} of them" if data.targets == "classes" else data.targets
        raise AskewError(f"adversity: {spec.name if spec else 'it'} exchanges classes, and {data.name} has {has}; "
                         "leave it out")
    train = population.train
    owner = torch.from_numpy(np.repeat(np.arange(len(train)), train.sizes))
    index = torch.from_numpy(train.indices)
    true = data.train.y.cpu()[index]
    labels = true
    for at, adversity in relabelling:
        assert adversity.relabel is not None
        ctx = AdversityContext.of(recipe, population, at)
        keys = rng.fold(rng.fold(ctx.lasting_key, owner), index)
        new = adversity.relabel(labels, keys, data.num_classes)
        fits = isinstance(new, torch.Tensor) and new.shape == labels.shape
        if not fits or not 0 <= int(new.min()) <= int(new.max()) < data.num_classes:
            raise AskewError(f"adversity {adversity.name}: relabel must give one class in 0..{data.num_classes - 1} "
                             "for each of the labels that it was given")
        labels = torch.where(adversity.strikes(ctx)[owner], new, labels)
    wrong = (labels != true).nonzero().flatten()
    x, y = data.train.x, data.train.y
    examples = Examples(torch.cat([x, x[index[wrong].to(x.device)]]), torch.cat([y, labels[wrong].to(y.device)]))
    pointed = train.indices.copy()
    pointed[wrong.numpy()] = len(data.train) + np.arange(len(wrong))
    return replace(population, train=Ownership(pointed, train.offsets)), examples

"""A workload of askew as a `Federation` that any library can train on: the same clients, batches and start weights."""

from __future__ import annotations

import torch
from contestant import Federation
from workloads import Workload

from askew.core import rng
from askew.engine.build import build_task
from askew.engine.local import batches
from askew.engine.sample import sample


def lay_out(work: Workload, rounds: int) -> Federation:
    """Write down what askew's recipe draws in its first rounds.

    Args:
        work: a workload whose recipe is federated averaging with plain SGD over one local epoch, on clients of equal
            size: what all contestants can do alike.
        rounds: how many.
    """
    task = build_task(work.recipe, data=work.data)
    recipe = task.recipe
    sizes = set(task.population.sizes.tolist())
    lr = recipe.client[0].args.get("lr", 0.1)
    assert [str(spec) for spec in recipe.client] == [f"sgd(lr={lr})"], recipe.client
    assert [str(spec) for spec in recipe.server] == ["mean()"], recipe.server
    assert len(sizes) == 1, f"clients own {sorted(sizes)} examples"
    assert recipe.epochs == 1
    clients, orders = [], []
    for number in range(rounds):
        clients.append(sample(task, number))
        streams = [rng.key(recipe.seed, "client", number, client) for client in clients[-1]]
        orders.append(torch.stack([torch.cat(list(batches(task.indices_of(client), 1, recipe.batch_size, stream)))
                                   for client, stream in zip(clients[-1], streams, strict=True)]))
    x = task.prepare.apply(task.data.train.x, None)
    return Federation(work.name, task.module, x, task.data.train.y, task.num_clients, torch.tensor(clients),
                      torch.stack(orders), recipe.batch_size or sizes.pop(), lr)

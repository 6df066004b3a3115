"""The median of updates: by hand, against numpy, whatever order and chunks clients come in."""

import numpy as np
import pytest
import torch

import askew
from askew.core.by_hand import server_update
from askew.core.cohort import Cohort
from askew.core.statistic import Senders
from askew.pieces.methods import fedavg
from askew.pieces.methods import median as by_median
from askew.pieces.server import median
from askew.pieces.statistic import Everything


def test_by_hand():
    assert server_update(median(), [(1, 5), (2, 6), (99, -7)]).tolist() == [2.0, 5.0]
    # Between 2 and 4, between 0 and 5.
    assert server_update(median(), [(1, 5), (2, 6), (99, -7), (4, 0)]).tolist() == [3.0, 2.5]
    assert server_update(median(), [(7, 8)]).tolist() == [7.0, 8.0]


@pytest.mark.parametrize("clients", [1, 2, 3, 4, 9, 10])
def test_it_is_numpys(clients):
    updates = torch.randn(clients, 6, generator=torch.Generator().manual_seed(clients))
    np.testing.assert_allclose(server_update(median(), updates.tolist()), np.median(updates.numpy(), axis=0), rtol=1e-6)


def test_sizes_do_not_count():
    assert server_update(median(), [(1,), (2,), (9,)], examples=[1, 1, 1000]).tolist() == [2.0]


def test_order_and_chunks_do_not_show():
    updates = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))

    def add(cohort, clients):
        ones = torch.ones(len(clients))
        cohort.add({"update": {"w": updates[clients]}}, Senders(clients, ones, ones, ones, ones), ones)

    cohort, part = Cohort({"w": updates[0]}, [Everything()]), Cohort({"w": updates[0]}, [Everything()])
    add(cohort, [3])
    add(cohort, [4, 0])
    add(part, [2, 1])
    cohort.merge(part)
    assert torch.equal(cohort[Everything()]["w"], updates)


def test_one_client_that_lies_does_not_carry_the_model_away():
    """Of five clients one has a rate of 100 times the others' (its updates are scaled): the mean goes with it."""

    @askew.piece("client")
    def client_three_lies() -> askew.ClientPiece:
        def end(message, state, kept, ctx):
            factor = torch.where(torch.as_tensor(ctx.client) == 3, 100.0, 1.0)
            return {**message, "update": {name: factor * u for name, u in message["update"].items()}}, kept

        return askew.ClientPiece(end=end)

    recipe = askew.Recipe(population="iid(clients=5)", rounds=3, model="mlp(hidden=[8])",
                          client=["sgd(0.1)", "client_three_lies()"])
    start = askew.run(recipe.replace(rounds=1, client=["sgd(0.0)"])).model
    models = [askew.run(method(recipe)).model for method in (fedavg, by_median)]
    far, near = (float(sum((model[name] - v).norm() for name, v in start.items())) for model in models)
    assert far > 10 * near

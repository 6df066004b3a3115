"""A federation that is no different from one machine gives what one machine gives (zhao2018, section 2.1)."""

import pytest
import torch

import askew
from askew.pieces.methods import centralised, fedavg


@pytest.mark.parametrize("batch_size", [0, 200])
@pytest.mark.parametrize("population", ["iid(clients=8)", "shards(clients=8, shards_per_client=2)"])
def test_one_step_a_round_equals_sgd_with_the_batch_k_times_larger(batch_size, population):
    """With one full-batch step each, the weighted mean of the clients' gradients is the gradient of the whole, however
    skewed the clients are. 200 is more than any client has."""
    base = askew.Recipe(population=population, batch_size=batch_size, rounds=5,
                        client=["sgd(lr=0.5, weight_decay=0.01)"])
    one_machine = centralised(base)
    assert one_machine.batch_size == 8 * batch_size
    many, one = askew.run(fedavg(base)), askew.run(one_machine)
    for name, v in one.model.items():
        torch.testing.assert_close(many.model[name], v, atol=1e-5, rtol=0)
    assert [r["accuracy"] for r in many.records] == [r["accuracy"] for r in one.records]
    assert one.records[-1]["loss"] < one.records[0]["loss"] - 0.1


def test_several_local_steps_are_another_thing():
    base = askew.Recipe(population="iid(clients=8)", batch_size=0, rounds=5, epochs=2)
    many, one = askew.run(fedavg(base)), askew.run(centralised(base.replace(epochs=1)))
    assert not torch.allclose(many.model["fc1.weight"], one.model["fc1.weight"], atol=1e-4)


def test_the_batch_stays_where_only_the_data_know_how_many_clients_there_are():
    base = askew.Recipe(population="natural()", batch_size=7)
    assert centralised(base).batch_size == 7
    assert centralised(base.replace(population="iid(clients=6)")).batch_size == 42

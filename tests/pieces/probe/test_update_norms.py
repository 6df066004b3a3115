"""N and E by hand, and what theory says of them on the digits."""

import pytest
import torch

import askew
from askew.core.errors import AskewError
from askew.pieces.probe import update_norms


def test_two_clients_by_hand(pencil):
    """conv: (3, 4) and (3, -4), mean (3, 0); fc: (0, 0) and (0, 2), mean (0, 1). The server moves by (6, 8, 0, 0)."""
    probe = update_norms()
    round = pencil.round([(3, 4, 0, 0), (3, -4, 0, 2)], before=(1, 1, 1, 1), after=(7, 9, 1, 1))
    values, state = probe.read(pencil.ctx, round, probe.init(pencil.ctx), None)
    assert values == pytest.approx({
        "N conv": 3, "E conv": 5, "N/E conv": 0.6, "server_step conv": 10, "integral_N conv": 10,
        "N fc": 1, "E fc": 1, "N/E fc": 1, "server_step fc": 0, "integral_N fc": 0,
        "N": 10**0.5, "E": (5 + 29**0.5) / 2, "N/E": 10**0.5 * 2 / (5 + 29**0.5), "server_step": 10, "integral_N": 10})
    assert all(type(v) is float for v in values.values())
    # A second round that steps by (0, 0, 3, 4): the integrals are sums of lengths, not the length of a sum.
    round = pencil.round([(1, 0, 0, 0)], before=(7, 9, 1, 1), after=(7, 9, 4, 5))
    values, _ = probe.read(pencil.ctx, round, state, None)
    assert (values["integral_N"], values["integral_N conv"], values["integral_N fc"]) == (15, 10, 5)


def test_weights_are_those_of_the_average(pencil):
    """Weights 1 and 3: mean of (4, 0) and (0, 4) is (1, 3), N = sqrt(10); E = 4."""
    round = pencil.round([(4, 0, 0, 0), (0, 4, 0, 0)], weights=[1.0, 3.0])
    values, _ = update_norms().read(pencil.ctx, round, {}, None)
    assert (values["N"], values["E"]) == pytest.approx((10**0.5, 4))


def test_the_ratio_is_none_where_nobody_moved(pencil):
    values, _ = update_norms().read(pencil.ctx, pencil.round([(1, 0, 0, 0), (1, 0, 0, 0)]), {}, None)
    assert values["N/E fc"] is None
    assert values["N/E conv"] == 1


def test_layers(pencil):
    values, _ = update_norms(per="layer").read(pencil.ctx, pencil.round([(3, 4, 0, 0)]), {}, None)
    assert values["N conv"] == 5  # the layer that is called so
    with pytest.raises(AskewError, match="per must be 'group' or 'layer', not 'model'"):
        update_norms(per="model")


def ratios(population, **changes):
    recipe = askew.Recipe(population=population, model="small_cnn()", rounds=4, probes=["update_norms()"], **changes)
    records = askew.run(recipe).records
    for record in records:
        for part in ("", " conv", " fc"):
            assert 0 < record[f"N{part}"] <= record[f"E{part}"] * (1 + 1e-6)  # fednnnn2020, proposition 1
            assert record[f"N/E{part}"] == pytest.approx(record[f"N{part}"] / record[f"E{part}"])
    return records


def test_skewed_clients_cancel_each_other_out():
    iid = ratios("iid(clients=10)")
    skewed = ratios("classes_per_client(clients=10, classes=1)")
    assert all(a["N/E"] > 1.5 * b["N/E"] for a, b in zip(iid, skewed, strict=True))


def test_one_client_has_n_equal_to_e():
    for record in ratios("pooled()", batch_size=100):
        assert record["N/E"] == pytest.approx(1, abs=1e-6)


def test_under_fedavg_the_step_is_n_and_under_norm_norm_it_is_e():
    """fednnnn2020, eq. (9): the normalised step has length beta E."""
    for record in ratios("shards(clients=10, shards_per_client=2)"):
        assert record["server_step"] == pytest.approx(record["N"], rel=1e-4)
    normed = ratios("shards(clients=10, shards_per_client=2)", server=["mean()", "rescale_to_mean_norm(beta=0.7)"])
    total = 0.0
    for record in normed:
        assert record["server_step"] == pytest.approx(0.7 * record["E"], rel=1e-4)
        total += record["server_step"]
        assert record["integral_N"] == pytest.approx(total, rel=1e-6)


def test_a_model_that_moves_in_one_line_has_an_integral_of_its_distance():
    """Full batches and a tiny rate: every step has nearly the gradient's direction at the start."""
    recipe = askew.Recipe(population="pooled()", batch_size=0, client=["sgd(lr=0.001)"], rounds=3,
                          probes=["update_norms()"])
    result = askew.run(recipe)
    start, end = askew.run(recipe.replace(client=["sgd(lr=0)"], probes=[])).model, result.model
    distance = torch.stack([(end[name] - start[name]).square().sum() for name in end]).sum().sqrt().item()
    assert result.records[-1]["integral_N"] == pytest.approx(distance, rel=1e-3)

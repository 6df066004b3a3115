"""Updates of bounded length: by hand, and against torch's clip_grad_norm_."""

import pytest
import torch

import askew
from askew.core.by_hand import client_context, client_message
from askew.pieces.client import clip_update
from askew.pieces.methods import dp_fedavg, fedavg


@pytest.mark.parametrize(("update", "sent"),
                         [((6.0, 8.0), (3.0, 4.0)), ((0.6, 0.8), (0.6, 0.8)), ((0.0, 0.0), (0.0, 0.0)),
                          ((3.0, -4.0), (3.0, -4.0))])
def test_by_hand(update, sent):
    """Length 5: norms 10, 1, 0 and exactly 5."""
    assert client_message(clip_update(5.0), update)["update"]["w"].tolist() == pytest.approx(sent)


def test_the_norm_is_over_all_tensors_and_torchs():
    generator = torch.Generator().manual_seed(0)
    update = {"a": torch.randn(4, 3, generator=generator), "b": torch.randn(5, generator=generator)}
    weights = [torch.nn.Parameter(torch.zeros_like(v)) for v in update.values()]
    for p, v in zip(weights, update.values(), strict=True):
        p.grad = v.clone()
    torch.nn.utils.clip_grad_norm_(weights, 0.7)
    message, _ = clip_update(0.7).end({"update": update, "buffers": {}}, (), (), client_context([0.0]))
    for p, v in zip(weights, message["update"].values(), strict=True):
        torch.testing.assert_close(v, p.grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_no_client_moves_the_mean_by_more_than_the_length(engine):
    recipe = askew.Recipe(population="power_law(clients=4, exponent=1.0, min_examples=20)", rounds=2, batch_size=32,
                          model="mlp(hidden=[8])", probes=["update_norms()"])
    free, bound = (askew.run(r, engine=engine).records
                   for r in (fedavg(recipe), dp_fedavg(recipe, noise=0.0, length=0.05)))
    longest = next(key for key in free[0] if "mean_norm" in key or key.endswith("E"))
    assert free[0][longest] > 0.1
    assert all(record[longest] <= 0.05 * (1 + 1e-5) for record in bound)

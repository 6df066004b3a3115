"""On a GPU: the same result as the reference, the same bits twice. Skipped where there is none."""

import pytest
import torch

from askew.core.recipe import Recipe
from askew.recipes.methods import fedcd, fednnnn, fedprox, projected, server_training
from askew.simulate.loop import Simulation
from askew.simulate.sequential import Sequential
from askew.simulate.task import build_task
from askew.simulate.vectorised import Vectorised

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

BASE = Recipe(population="dirichlet_per_class(clients=8, alpha=0.5)", batch_size=7, epochs=2)
RECIPES = {
    "equal sizes": BASE.replace(population="iid(clients=8)"),
    "unequal sizes": BASE,
    "all of sgd": BASE.replace(step="sgd(lr=0.1, momentum=0.9, weight_decay=0.01, lr_decay=0.9)"),
    "augmented": BASE.replace(preprocess=["random_crop(padding=1)", "random_flip()", "normalise()"], model="small_cnn()"),
    "fedprox": fedprox(BASE, mu=0.1),
    "projected": projected(BASE, radius=6.0, noise=0.01),
    "fednnnn": fednnnn(BASE),
    "server training": server_training(BASE),
    "fedcd": fedcd(BASE, milestones=[1, 2]),
    "quantised": BASE.replace(upload="quantize(8)"),
}


def trained(recipe, device, engine, rounds=3, **options):
    task = build_task(recipe, device=device)
    simulation = Simulation(task, engine(task, **options))
    for _ in range(rounds):
        simulation.advance()
    return {name: v.cpu() for name, v in simulation.view().params.items()}


def relative(a, b):
    return float((sum(((a[k] - b[k]) ** 2).sum() for k in a) / sum((a[k] ** 2).sum() for k in a)).sqrt())


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("compiled", [False, True])
def test_the_graphed_engine_equals_the_reference(name, compiled):
    reference = trained(RECIPES[name], "cpu", Sequential)
    assert relative(reference, trained(RECIPES[name], "cuda", Vectorised, compiled=compiled)) < 1e-4


def test_same_seed_same_bits():
    first, second = (trained(RECIPES["augmented"], "cuda", Vectorised, precision="bf16") for _ in range(2))
    assert all(torch.equal(first[k], second[k]) for k in first)


@pytest.mark.parametrize("shape", [(3, 2, 3, 9, 9, 8, 3, 1), (5, 4, 32, 16, 16, 64, 3, 1), (2, 3, 1, 12, 10, 20, 5, 0),
                                   (4, 10, 64, 8, 8, 64, 5, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_per_client_convolution_equals_one_convolution_a_client(shape, dtype):
    """Forward and all three gradients against `F.conv2d` in float64, client by client."""
    import torch.nn.functional as F

    from askew.simulate.client_conv import client_conv2d

    clients, batch, channels, height, width, outputs, taps, padding = shape
    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(clients * batch, channels, height, width, device="cuda", generator=generator).to(dtype).requires_grad_()
    w = (torch.randn(clients, outputs, channels, taps, taps, device="cuda", generator=generator) / taps / channels**0.5).requires_grad_()
    b = torch.randn(clients, outputs, device="cuda", generator=generator).requires_grad_()
    torch.backends.cudnn.allow_tf32 = False
    y = client_conv2d(x, w, b, (1, 1), (padding, padding), (1, 1))
    dy = torch.randn(y.shape, device="cuda", generator=generator).to(dtype)
    got = [y, *torch.autograd.grad(y, [x, w, b], dy)]
    double = [t.detach().double().requires_grad_() for t in (x, w, b)]
    parts = [F.conv2d(double[0].unflatten(0, (clients, batch))[k], double[1][k], double[2][k], padding=padding) for k in range(clients)]
    expected_y = torch.cat(parts)
    expected = [expected_y, *torch.autograd.grad(expected_y, double, dy.double())]
    for ours, theirs in zip(got, expected, strict=True):
        error = (ours.double() - theirs).norm() / theirs.norm()
        assert error < (1e-5 if dtype == torch.float32 else 1e-2), float(error)

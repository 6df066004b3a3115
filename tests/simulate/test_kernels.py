"""Kernels of our own against torch, on a GPU. Skipped where there is none."""

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


@pytest.fixture(autouse=True)
def full_precision(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.mark.parametrize("shape", [(3, 2, 3, 9, 9, 8, 3, 1, 1), (5, 4, 32, 16, 16, 64, 3, 1, 1), (2, 3, 1, 12, 10, 20, 5, 0, 1),
                                   (4, 10, 64, 8, 8, 64, 5, 2, 1), (3, 2, 3, 9, 8, 8, 3, 1, 2), (4, 5, 32, 16, 16, 64, 3, 1, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_per_client_convolution_equals_one_convolution_a_client(shape, dtype):
    """Forward and all three gradients against `F.conv2d` in float64, client by client."""
    import torch.nn.functional as F

    from askew.simulate.client_conv import client_conv2d

    clients, batch, channels, height, width, outputs, taps, padding, stride = shape
    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(clients * batch, channels, height, width, device="cuda", generator=generator).to(dtype).requires_grad_()
    w = (torch.randn(clients, outputs, channels, taps, taps, device="cuda", generator=generator) / taps / channels**0.5).requires_grad_()
    b = torch.randn(clients, outputs, device="cuda", generator=generator).requires_grad_()
    y = client_conv2d(x, w, b, (stride, stride), (padding, padding), (1, 1))
    dy = torch.randn(y.shape, device="cuda", generator=generator).to(dtype)
    got = [y, *torch.autograd.grad(y, [x, w, b], dy)]
    double = [t.detach().double().requires_grad_() for t in (x, w, b)]
    parts = [F.conv2d(double[0].unflatten(0, (clients, batch))[k], double[1][k], double[2][k], stride, padding) for k in range(clients)]
    expected_y = torch.cat(parts)
    expected = [expected_y, *torch.autograd.grad(expected_y, double, dy.double())]
    for ours, theirs in zip(got, expected, strict=True):
        error = (ours.double() - theirs).norm() / theirs.norm()
        assert error < (1e-5 if dtype == torch.float32 else 1e-2), float(error)


@pytest.mark.parametrize(("channels", "size", "alpha"), [(64, 9, 0.001), (20, 5, 2.0), (10, 4, 1.0)])
@pytest.mark.parametrize("rectify", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_local_response_normalisation_equals_torch(channels, size, alpha, rectify, dtype):
    import torch.nn.functional as F

    from askew.simulate.lrn_kernels import local_response_norm

    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(7, channels, 9, 11, device="cuda", generator=generator).to(dtype).contiguous(memory_format=torch.channels_last)
    dy = torch.randn(x.shape, device="cuda", generator=generator).to(dtype)
    y = local_response_norm(x.requires_grad_(), size, alpha, 0.75, 1.0, rectify)
    double = x.detach().double().requires_grad_()
    expected = F.local_response_norm(F.relu(double) if rectify else double, size, alpha, 0.75, 1.0)
    got = [y, *torch.autograd.grad(y, x, dy)]
    for ours, theirs in zip(got, [expected, *torch.autograd.grad(expected, double, dy.double())], strict=True):
        error = (ours.double() - theirs).norm() / theirs.norm()
        assert error < (1e-5 if dtype == torch.float32 else 1e-2), float(error)


@pytest.mark.parametrize(("channels", "size", "window", "padding", "ceil"), [
    (64, 24, 3, 1, False), (64, 24, 3, 0, True), (5, 9, 3, 0, True), (70, 10, 2, 0, False), (16, 11, 5, 2, True), (32, 7, 2, 1, True)])
@pytest.mark.parametrize("rectify", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_max_pooling_equals_torch(channels, size, window, padding, ceil, rectify, dtype):
    """Whole numbers, so that many values are equal: the first of them takes the gradient."""
    import torch.nn.functional as F

    from askew.simulate.pool_kernels import max_pool2d

    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randint(-3, 4, (6, channels, size, size), device="cuda", generator=generator).to(dtype)
    x = x.contiguous(memory_format=torch.channels_last).requires_grad_()
    y = max_pool2d(x, (window,) * 2, (padding,) * 2, ceil, rectify)
    expected = F.max_pool2d(x, window, 2, padding, ceil_mode=ceil)
    expected = F.relu(expected) if rectify else expected
    assert torch.equal(y, expected)
    dy = torch.randint(-3, 4, y.shape, device="cuda", generator=generator).to(dtype)  # sums of these are exact
    assert torch.equal(torch.autograd.grad(y, x, dy)[0], torch.autograd.grad(expected, x, dy)[0])


@pytest.mark.parametrize("shape", [(3, 4, 5, 6, 7), (2, 50, 32, 16, 16), (2, 3, 130, 2, 2)])
def test_batch_norm_sums_equal_torch(shape):
    """A mean far from 0, where a plain sum of squares would lose the variance."""
    from askew.simulate.batch_norm_kernels import gradient_sums, var_mean

    clients, batch, channels, height, width = shape
    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(clients * batch, channels, height, width, device="cuda", generator=generator) * 2 + 300
    x = x.contiguous(memory_format=torch.channels_last).unflatten(0, (clients, batch))
    dy = torch.randn(shape, device="cuda", generator=generator)
    real = torch.full((clients,), batch, device="cuda")
    var, mean = var_mean(x, real)
    expected_var, expected_mean = torch.var_mean(x.double(), dim=(1, 3, 4), correction=0)
    torch.testing.assert_close(var.double(), expected_var, rtol=1e-4, atol=0)
    torch.testing.assert_close(mean.double(), expected_mean, rtol=1e-6, atol=0)
    real[0] -= 1  # the last example of the first client is padding
    fewer_var, fewer_mean = torch.var_mean(x[0, :-1].double(), dim=(0, 2, 3), correction=0)
    torch.testing.assert_close(var_mean(x, real)[0][0].double(), fewer_var, rtol=1e-4, atol=0)
    torch.testing.assert_close(var_mean(x, real)[1][0].double(), fewer_mean, rtol=1e-6, atol=0)
    dbias, dweight = gradient_sums(x, dy, mean, var.rsqrt())
    view = (clients, 1, channels, 1, 1)
    normal = (x.double() - expected_mean.view(view)) / expected_var.sqrt().view(view)
    torch.testing.assert_close(dbias.double(), dy.double().sum(dim=(1, 3, 4)), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(dweight.double(), (dy * normal).sum(dim=(1, 3, 4)), rtol=1e-3, atol=1e-2)


def test_random_streams_are_the_same_on_every_device():
    from askew.core import rng

    keys = rng.fold(rng.key(5, "client"), torch.arange(40).view(5, 8))
    there = keys.cuda()
    assert torch.equal(rng.bits(there, 300).cpu(), rng.bits(keys, 300))
    assert torch.equal(rng.fold(there.t(), torch.arange(5, device="cuda")).cpu(), rng.fold(keys.t(), torch.arange(5)))
    assert torch.equal(torch.func.vmap(lambda k: rng.permutation(k, 9))(there).cpu(), rng.permutation(keys, 9))

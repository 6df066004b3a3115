"""Kernels of our own against torch, forward and gradients: natively on a GPU, under Triton's interpreter on a CPU."""

import pytest
import torch
import torch.nn.functional as F
from conform.forms import LONG


def shapes(*small, large=()):
    """Large ones are left out, not skipped, where there is no GPU."""
    return [*small, *(large if torch.cuda.is_available() else ())]


def typed(*small, large=()):
    """(type, shape): all in fp32; in bf16, where there is no GPU, the first two, but in the long run: what a type may
    change is the same for all of them, and the interpreter takes half a second for each."""
    every = shapes(*small, large=large)
    low = every if LONG or torch.cuda.is_available() else every[:2]
    return [*((torch.float32, shape) for shape in every), *((torch.bfloat16, shape) for shape in low)]


# clients, batch, channels, height, width, outputs, taps, padding, stride
@pytest.mark.parametrize(("dtype", "shape"), typed(
    (3, 2, 3, 9, 9, 8, 3, 1, 1), (3, 2, 3, 9, 8, 8, 3, 1, 2), (2, 3, 1, 12, 10, 20, 5, 0, 1),
    (2, 2, 17, 5, 6, 33, 3, 1, 1), (1, 3, 4, 4, 4, 5, 1, 0, 1), (2, 1, 2, 7, 7, 3, 3, 2, 2),
    (2, 4, 2, 16, 16, 3, 3, 1, 1),
    large=[(5, 4, 32, 16, 16, 64, 3, 1, 1), (4, 10, 64, 8, 8, 64, 5, 2, 1), (4, 5, 32, 16, 16, 64, 3, 1, 2)]))
def test_the_per_client_convolution_equals_one_convolution_a_client(shape, dtype, device):
    """Forward and all three gradients against `F.conv2d` in float64, client by client."""
    from askew.engine.kernels.conv import KERNEL_ORDER, implicit_gemm_conv

    clients, batch, channels, height, width, outputs, taps, padding, stride = shape
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randn(clients * batch, channels, height, width, device=device, generator=generator)
    x = x.to(dtype).requires_grad_()
    w = (torch.randn(clients, outputs, channels, taps, taps, device=device, generator=generator) / taps
         / channels**0.5).requires_grad_()
    b = torch.randn(clients, outputs, device=device, generator=generator).requires_grad_()
    flat = w.to(dtype).permute(KERNEL_ORDER).contiguous()
    y = implicit_gemm_conv(x.contiguous(memory_format=torch.channels_last), flat, b, [stride] * 2, [padding] * 2)
    dy = torch.randn(y.shape, device=device, generator=generator).to(dtype)
    got = [y, *torch.autograd.grad(y, [x, w, b], dy)]
    double = [t.detach().double().requires_grad_() for t in (x, w, b)]
    parts = [F.conv2d(double[0].unflatten(0, (clients, batch))[k], double[1][k], double[2][k], stride, padding)
             for k in range(clients)]
    expected_y = torch.cat(parts)
    expected = [expected_y, *torch.autograd.grad(expected_y, double, dy.double())]
    for ours, theirs in zip(got, expected, strict=True):
        error = (ours.double() - theirs).norm() / theirs.norm()
        assert error < (1e-5 if dtype == torch.float32 else 1e-2), float(error)


def test_a_convolution_without_bias_and_without_a_gradient_of_its_input(device):
    from askew.engine.kernels.conv import KERNEL_ORDER, implicit_gemm_conv

    generator = torch.Generator(device).manual_seed(1)
    x = torch.randn(4, 3, 6, 5, device=device, generator=generator).contiguous(memory_format=torch.channels_last)
    w = torch.randn(2, 4, 3, 3, 3, device=device, generator=generator).requires_grad_()
    y = implicit_gemm_conv(x, w.permute(KERNEL_ORDER).contiguous(), None, [1, 1], [1, 1])
    expected = torch.cat([F.conv2d(x[2 * k : 2 * k + 2], w[k], padding=1) for k in range(2)])
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)
    dy = torch.randn(y.shape, device=device, generator=generator)
    torch.testing.assert_close(torch.autograd.grad(y, w, dy)[0], torch.autograd.grad(expected, w, dy)[0], rtol=1e-4,
                               atol=1e-4)


@pytest.mark.parametrize(("dtype", "shape"),
                         typed((20, 5, 2.0), (10, 4, 1.0), (3, 3, 1.0), large=[(64, 9, 0.001)]))
@pytest.mark.parametrize("rectify", [False, True])
def test_local_response_normalisation_equals_torch(shape, rectify, dtype, device):
    from askew.engine.kernels.lrn import local_response_norm

    channels, size, alpha = shape
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randn(7, channels, 9, 11, device=device, generator=generator).to(dtype)
    x = x.contiguous(memory_format=torch.channels_last)
    dy = torch.randn(x.shape, device=device, generator=generator).to(dtype)
    y = local_response_norm(x.requires_grad_(), size, alpha, 0.75, 1.0, rectify)
    double = x.detach().double().requires_grad_()
    expected = F.local_response_norm(F.relu(double) if rectify else double, size, alpha, 0.75, 1.0)
    got = [y, *torch.autograd.grad(y, x, dy)]
    for ours, theirs in zip(got, [expected, *torch.autograd.grad(expected, double, dy.double())], strict=True):
        error = (ours.double() - theirs).norm() / theirs.norm()
        assert error < (1e-5 if dtype == torch.float32 else 1e-2), float(error)


@pytest.mark.parametrize(("dtype", "shape"), typed(
    (5, 9, 3, 0, True), (4, 7, 2, 1, True), (70, 6, 2, 0, False), (16, 7, 5, 2, True), (3, 8, 3, 1, False),
    large=[(64, 24, 3, 1, False), (64, 24, 3, 0, True), (70, 10, 2, 0, False), (16, 11, 5, 2, True),
           (32, 7, 2, 1, True)]))
@pytest.mark.parametrize("rectify", [False, True])
def test_max_pooling_equals_torch(shape, rectify, dtype, device):
    """Whole numbers, so that many values are equal: the first of them takes the gradient."""
    from askew.engine.kernels.pool import max_pool2d

    channels, size, window, padding, ceil = shape
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randint(-3, 4, (6, channels, size, size), device=device, generator=generator).to(dtype)
    x = x.contiguous(memory_format=torch.channels_last).requires_grad_()
    y = max_pool2d(x, (window,) * 2, (padding,) * 2, ceil, rectify)
    expected = F.max_pool2d(x, window, 2, padding, ceil_mode=ceil)
    expected = F.relu(expected) if rectify else expected
    assert torch.equal(y, expected)
    dy = torch.randint(-3, 4, y.shape, device=device, generator=generator).to(dtype)  # sums of these are exact
    assert torch.equal(torch.autograd.grad(y, x, dy)[0], torch.autograd.grad(expected, x, dy)[0])


@pytest.mark.parametrize("shape",
                         shapes((3, 4, 5, 6, 7), (2, 3, 130, 2, 2), (1, 2, 1, 3, 3), large=[(2, 50, 32, 16, 16)]))
def test_batch_norm_sums_equal_torch(shape, device):
    """A mean far from 0, where a plain sum of squares would lose the variance."""
    from askew.engine.kernels.norm import gradient_sums_in_triton, var_mean_in_triton

    clients, batch, channels, height, width = shape
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randn(clients * batch, channels, height, width, device=device, generator=generator) * 2 + 300
    x = x.contiguous(memory_format=torch.channels_last).unflatten(0, (clients, batch))
    dy = torch.randn(shape, device=device, generator=generator)
    real = torch.full((clients,), batch, device=device)
    var, mean = var_mean_in_triton(x, real)
    expected_var, expected_mean = torch.var_mean(x.double(), dim=(1, 3, 4), correction=0)
    torch.testing.assert_close(var.double(), expected_var, rtol=1e-4, atol=0)
    torch.testing.assert_close(mean.double(), expected_mean, rtol=1e-6, atol=0)
    real[0] -= 1  # the last example of the first client is padding
    fewer_var, fewer_mean = torch.var_mean(x[0, :-1].double(), dim=(0, 2, 3), correction=0)
    torch.testing.assert_close(var_mean_in_triton(x, real)[0][0].double(), fewer_var, rtol=1e-4, atol=0)
    torch.testing.assert_close(var_mean_in_triton(x, real)[1][0].double(), fewer_mean, rtol=1e-6, atol=0)
    dbias, dweight = gradient_sums_in_triton(x, dy, mean, var.rsqrt())
    view = (clients, 1, channels, 1, 1)
    normal = (x.double() - expected_mean.view(view)) / expected_var.sqrt().view(view)
    torch.testing.assert_close(dbias.double(), dy.double().sum(dim=(1, 3, 4)), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(dweight.double(), (dy * normal).sum(dim=(1, 3, 4)), rtol=1e-3, atol=1e-2)


def values_for_normalising(dtype, device):
    """Three sets of two examples, of which the first set has one real one and the second none."""
    generator = torch.Generator(device).manual_seed(0)
    x, dy = (torch.randn(6, 20, 3, 4, device=device, generator=generator).to(dtype)
             .contiguous(memory_format=torch.channels_last).unflatten(0, (3, 2)) for _ in range(2))
    columns = [torch.randn(3, 20, device=device, generator=generator) for _ in range(5)]
    real = torch.tensor([1, 0, 2], device=device)
    mask = (torch.arange(2, device=device) < real[:, None]).view(3, 2, 1, 1, 1)
    return x, dy, columns, real, mask


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_normalised_values_equal_torch(dtype, device):
    from askew.engine.kernels.norm import scaled_in_triton

    x, _, (mean, scale, bias, *_), real, mask = values_for_normalising(dtype, device)
    x[0, 1] = x[1] = float("nan")  # padding holds anything
    wide = [v.view(3, 1, 20, 1, 1) for v in (mean, scale, bias)]
    expected = torch.where(mask, (x.float() - wide[0]) * wide[1], 0.0) + wide[2]
    got = scaled_in_triton(x, mean, scale, bias, real)
    torch.testing.assert_close(got.float(), expected.to(dtype).float(), rtol=1e-2 if dtype == torch.bfloat16 else 1e-5,
                               atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_normalised_values_equal_torch(dtype, device):
    from askew.engine.kernels.norm import scaled_back_in_triton

    x, dy, columns, real, mask = values_for_normalising(dtype, device)
    mean, inverse, scale, plain, normal = (v.view(3, 1, 20, 1, 1) for v in columns)
    expected = torch.where(mask, scale * dy.float() - plain - normal * (x.float() - mean) * inverse, 0.0)
    got = scaled_back_in_triton(x, dy, *columns, real)
    torch.testing.assert_close(got.float(), expected.to(dtype).float(), rtol=1e-2 if dtype == torch.bfloat16 else 1e-4,
                               atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_one_recurrent_layer_equals_torch(kind, dtype, device):
    """Outputs, last state and all gradients of three clients against torch's layer in float64, one by one."""
    from askew.engine.layers.recurrent import recurrent

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [kind(5, 7, batch_first=True) for _ in range(3)]
        x = torch.randn(3 * 4, 6, 5)
    names = list(layers[0].state_dict())
    weights = {name: torch.stack([layer.state_dict()[name] for layer in layers]).to(device).requires_grad_()
               for name in names}
    inputs = x.to(device).to(dtype).requires_grad_()
    with torch.autocast(device, torch.bfloat16, enabled=dtype == torch.bfloat16):
        out, last = recurrent(layers[0], weights, None, inputs)
    loss = (out.float().sin().sum() + (last[1] if isinstance(last, tuple) else last).float().cos().sum())
    got = [out, *torch.autograd.grad(loss, [inputs, *weights.values()])]
    expected_out, expected = [], {name: [] for name in ("x", *names)}
    for k, layer in enumerate(layers):
        layer.double()
        own = x[4 * k : 4 * k + 4].to(dtype).double().requires_grad_()
        o, end = layer(own)
        gradients = torch.autograd.grad(o.sin().sum() + (end[1] if isinstance(end, tuple) else end).cos().sum(),
                                        [own, *layer.parameters()])
        expected_out.append(o)
        for name, g in zip(("x", *names), gradients, strict=True):
            expected[name].append(g)
    wanted = [torch.cat(expected_out), torch.cat(expected["x"]), *(torch.stack(expected[name]) for name in names)]
    for ours, theirs in zip(got, wanted, strict=True):
        error = (ours.double().cpu() - theirs).norm() / theirs.norm()
        assert error < (1e-5 if dtype == torch.float32 else 3e-2), float(error)


def test_a_client_without_examples_has_finite_statistics(device):
    """Idle clients: a count of 0."""
    from askew.engine.kernels.norm import var_mean_in_triton

    x = torch.randn(6, 5, 3, 3, device=device).contiguous(memory_format=torch.channels_last).unflatten(0, (2, 3))
    var, mean = var_mean_in_triton(x, torch.tensor([0, 3], device=device))
    assert bool(var.isfinite().all())
    assert bool(mean.isfinite().all())
    torch.testing.assert_close(mean[1], x[1].mean(dim=(0, 2, 3)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("numbers", [1, 1023, 1024, 1025, 5000])
def test_the_hash_equals_the_one_of_library_operations(numbers, device):
    from askew.core import rng
    from askew.core.splitmix import mix, mix_in_triton, mix_number

    z = torch.randint(-(2**63), 2**63 - 1, (numbers,), generator=torch.Generator().manual_seed(0))
    expected = [rng._signed(mix_number(int(v))) for v in z[:50]]
    got = mix_in_triton(z.to(device)).cpu()
    assert got[:50].tolist() == expected
    assert torch.equal(got, mix(z))
    assert torch.equal(mix_in_triton(z.to(device).view(-1, 1).t()).cpu().flatten(), got)  # not contiguous


@pytest.mark.parametrize("count", [1, 1024, 1500])
def test_uniform_numbers_equal_the_ones_of_library_operations(count, device):
    from askew.core import rng
    from askew.core.splitmix import uniform_in_triton

    keys = rng.fold(rng.key(5, "client"), torch.arange(6).view(2, 3))
    expected = (rng.bits(keys, count) >> 39).to(torch.float32) * 2.0**-24
    got = uniform_in_triton(keys.to(device), count)
    assert torch.equal(got.cpu(), expected)
    assert got.shape == (2, 3, count)
    assert torch.equal(uniform_in_triton(keys.to(device).t(), count).cpu(), expected.transpose(0, 1))
    assert uniform_in_triton(keys.to(device), 0).shape == (2, 3, 0)


def test_random_streams_are_the_same_on_every_device(device):
    from askew.core import rng

    keys = rng.fold(rng.key(5, "client"), torch.arange(40).view(5, 8))
    there = keys.to(device)
    assert torch.equal(rng.bits(there, 300).cpu(), rng.bits(keys, 300))
    assert torch.equal(rng.fold(there.t(), torch.arange(5, device=device)).cpu(), rng.fold(keys.t(), torch.arange(5)))
    assert torch.equal(torch.func.vmap(lambda k: rng.permutation(k, 9))(there).cpu(), rng.permutation(keys, 9))

"""The band matrix gives torch's numbers and gradients, whatever the window, the shape and the type."""

import pytest
import torch
import torch.nn.functional as F

from askew.models.local_response_norm import LocalResponseNorm, local_response_norm

SHAPES = [(2, 7, 5, 4), (3, 1, 2, 2), (2, 4, 6), (1, 70, 3, 3), (2, 5, 2, 3, 2), (0, 4, 3, 3)]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numbers_and_gradients_are_torchs(shape, size):
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(size)).requires_grad_()
    ours, theirs = local_response_norm(x, size, 0.7, 0.75, 1.5), F.local_response_norm(x, size, 0.7, 0.75, 1.5)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad(y.square().sum(), x)[0] for y in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_types(dtype):
    x = 3 * torch.randn(4, 64, 6, 6, generator=torch.Generator().manual_seed(0))
    y = LocalResponseNorm(9, alpha=0.5, k=1.0)(x.to(dtype))
    assert y.dtype == dtype
    exact = F.local_response_norm(x.to(dtype).double(), 9, 0.5, 0.75, 1.0)
    assert ((y.double() - exact).norm() / exact.norm()) < (1e-6 if dtype == torch.float32 else 1e-2)


def test_memory_format_stays():
    x = torch.randn(2, 8, 5, 5)
    for layout in (torch.contiguous_format, torch.channels_last):
        y = LocalResponseNorm(3)(x.contiguous(memory_format=layout))
        assert y.is_contiguous(memory_format=layout)

"""Convolution of many clients' examples, each with its client's own weights.

On a GPU, grouped convolutions of the libraries launch one small kernel a client; here one kernel serves all clients,
as an implicit matrix product for the forward pass, for the gradient of the input (the same product with flipped
weights) and for the gradient of the weights. Elsewhere, and for dilated kernels, one grouped convolution does it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

Pair = tuple[int, ...]
KERNEL_ORDER = (0, 3, 4, 2, 1)  # [K, O, C, R, S] -> [K, R, S, C, O], as the kernels read weights
MOST_TAPS = 30  # in each direction: the kernels keep which taps lie inside the image as one bit each


def client_conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair | str, dilation: Pair) -> Tensor:
    """y[k, b] = conv2d(x[k, b], weight[k]) + bias[k].

    Args:
        x: [K * B, C, H, W], the clients' examples behind each other.
        weight: [K, O, C, R, S].
        bias: [K, O] or None.

    Returns:
        [K * B, O, H', W'].
    """
    if torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    if x.is_cuda and tuple(dilation) == (1, 1) and max(weight.shape[3:]) <= MOST_TAPS:
        from askew.simulate.client_conv_kernels import implicit_gemm_conv

        if x.shape[1] == 3:  # colours: with a fourth channel, of zeros, a pixel is read at once instead of value by value
            x, weight = F.pad(x, (0, 0, 0, 0, 0, 1)), F.pad(weight, (0, 0, 0, 0, 0, 1))
        flat = weight.to(x.dtype).permute(KERNEL_ORDER).contiguous()  # no copy where the weights are kept like this
        return implicit_gemm_conv(x.contiguous(memory_format=torch.channels_last), flat, bias, list(map(int, stride)),
                                  list(map(int, padding)))
    clients, outputs = weight.shape[:2]
    # [K * B, C, H, W] -> [B, K * C, H, W]: the clients side by side as groups.
    wide = x.unflatten(0, (clients, -1)).transpose(0, 1).flatten(1, 2)
    y = F.conv2d(wide, weight.to(x.dtype).flatten(0, 1), None if bias is None else bias.to(x.dtype).flatten(), stride, padding,
                 dilation, clients)
    return y.unflatten(1, (clients, outputs)).transpose(0, 1).flatten(0, 1)

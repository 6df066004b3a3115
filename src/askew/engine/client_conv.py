"""Convolution of many clients' examples, each with its client's own weights.

On a GPU, grouped convolutions of the libraries launch one small kernel per client; here one kernel serves all clients,
as an implicit matrix product for the forward pass, for the gradient of the input (the same product with flipped
weights) and for the gradient of the weights. Elsewhere, and for dilated or grouped kernels, one grouped convolution does it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from askew.engine.kernels import has_kernels

Pair = tuple[int, ...]
KERNEL_ORDER = (0, 3, 4, 2, 1)  # [K, O, C, R, S] -> [K, R, S, C, O], as the kernels read weights
WIDEST = 16  # values in a row of taps over all channels, up to which `taps_as_channels` pays
MOST_TAPS = 30  # in each direction: the kernels keep which taps lie inside the image as one bit each


def client_conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair, dilation: Pair, groups: int = 1) -> Tensor:
    """y[k, b] = conv2d(x[k, b], weight[k]) + bias[k].

    Args:
        x: [K * B, C, H, W], the clients' examples behind each other.
        weight: [K, O, C / groups, R, S].
        bias: [K, O] or None.

    Returns:
        [K * B, O, H', W'].
    """
    if torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    if has_kernels(x) and groups == 1 and tuple(dilation) == (1, 1) and max(weight.shape[3:]) <= MOST_TAPS:
        from askew.engine.client_conv_kernels import implicit_gemm_conv

        stride, padding = tuple(map(int, stride)), tuple(map(int, padding))
        if not x.requires_grad and x.shape[1] * weight.shape[4] <= WIDEST:
            x, weight, stride, padding = taps_as_channels(x, weight, stride, padding)
        flat = weight.to(x.dtype).permute(KERNEL_ORDER).contiguous()  # no copy where the weights are kept like this
        bias = None if bias is None else bias.contiguous()  # a frozen one is one client's, repeated
        return implicit_gemm_conv(x.contiguous(memory_format=torch.channels_last), flat, bias, list(stride), list(padding))
    clients, outputs = weight.shape[:2]
    # [K * B, C, H, W] -> [B, K * C, H, W]: the clients side by side as groups.
    wide = x.unflatten(0, (clients, -1)).transpose(0, 1).flatten(1, 2)
    y = F.conv2d(wide, weight.to(x.dtype).flatten(0, 1), None if bias is None else bias.to(x.dtype).flatten(), stride, padding,
                 dilation, clients * groups)
    return y.unflatten(1, (clients, outputs)).transpose(0, 1).flatten(0, 1)


def taps_as_channels(x: Tensor, weight: Tensor, stride: Pair, padding: Pair) -> tuple[Tensor, Tensor, Pair, Pair]:
    """The same convolution with kernels one pixel wide: what lay beside each other in a row becomes channels of one pixel.

    Images of one or three channels are read value by value otherwise, since only channels lie behind each other in memory;
    S taps of C channels, filled up with zeros to a power of two, are read at once.

    Args:
        x: [N, C, H, W].
        weight: [K, O, C, R, S].

    Returns:
        x' [N, P, H, W'], weight' [K, O, P, R, 1] with P at least S C, stride' and padding'.
    """
    taps, channels = weight.shape[4], weight.shape[2]
    missing = (1 << (taps * channels - 1).bit_length()) - taps * channels
    rows = F.pad(x, (padding[1], padding[1])).unfold(3, taps, stride[1])  # [N, C, H, W', S]
    pixels = F.pad(rows.permute(0, 2, 3, 4, 1).flatten(3), (0, missing))  # [N, H, W', P]
    kernels = F.pad(weight.permute(0, 1, 3, 4, 2).flatten(3), (0, missing))  # [K, O, R, P]
    return pixels.permute(0, 3, 1, 2), kernels.transpose(2, 3)[..., None], (stride[0], 1), (padding[0], 0)

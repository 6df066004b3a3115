"""Multi-head attention of many clients at once, written out as products and a softmax.

The fused kernels of torch have no rule for a client axis, add up gradients in an order that changes from run to run,
and on a GPU refuse some sizes; here each step is one batched product over all clients, examples and heads.

References:
    Vaswani et al. 2017, Attention Is All You Need, section 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from askew.engine.kernels.linear import client_linear

if TYPE_CHECKING:
    from askew.engine.layers.dropout import KeyedDropout


def attention(layer: nn.MultiheadAttention, weights: Mapping[str, Tensor], dropout: KeyedDropout | None, query: Tensor,
              key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = True,
              attn_mask: Tensor | None = None, average_attn_weights: bool = True,
              is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
    """What `layer` computes of K clients' examples end to end, softmax(Q K^T / sqrt(d)) V, with own weights.

    Args:
        layer: for its sizes and options.
        weights: its weights [K, ...] by name.
        dropout: of the attention weights.
        query, key, value, ...: as `nn.MultiheadAttention` takes them, in batches.
    """
    same = query is key and key is value
    if not layer.batch_first:
        query, key, value = (v.transpose(0, 1) for v in (query, key, value))
    q, k, v = _projected(layer, weights, query, key, value, same)
    n, length, width = q.shape
    q, k, v = (part.unflatten(2, (layer.num_heads, -1)).transpose(1, 2) for part in (q, k, v))  # [N, heads, length, d]
    scores = (q / math.sqrt(width // layer.num_heads)) @ k.transpose(2, 3)
    for mask in (_fitting(attn_mask, n), None if key_padding_mask is None else key_padding_mask[:, None, None]):
        if mask is not None:
            scores = scores.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    shares = scores.softmax(dim=-1)
    used = shares if dropout is None or dropout.p == 0 else shares * dropout.factors(shares, 0, 4)
    mixed = (used.to(v.dtype) @ v).transpose(1, 2).reshape(n, length, width)
    result = client_linear(mixed, weights["out_proj.weight"], weights.get("out_proj.bias"))
    result = result if layer.batch_first else result.transpose(0, 1)
    if not need_weights:
        return result, None
    return result, used.mean(dim=1) if average_attn_weights else used


def _projected(layer: nn.MultiheadAttention, weights: Mapping[str, Tensor], query: Tensor, key: Tensor, value: Tensor,
               same: bool) -> tuple[Tensor, ...]:
    """The inputs as queries, keys and values of all heads."""
    bias = weights.get("in_proj_bias")
    if "in_proj_weight" in weights and same:  # one product
        return client_linear(query, weights["in_proj_weight"], bias).chunk(3, dim=-1)
    each = (weights["in_proj_weight"].chunk(3, dim=1) if "in_proj_weight" in weights
            else [weights[f"{name}_proj_weight"] for name in ("q", "k", "v")])
    biases = [None] * 3 if bias is None else bias.chunk(3, dim=1)
    return tuple(client_linear(x, w, b) for x, w, b in zip((query, key, value), each, biases, strict=True))


def _fitting(mask: Tensor | None, examples: int) -> Tensor | None:
    """[L, S], or [N * heads, L, S] as torch takes it, so that it broadcasts against [N, heads, L, S]."""
    return mask if mask is None or mask.ndim == 2 else mask.unflatten(0, (examples, -1))


def has_client_axis(layer: nn.MultiheadAttention) -> bool:
    """Not with learnt or zero keys beside the given ones."""
    return layer.bias_k is None and layer.bias_v is None and not layer.add_zero_attn

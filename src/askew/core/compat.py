"""What of torch is not public, in one place: each with the versions for which it has been seen to hold (2.11 to 2.13)."""

from __future__ import annotations

import torch
from torch.utils import _pytree

# Nested dicts and tuples of tensors. torch.utils.pytree (public) comes with 2.14 or later; optree would be a further dependency.
tree_map = _pytree.tree_map
tree_leaves = _pytree.tree_leaves
tree_flatten = _pytree.tree_flatten
tree_unflatten = _pytree.tree_unflatten


# Many small tensors in one launch. `torch.func.vmap` has no rule for them: not for a tensor that it is batching.
foreach_add = torch._foreach_add
foreach_sub = torch._foreach_sub
foreach_mul = torch._foreach_mul
foreach_div = torch._foreach_div
foreach_add_ = torch._foreach_add_
is_batched = torch._C._functorch.is_batchedtensor

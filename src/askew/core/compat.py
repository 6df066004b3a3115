"""What of torch is not public, in one place: each with the versions for which it has been seen to hold (2.11 to 2.13)."""

from __future__ import annotations

from torch.utils import _pytree

# Nested dicts and tuples of tensors. torch.utils.pytree (public) comes with 2.14 or later; optree would be a further dependency.
tree_map = _pytree.tree_map
tree_leaves = _pytree.tree_leaves
tree_flatten = _pytree.tree_flatten
tree_unflatten = _pytree.tree_unflatten

"""What of torch is not public, in one place, under plain names. All of it has been seen to hold in torch 2.11 to 2.13.

Where a version of torch no longer has one of them, this file fails to import, or the function
named here, and nothing else.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode as _TorchDispatchMode

# Nested dicts and tuples of tensors. torch.utils.pytree (public) comes with 2.14 or later; optree
# would be a further dependency.
tree_map = _pytree.tree_map
tree_leaves = _pytree.tree_leaves
tree_flatten = _pytree.tree_flatten
tree_unflatten = _pytree.tree_unflatten

# Many small tensors in one launch; without them a loop does it, slower on a GPU. `torch.func.vmap` has no rule for
# them: not for a tensor that it is batching, as `is_batched` says.
foreach_add = torch._foreach_add
foreach_sub = torch._foreach_sub
foreach_mul = torch._foreach_mul
foreach_div = torch._foreach_div
foreach_add_ = torch._foreach_add_
foreach_sub_ = torch._foreach_sub_
foreach_copy_ = torch._foreach_copy_
is_batched = torch._C._functorch.is_batchedtensor

# What the layers of one, two and three dimensions have in common; without them, each of the three would be named.
# NormWithStatistics: BatchNorm and InstanceNorm.
BatchNorm = _BatchNorm
InstanceNorm = _InstanceNorm
NormWithStatistics = _NormBase
Conv = _ConvNd


class TorchDispatchMode(_TorchDispatchMode):
    """Sees every operation that is done below it; nothing public does.

    Nothing is compiled below ours. Unless told so, torch loads its whole compiler, in some seconds, to see to it.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


@contextlib.contextmanager
def compiler_settings(variants: int) -> Iterator[None]:
    """For calls of compiled functions: so many forms of one are kept, and axes that nobody marked have fixed lengths.

    Without the first, torch silently compiles no more beyond 8 forms; without the second it lets those axes vary in
    which this network differs from the last one of the process, and then may fail to compile it. The warning left out
    is of a gradient that the compiler itself looks at.
    """
    settings = torch._dynamo.config.patch(recompile_limit=variants, automatic_dynamic_shapes=False)
    with settings, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"The \.grad attribute of a Tensor that is not a leaf")
        yield


def mark_dynamic(v: Tensor, axis: int) -> None:
    """Compile for any length of that axis; without it, once for each length."""
    torch._dynamo.mark_dynamic(v, axis)


def times_written(v: Tensor) -> int:
    """How often a tensor has been changed in place."""
    return v._version


def padding_of(layer: nn.Conv1d | nn.Conv2d) -> list[int]:
    """Pixels before and after, the last axis first, as `F.pad` takes them; `padding` may be a word."""
    return list(layer._reversed_padding_repeated_twice)


def computes_as(layer: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a layer of a subclass computes by the methods of `kind`; convolutions have one beside `forward`."""
    return all(getattr(type(layer), name, None) is getattr(kind, name, None) for name in ("forward", "_conv_forward"))


def weights_by_level(layer: nn.RNNBase) -> list[list[Tensor]]:
    """Of a recurrent layer: its weights, level by level and way by way, in the order in which
    `torch.lstm` and the like take them."""
    return [[getattr(layer, name) for name in names] for names in layer._all_weights]

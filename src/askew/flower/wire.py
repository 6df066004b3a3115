"""Trees of tensors as Flower's records of arrays, and back.

Arrays travel as numpy's own format, which Flower writes and which is read here without numpy's reader: name, shape and
type must be those that are expected before a byte of the array is looked at. Nothing is pickled, nothing can be
unpickled, and no size that a stranger states is believed.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from askew.core.errors import AskewError, first_line, shown
from askew.core.tensors import Tree
from askew.flower.library import ArrayRecord, to_array

LONGEST_HEADER = 10_000  # bytes of numpy's format before the array's own


class WrongForm(AskewError):
    """What came is not of the form that was expected."""


def record_of(tree: Tree) -> Any:
    """A tree as an `ArrayRecord`: one array per tensor, named by its way through the tree."""
    return ArrayRecord({name: to_array(_plain(v)) for name, v in _named(tree)})


def tree_of(record: Any, like: Tree) -> Tree:
    """A tree of just the names, shapes, types and memory layouts of `like`, from a record; else `WrongForm`."""
    expected = dict(_named(like))
    if set(record) != set(expected):
        odd = sorted(set(record) ^ set(expected))
        raise WrongForm(f"{shown(odd[0])} is {'missing' if odd[0] in expected else 'not expected'}")
    tensors = {name: _tensor(name, record[name], v) for name, v in expected.items()}
    return _rebuilt(like, tensors)


def _named(tree: Tree, path: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(tree, Tensor):
        yield path, tree
    elif isinstance(tree, Mapping):
        for name, part in tree.items():
            yield from _named(part, f"{path}/{name}" if path else str(name))
    elif isinstance(tree, tuple | list):
        for i, part in enumerate(tree):
            yield from _named(part, f"{path}/{i}" if path else str(i))
    else:
        raise AskewError(f"a message holds tensors, in dicts and tuples, not {shown(tree)}")


def _rebuilt(like: Tree, tensors: Mapping[str, Tensor], path: str = "") -> Tree:
    if isinstance(like, Tensor):
        return tensors[path]
    if isinstance(like, Mapping):
        return {name: _rebuilt(part, tensors, f"{path}/{name}" if path else str(name)) for name, part in like.items()}
    return type(like)(_rebuilt(part, tensors, f"{path}/{i}" if path else str(i)) for i, part in enumerate(like))


def _plain(v: Tensor) -> np.ndarray:
    """As numpy has it; bfloat16, which numpy has not, by its bits."""
    v = v.detach().cpu().contiguous()
    return (v.view(torch.int16) if v.dtype == torch.bfloat16 else v).numpy()


def _tensor(name: str, array: Any, like: Tensor) -> Tensor:
    """The tensor that an array of the wire holds, in the memory layout of `like`."""
    wanted = _plain(torch.empty(0, dtype=like.dtype)).dtype
    data, shape = array.data, tuple(like.shape)
    try:
        file = io.BytesIO(data)
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        stated, fortran, dtype = read(file, max_header_size=LONGEST_HEADER)
    except Exception as error:  # of a header that is none
        raise WrongForm(f"{name} cannot be read: {first_line(error)}") from None
    if stated != shape or dtype != wanted or fortran:
        raise WrongForm(f"{name} is {dtype} {list(stated)}, and {wanted} {list(shape)} is expected")
    if len(data) - file.tell() != wanted.itemsize * like.numel():
        raise WrongForm(f"{name} has {len(data) - file.tell()} bytes, and {wanted.itemsize * like.numel()} are "
                        "expected: it was cut off, or something was added")
    values = torch.from_numpy(np.frombuffer(data, wanted, offset=file.tell()).reshape(shape).copy())
    result = torch.empty_like(like, device="cpu")
    return result.copy_(values.view(torch.bfloat16) if like.dtype == torch.bfloat16 else values)

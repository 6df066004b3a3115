"""Arguments by their annotations: what fits is made plain (numpy's numbers, paths), what does not gets one line.

`@piece` has the arguments of pieces checked so, `@checked` those of a function, `check_fields` those of a dataclass.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, TypeVar, Union

import numpy as np
import torch

from askew.core.bounds import Bounds
from askew.core.errors import AskewError, shown
from askew.core.literals import plain

F = TypeVar("F", bound=Callable[..., Any])
WIDEST = 2**63  # whole numbers go into tensors of int64 sooner or later
LARGEST_FLOAT = torch.finfo(torch.float32).max  # weights are float32, and so are the numbers that meet them
_HINTS: dict[Any, dict[str, Any]] = {}
_NAMES = {torch.Tensor: "a tensor", np.ndarray: "an array", Path: "a path", type(None): "nothing"}


def checked(function: F) -> F:
    """The function with its arguments checked against their annotations, which are what its callers may rely on.

    Example:
        >>> @checked
        ... def double(number: float) -> float:
        ...     return 2 * number
        >>> double(np.float32(1.5))
        3.0
        >>> double("1.5")
        Traceback (most recent call last):
        askew.core.errors.AskewError: double: number must be float, not '1.5'
    """
    signature = inspect.signature(function)
    several = [p.name for p in signature.parameters.values() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound, hints = signature.bind(*args, **kwargs), hints_of(function)
        for key, value in bound.arguments.items():
            if key not in several:
                bound.arguments[key] = accepted(f"{function.__name__}: {key}", value, hints.get(key, Any))
        return function(*bound.args, **bound.kwargs)

    return typing.cast(F, call)


def check_fields(instance: Any, *but: str) -> None:
    """Likewise for a dataclass, in its `__post_init__`; fields `but` are left to it."""
    hints = hints_of(type(instance))
    for field in dataclasses.fields(instance):
        value, where = getattr(instance, field.name), f"{type(instance).__name__}: {field.name}"
        if value is field.default or field.name in but:
            continue
        if (plain := accepted(where, value, hints.get(field.name, Any))) is not value:
            object.__setattr__(instance, field.name, plain)


def accepted(where: str, value: Any, hint: Any, tensors: bool = False) -> Any:
    """A value as its annotation has it, or the error that says why it cannot be.

    Args:
        tensors: may stand in place of a number: a batch axis of values that have been checked one by one.
    """
    if tensors and isinstance(value, torch.Tensor) and float in options(hint):
        return value
    value = _plain(value, hint)
    for bounds in bounds_of(hint):
        if isinstance(value, int | float) and value not in bounds:
            raise AskewError(f"{where} {bounds.objection(value)}, got {shown(value)}")
    if not fits(value, hint):
        raise AskewError(f"{where} must be {hint_name(hint)}, not {shown(value)}")
    if isinstance(value, float) and LARGEST_FLOAT < abs(value) < math.inf:
        raise AskewError(f"{where} must be a number of 32 bits, at most 3.4e38, not {shown(value)}")
    if isinstance(value, int) and not -WIDEST <= value < WIDEST:
        raise AskewError(f"{where} must be a number of 64 bits, not {shown(value)}")
    return value


def hints_of(function: Any) -> dict[str, Any]:
    """The annotations of a function or class as types; none where a name in them cannot be found."""
    inner = inspect.unwrap(function)
    if inner not in _HINTS:
        try:
            _HINTS[inner] = typing.get_type_hints(inner, include_extras=True)
        except (NameError, TypeError):  # a stranger's, imported for type checkers only
            _HINTS[inner] = {}
    return _HINTS[inner]


def bounds_of(hint: Any) -> list[Bounds]:
    """Those of `Annotated[float, Bounds(0)]`, also as one of several types."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        return [bounds for option in typing.get_args(hint) for bounds in bounds_of(option)]
    return [extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Bounds)]


def bare(hint: Any) -> Any:
    """A type without what `Annotated` adds to it."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def options(hint: Any) -> list[Any]:
    """The types of a union, without what `Annotated` adds to them."""
    types_of_union = typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)
    return [bare(option) for option in types_of_union]


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain value is of a type."""
    hint = bare(hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, option) for option in inner)
    if origin is Literal:
        return any(type(value) is type(word) and value == word for word in inner)
    if origin is tuple and inner and inner[-1] is not ...:
        return isinstance(value, list | tuple) and len(value) == len(inner) and all(map(fits, value, inner))
    if origin in (list, tuple, Sequence, Iterable):
        return isinstance(value, list | tuple | range) and all(fits(item, inner[0]) for item in value if inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and (not inner or all(fits(k, inner[0]) and fits(v, inner[1])
                                                                for k, v in value.items()))
    if origin in (type, Callable):
        return callable(value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and value == value  # not NaN
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is np.ndarray:
        return isinstance(value, np.ndarray) and value.ndim > 0
    return isinstance(value, hint) if isinstance(hint, type) else True


def hint_name(hint: Any) -> str:
    """A type in words, for messages."""
    hint = bare(hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return " or ".join(repr(value) for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(hint_name(option) for option in inner)
    if origin is tuple and inner and inner[-1] is not ...:
        return f"a list of {len(inner)}: {', '.join(map(hint_name, inner))}"
    if origin in (list, tuple, Sequence, Iterable):
        return f"a list of {hint_name(inner[0])}" if inner else "a list"
    if origin is Callable:
        return "a function"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a mapping of {hint_name(inner[0])} to {hint_name(inner[1])}" if inner else "a mapping"
    if isinstance(getattr(hint, "kind", None), str):
        return f"a {hint.kind}"
    return _NAMES.get(hint, str(getattr(hint, "__name__", hint)))


def _plain(value: Any, hint: Any) -> Any:
    """numpy's and torch's numbers as Python's own, arrays as lists, paths as text, where the annotation means these."""
    if value is None or type(value) in (bool, int, float):  # nearly all are
        return value
    wanted = options(hint)
    kept = [option for option in wanted if isinstance(option, type) and option not in (int, float, str, bool, Any)]
    if Any in wanted or isinstance(value, tuple(kept)):
        return value
    if np.ndarray in wanted and isinstance(value, list | tuple | torch.Tensor):
        try:
            return np.asarray(value)
        except (ValueError, TypeError, RuntimeError, OverflowError):  # rows of different lengths; a tensor on a GPU
            return value
    if isinstance(value, np.generic | np.ndarray | torch.Tensor):
        try:
            value = value.tolist()
        except RuntimeError:  # a tensor within `vmap`
            return value
    if isinstance(value, PurePath | torch.device) and str in wanted:
        return str(value)
    if isinstance(value, str) and Path in wanted and str not in wanted:
        return Path(value)
    if isinstance(value, int | float | str):
        return plain(value)
    for option in wanted:
        origin, inner = typing.get_origin(option) or option, typing.get_args(option) or (Any,)
        if isinstance(value, list | tuple | range) and origin in (list, tuple, set, frozenset, Sequence, Iterable):
            items = [_plain(item, inner[0]) for item in value]
            with contextlib.suppress(TypeError):  # no set holds lists
                return origin(items) if origin in (tuple, set, frozenset) else items
        if isinstance(value, Mapping) and origin is Mapping:
            return {_plain(key, inner[0]): _plain(item, inner[-1]) for key, item in value.items()}
    return value

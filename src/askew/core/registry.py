"""Pieces by name: how a recipe file names a data set, a network or a step of an algorithm.

A piece is an ordinary function with the decorator `@piece(kind)`. The decorator does two things: it files the
function under its name, so that `momentum(beta=0.9)` in a recipe finds it, and it remembers the arguments of each
call on the result, so that a composition written in Python can be written back to a file. Adding a piece therefore
needs one function and no edit anywhere else.
"""

from __future__ import annotations

import ast
import difflib
import functools
import importlib
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar, Union

import torch

from askew.core.bounds import Bounds
from askew.core.errors import AskewError

KINDS = ("data", "partition", "preprocess", "model", "client", "upload", "server", "pool", "start", "probe", "method")
# Arguments that the program supplies, never the recipe: what a partition divides, what a network must fit.
INJECTED = ("source", "seed", "input_shape", "num_classes", "data", "data_dir", "base")
_PIECES: dict[str, dict[str, Callable[..., Any]]] = {kind: {} for kind in KINDS}
_HINTS: dict[Callable[..., Any], dict[str, Any]] = {}
# (kind, an earlier name) -> its name now, and arguments that it took then and does not need any more.
_FORMER: dict[tuple[str, str], tuple[str, frozenset[str]]] = {}
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Spec:
    """A piece by name with the arguments given to it, as a recipe writes it: `momentum(beta=0.9)`."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={_literal(value)}' for key, value in self.args.items())})"

    def with_args(self, **changes: Any) -> Spec:
        return replace(self, args={**self.args, **changes})


def piece(*kinds: str, formerly: Sequence[str] = (), dropped: Sequence[str] = ()) -> Callable[[F], F]:
    """File a function under its name as a piece of each of `kinds`; its results remember how they were made.

    Args:
        formerly: names that it has in older recipes, which are still read.
        dropped: arguments that stand there beside them and say nothing any more.

    Example:
        >>> @piece("server")
        ... def halve() -> Transform:
        ...     return Transform(update=lambda u, state, ctx: ({k: v / 2 for k, v in u.items()}, state))
    """

    for kind in kinds:
        if kind not in KINDS:
            raise AskewError(f"piece: unknown kind {kind!r}; {suggest(kind, KINDS)}")

    def register(function: F) -> F:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def make(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise AskewError(f"{function.__name__}: {error}; it is {function.__name__}{_shown(function)}") from None
            _check_types(function, bound.arguments)
            made = function(*args, **kwargs)
            if dataclass_with_spec(made):
                given = {key: value for key, value in bound.arguments.items() if key not in INJECTED}
                made = replace(made, spec=Spec(function.__name__, given))
            return made

        for kind in kinds:
            _PIECES[kind][function.__name__] = make
            _FORMER.update({(kind, name): (function.__name__, frozenset(dropped)) for name in formerly})
        return typing.cast(F, make)

    return register


def dataclass_with_spec(value: Any) -> bool:
    return hasattr(value, "spec") and hasattr(type(value), "__dataclass_fields__")


@functools.cache
def _file_all() -> None:
    """askew's own pieces file themselves when they are imported, which happens when the first one is asked for by name."""
    importlib.import_module("askew.catalogue")


def names(kind: str) -> list[str]:
    """The names of all pieces of one kind, sorted."""
    _file_all()
    return sorted(_PIECES[kind])


def find(kind: str, name: str) -> Callable[..., Any]:
    """The piece of that kind and name; `package.module:function` finds one that is not registered here."""
    if name not in _PIECES[kind]:
        _file_all()
    if name in _PIECES[kind]:
        return _PIECES[kind][name]
    if ":" in name:
        module, _, function = name.partition(":")
        try:
            return typing.cast("Callable[..., Any]", getattr(importlib.import_module(module), function))
        except (ImportError, AttributeError) as error:
            raise AskewError(f"{kind} {name!r} cannot be imported: {error}") from None
    raise AskewError(f"unknown {kind} {name!r}; {suggest(name, names(kind))}")


def suggest(name: str, known: Iterable[str]) -> str:
    """The nearest known name, or all of them: the remedy part of an error about an unknown name."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"


def parse(kind: str, text: str | Spec) -> Spec:
    """Read `name` or `name(1, key=2)` into a `Spec` whose arguments are checked against the piece's signature."""
    if isinstance(text, Spec):
        name, named = text.name, dict(text.args)
        positional: list[Any] = []
    else:
        name, positional, named = _parse_call(kind, text)
    if name not in _PIECES[kind]:
        _file_all()
        name, dropped = _FORMER.get((kind, name), (name, frozenset()))
        named = {key: value for key, value in named.items() if key not in dropped}
    function = find(kind, name)
    signature = inspect.signature(function)
    own = {key: value for key, value in signature.parameters.items() if key not in INJECTED}
    unknown = [key for key in named if key not in own]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in own.values()):
        raise AskewError(f"{kind} {name!r} has no argument {unknown[0]!r}; {suggest(unknown[0], own) if own else 'it takes none'}")
    if len(positional) > len(own):
        raise AskewError(f"{kind} {name!r} takes at most {len(own)} arguments, {len(positional)} were given: {text}")
    args = {**dict(zip(own, positional, strict=False)), **named}
    missing = [key for key, value in own.items() if value.default is value.empty and key not in args
               and value.kind not in (value.VAR_KEYWORD, value.VAR_POSITIONAL)]
    if missing:
        raise AskewError(f"{kind} {name!r} needs {missing[0]!r}: write {name}({missing[0]}=...)")
    _check_types(function, args)
    return Spec(name, args)


def essential(kind: str, spec: Spec) -> Spec:
    """The same piece without arguments that have their default value, in the order in which the piece takes them.

    Example:
        >>> import askew.pieces.server
        >>> str(essential("server", Spec("momentum", {"nesterov": True, "beta": 0.9})))  # beta is 0.9 by default
        'momentum(nesterov=True)'
    """
    function = find(kind, spec.name)
    _check_types(function, spec.args)
    hints = {key: bare(hint) for key, hint in _HINTS[inspect.unwrap(function)].items()}
    args = {}
    for key, parameter in inspect.signature(function).parameters.items():
        if key in spec.args:
            value = spec.args[key]
            value = float(value) if hints.get(key) is float and isinstance(value, int) else value
            if value != parameter.default or isinstance(value, bool) is not isinstance(parameter.default, bool):
                args[key] = value
    return Spec(spec.name, args)


def build(kind: str, spec: str | Spec, **injected: Any) -> Any:
    """Call the piece named by `spec`; of `injected`, it is given those it asks for."""
    spec = parse(kind, spec)
    function = find(kind, spec.name)
    wanted = inspect.signature(function).parameters
    return function(**{key: value for key, value in injected.items() if key in wanted}, **spec.args)


def _parse_call(kind: str, text: str) -> tuple[str, list[Any], dict[str, Any]]:
    head, bracket, rest = text.partition("(")  # a colon behind the bracket belongs to an argument
    module, colon, name = head.rpartition(":")
    call = name + bracket + rest
    try:
        tree = ast.parse(call.strip(), mode="eval").body
        if isinstance(tree, ast.Name):
            return module + colon + tree.id, [], {}
        if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)) or any(k.arg is None for k in tree.keywords):
            raise ValueError
        named = {str(keyword.arg): _value(keyword.value) for keyword in tree.keywords}
        return module + colon + tree.func.id, [_value(argument) for argument in tree.args], named
    except (SyntaxError, ValueError):
        raise AskewError(f"{kind} {text!r} cannot be read; write name or name(argument=value, ...)") from None


def _value(node: ast.expr) -> Any:
    words = {"true": True, "false": False, "inf": math.inf, "none": None}
    if isinstance(node, ast.Name) and node.id in words:
        return words[node.id]
    return ast.literal_eval(node)


def _literal(value: Any) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(list(value) if isinstance(value, tuple) else value)


def _shown(function: Callable[..., Any]) -> str:
    parameters = [p for key, p in inspect.signature(function).parameters.items() if key not in INJECTED]
    return str(inspect.Signature(parameters))


def _check_types(function: Callable[..., Any], args: Mapping[str, Any]) -> None:
    inner = inspect.unwrap(function)
    if inner not in _HINTS:
        _HINTS[inner] = typing.get_type_hints(inner, include_extras=True)
    for key, value in args.items():
        hint = _HINTS[inner].get(key, Any)
        if not fits(value, hint):
            raise AskewError(f"{inner.__name__}: {key} must be {hint_name(hint)}, not {value!r}")
        for bounds in bounds_of(hint):
            if isinstance(value, int | float) and value not in bounds:
                raise AskewError(f"{inner.__name__}: {key} {bounds.words}, got {value}")


def bounds_of(hint: Any) -> list[Bounds]:
    """Those of `Annotated[float, Bounds(0)]`, also as one of several types."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        return [bounds for option in typing.get_args(hint) for bounds in bounds_of(option)]
    return [extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Bounds)]


def bare(hint: Any) -> Any:
    """A type without what `Annotated` adds to it."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def fits(value: Any, hint: Any) -> bool:
    if hint is Any or isinstance(value, torch.Tensor):  # a tensor is a hyper-parameter that carries a batch axis
        return True
    hint = bare(hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, option) for option in inner)
    if origin is Literal:
        return value in inner
    if origin in (list, tuple, Sequence):
        return isinstance(value, list | tuple) and all(fits(v, inner[0]) for v in value if inner)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(hint, type):
        return isinstance(value, hint)
    return True


def hint_name(hint: Any) -> str:
    """A type in words, for messages."""
    hint = bare(hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return " or ".join(repr(value) for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(hint_name(option) for option in inner)
    if origin in (list, tuple, Sequence):
        return f"a list of {hint_name(inner[0])}" if inner else "a list"
    return "nothing" if hint is type(None) else getattr(hint, "__name__", str(hint))

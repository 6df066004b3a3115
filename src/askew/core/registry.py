"""Pieces by name: how a recipe file names a data set, a network or a step of an algorithm.

A piece is an ordinary function with the decorator `@piece(kind)`. The decorator does two things: it files the
function under its name, so that `momentum(beta=0.9)` in a recipe finds it, and it remembers the arguments of each
call on the result, so that a composition written in Python can be written back to a file. Adding a piece therefore
needs one function and no edit anywhere else.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar, Union

import torch

from askew.core.bounds import Bounds
from askew.core.errors import AskewError, suggest

KINDS = ("data", "partition", "combinator", "preprocess", "model", "client", "server", "pool", "start", "objective", "probe",
         "schedule", "adversity", "guard", "method")
# Arguments that the program supplies, never the recipe: what a partition divides, what a network must fit.
INJECTED = ("source", "seed", "input_shape", "num_classes", "data", "data_dir", "base")
_PIECES: dict[str, dict[str, Callable[..., Any]]] = {kind: {} for kind in KINDS}
_HINTS: dict[Callable[..., Any], dict[str, Any]] = {}
# (kind, an earlier name) -> its name now, and arguments that it took then and does not need any more.
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Spec:
    """A piece by name with the arguments given to it, as a recipe writes it: `momentum(beta=0.9)`.

    An argument may be a piece itself: `sgd(lr=decay(start=0.1, factor=0.995))`.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={_literal(value)}' for key, value in self.args.items())})"

    def with_args(self, **changes: Any) -> Spec:
        return replace(self, args={**self.args, **changes})


def piece(*kinds: str) -> Callable[[F], F]:
    """File a function under its name as a piece of each of `kinds`; its results remember how they were made.

    Example:
        >>> @piece("server")
        ... def halve() -> ServerPiece:
        ...     return ServerPiece(update=lambda u, state, ctx: ({k: v / 2 for k, v in u.items()}, state))
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
            given = _read_inner(function, bound.arguments)
            _check_types(function, given)
            for key, value in given.items():
                if isinstance(value, Spec) and not dataclass_with_spec(bound.arguments[key]):
                    bound.arguments[key] = build(str(_inner_kind(function, key)), value)
            made = function(*bound.args, **bound.kwargs)
            if dataclass_with_spec(made):
                spec = Spec(function.__name__, {k: v for k, v in given.items() if k not in INJECTED})
                if "spec" in type(made).__dataclass_fields__:
                    return replace(made, spec=spec)
                object.__setattr__(made, "_spec", spec)  # client and server pieces hold their maths alone
            return made

        for kind in kinds:
            _PIECES[kind][function.__name__] = make
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
    """The piece of that kind and name.

    Names come from files, which never run code: a piece of your own is found once its module is imported, in Python or
    by `--import MODULE` on the command line.
    """
    if name not in _PIECES[kind]:
        _file_all()
    if name in _PIECES[kind]:
        return _PIECES[kind][name]
    if ":" in name:
        module, _, function = name.rpartition(":")
        raise AskewError(f"{kind} {name!r} names a module, which recipes may not; import it (--import {module}) and write {function!r}")
    raise AskewError(f"unknown {kind} {name!r}; {suggest(name, names(kind))} (a piece of your own needs its module: --import MODULE)")


def parse(kind: str, text: str | Spec) -> Spec:
    """Read `name` or `name(1, key=2)` into a `Spec` whose arguments are checked against the piece's signature."""
    if isinstance(text, Spec):
        name, named = text.name, dict(text.args)
        positional: list[Any] = []
    else:
        name, positional, named = read_call(kind, text)
    function = find(kind, name)
    signature = inspect.signature(function)
    own = {key: value for key, value in signature.parameters.items() if key not in INJECTED}
    unknown = [key for key in named if key not in own]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in own.values()):
        remedy = moved(name, unknown[0]) or (suggest(unknown[0], own) if own else "it takes none")
        raise AskewError(f"{kind} {name!r} has no argument {unknown[0]!r}; {remedy}")
    if len(positional) > len(own):
        raise AskewError(f"{kind} {name!r} takes at most {len(own)} arguments, {len(positional)} were given: {text}")
    args = _read_inner(function, {**dict(zip(own, positional, strict=False)), **named})
    missing = [key for key, value in own.items() if value.default is value.empty and key not in args
               and value.kind not in (value.VAR_KEYWORD, value.VAR_POSITIONAL)]
    if missing:
        raise AskewError(f"{kind} {name!r} needs {missing[0]!r}: write {name}({missing[0]}=...)")
    _check_types(function, args)
    return Spec(name, args)


def moved(name: str, argument: str) -> str | None:
    """Where an argument of earlier versions has gone."""
    if argument in ("lr_decay", "lr_drops", "lr_drop"):
        return f"a rate's schedule is a value now: {name}(lr=decay(0.1, 0.995)) or {name}(lr=drops(0.1, at=[25, 50]))"
    return None


def essential(kind: str, spec: Spec) -> Spec:
    """The same piece without arguments that have their default value, in the order in which the piece takes them.

    Example:
        >>> import askew.pieces.server
        >>> str(essential("server", Spec("momentum", {"nesterov": True, "beta": 0.9})))  # beta is 0.9 by default
        'momentum(nesterov=True)'
    """
    function = find(kind, spec.name)
    hints = _hints_of(function)
    args = {}
    for key, parameter in inspect.signature(function).parameters.items():
        if key in spec.args:
            value = spec.args[key]
            if isinstance(value, Spec):
                value = essential(str(_inner_kind(function, key)), value)
            elif isinstance(value, int) and not isinstance(value, bool) and float in _options(hints.get(key)):
                value = float(value)
            if value != parameter.default or isinstance(value, bool) is not isinstance(parameter.default, bool):
                args[key] = value
    return Spec(spec.name, args)


def numbers_of(spec: Spec) -> dict[str, float]:
    """The numbers that a piece is given, those of pieces inside it included, by their paths.

    Pieces that differ in nothing else can train together, with these as tensors (see `with_numbers`).

    Example:
        >>> numbers_of(parse("client", "sgd(lr=decay(0.1, 0.995), momentum=0.9, nesterov=True)"))
        {'lr.start': 0.1, 'lr.factor': 0.995, 'momentum': 0.9}
    """
    numbers: dict[str, float] = {}
    for key, value in spec.args.items():
        if isinstance(value, Spec):
            numbers |= {f"{key}.{path}": number for path, number in numbers_of(value).items()}
        elif isinstance(value, float):
            numbers[key] = value
    return numbers


def with_numbers(spec: Spec, numbers: Mapping[str, Any]) -> Spec:
    """The piece with other numbers, or tensors in their place, by the paths of `numbers_of`.

    Example:
        >>> str(with_numbers(parse("client", "sgd(lr=decay(0.1, 0.995))"), {"lr.factor": 0.5, "momentum": 0.9}))
        'sgd(lr=decay(start=0.1, factor=0.5), momentum=0.9)'
    """
    plain = {path: value for path, value in numbers.items() if "." not in path}
    inner: dict[str, dict[str, Any]] = {}
    for path, value in numbers.items():
        key, dot, rest = path.partition(".")
        if dot:
            inner.setdefault(key, {})[rest] = value
    return spec.with_args(**plain, **{key: with_numbers(spec.args[key], values) for key, values in inner.items()})


def without_numbers(spec: Spec) -> str:
    """What must be equal for two pieces to train together: all but their numbers.

    Example:
        >>> without_numbers(parse("client", "sgd(lr=decay(0.1, 0.995), nesterov=True)"))
        'sgd(lr=decay(start=nan, factor=nan), nesterov=True)'
    """
    return str(with_numbers(spec, dict.fromkeys(numbers_of(spec), math.nan)))


def with_argument(spec: Spec, target: str, argument: str, value: Any) -> Spec:
    """The piece with an argument changed wherever `target` is its name or that of a piece inside it.

    A number in the place of a schedule becomes the number that the schedule starts from.

    Example:
        >>> str(with_argument(parse("client", "sgd(lr=decay(0.1, 0.995))"), "decay", "start", 0.3))
        'sgd(lr=decay(start=0.3, factor=0.995))'
        >>> str(with_argument(parse("client", "sgd(lr=decay(0.1, 0.995))"), "sgd", "lr", 0.3))
        'sgd(lr=decay(start=0.3, factor=0.995))'
    """
    args = {key: with_argument(inner, target, argument, value) if isinstance(inner, Spec) else inner for key, inner in spec.args.items()}
    if spec.name != target:
        return replace(spec, args=args)
    present = args.get(argument)
    if isinstance(present, Spec) and isinstance(value, int | float):
        value = _starting_from(present, value)
    return replace(spec, args={**args, argument: value})


def _starting_from(spec: Spec, value: float) -> Spec:
    """A piece with another number as its first argument, or as that of the piece inside it."""
    key, first = next(iter(spec.args.items()))
    return spec.with_args(**{key: _starting_from(first, value) if isinstance(first, Spec) else value})


def names_in(spec: Spec) -> list[str]:
    """The piece's name and those of the pieces inside it."""
    return [spec.name, *(name for value in spec.args.values() if isinstance(value, Spec) for name in names_in(value))]


def build(kind: str, spec: str | Spec, **injected: Any) -> Any:
    """Call the piece named by `spec`; of `injected`, it is given those it asks for."""
    spec = parse(kind, spec)
    function = find(kind, spec.name)
    wanted = inspect.signature(function).parameters
    return function(**{key: value for key, value in injected.items() if key in wanted}, **spec.args)


def read_call(kind: str, text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """`name` or `name(1, key=2)` as name, positional and named arguments; nothing is looked up or checked."""
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


class _Call(str):
    """The text of a call inside a call, which is read when it is known what kind of piece stands there."""

    __slots__ = ()


def _value(node: ast.expr) -> Any:
    words = {"true": True, "false": False, "inf": math.inf, "none": None}
    if isinstance(node, ast.Name) and node.id in words:
        return words[node.id]
    if isinstance(node, ast.Call):
        return _Call(ast.unparse(node))
    return ast.literal_eval(node)


def _read_inner(function: Callable[..., Any], args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with those that are pieces (made ones, Specs, calls as text) as checked Specs."""
    return {key: _read_argument(function, key, value) for key, value in args.items()}


def _read_argument(function: Callable[..., Any], key: str, value: Any) -> Any:
    kind = _inner_kind(function, key)
    if kind is None:
        if isinstance(value, _Call):
            raise AskewError(f"{function.__name__}: {key} must be {hint_name(_hints_of(function).get(key, Any))}, not {value}")
        return value
    if dataclass_with_spec(value) and value.spec is not None:
        return value.spec
    is_call = isinstance(value, Spec) or (isinstance(value, str) and "(" in value)
    return parse(kind, value) if is_call else value


def _inner_kind(function: Callable[..., Any], key: str) -> str | None:
    """The kind of the pieces that an argument takes: that of a type among its types, if one has any (`Schedule`)."""
    kinds = [option.kind for option in _options(_hints_of(function).get(key)) if isinstance(getattr(option, "kind", None), str)]
    return kinds[0] if kinds else None


def _options(hint: Any) -> list[Any]:
    """The types of a union, without what `Annotated` adds to them."""
    options = typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)
    return [bare(option) for option in options]


def _literal(value: Any) -> str:
    if isinstance(value, Spec):
        return str(value)
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(list(value) if isinstance(value, tuple) else value)


def _shown(function: Callable[..., Any]) -> str:
    parameters = [p for key, p in inspect.signature(function).parameters.items() if key not in INJECTED]
    return str(inspect.Signature(parameters))


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    inner = inspect.unwrap(function)
    if inner not in _HINTS:
        _HINTS[inner] = typing.get_type_hints(inner, include_extras=True)
    return _HINTS[inner]


def _check_types(function: Callable[..., Any], args: Mapping[str, Any]) -> None:
    for key, value in args.items():
        hint = _hints_of(function).get(key, Any)
        if not fits(value, hint):
            raise AskewError(f"{function.__name__}: {key} must be {hint_name(hint)}, not {value!r}")
        for bounds in bounds_of(hint):
            if isinstance(value, int | float) and value not in bounds:
                raise AskewError(f"{function.__name__}: {key} {bounds.words}, got {value}")


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
    if isinstance(value, Spec):
        return isinstance(getattr(hint, "kind", None), str)
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
    if isinstance(getattr(hint, "kind", None), str):
        return f"a {hint.kind}"
    return "nothing" if hint is type(None) else getattr(hint, "__name__", str(hint))

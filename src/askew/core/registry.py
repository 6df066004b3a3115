"""Pieces by name: how a recipe file names a data set, a network or a step of an algorithm.

A piece is an ordinary function with the decorator `@piece(kind)`. The decorator does two things: it files the
function under its name, so that `momentum(beta=0.9)` in a recipe finds it, and it remembers the arguments of each
call on the result, so that a composition written in Python can be written back to a file. Adding a piece therefore
needs one function and no edit anywhere else.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

from askew.core.arguments import accepted, hint_name, hints_of, options
from askew.core.calls import LONGEST, CallText, read_call
from askew.core.errors import AskewError, shortened, shown, suggest
from askew.core.literals import checked_literal, literal, plain

# kind -> the class of what a function of it makes, by name: those of data and networks take long to load.
RESULTS = {"data": "Dataset", "partition": "Population", "combinator": "Combinator", "preprocess": "Preprocess",
           "model": "Module", "client": "ClientPiece", "server": "ServerPiece", "pool": "Pool", "start": "Start",
           "objective": "Objective", "probe": "Probe", "schedule": "Schedule", "adversity": "Adversity",
           "guard": "Guard", "method": "Recipe"}
KINDS = tuple(RESULTS)
# Arguments that the program supplies, never the recipe: what a partition divides, what a network must fit.
INJECTED = ("source", "seed", "input_shape", "num_classes", "data", "data_dir", "base")
_PIECES: dict[str, dict[str, Callable[..., Any]]] = {kind: {} for kind in KINDS}
BATCHED = frozenset({"client", "server", "schedule"})  # numbers of these may be tensors: one of each configuration
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Spec:
    """A piece by name with the arguments given to it, as a recipe writes it: `momentum(beta=0.9)`.

    An argument may be a piece itself: `sgd(lr=decay(start=0.1, factor=0.995))`.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        args = {key: str(value) if isinstance(value, Spec) else literal(value) for key, value in self.args.items()}
        return f"{self.name}({', '.join(f'{key}={text}' for key, text in args.items())})"

    def with_args(self, **changes: Any) -> Spec:
        return replace(self, args={**self.args, **changes})


def piece(*kinds: str) -> Callable[[F], F]:
    """File a function under its name as a piece of each of `kinds`; its results remember how they were made.

    Args:
        kinds: of `KINDS`; what a function of each returns, and what it is given, stands in docs/kinds.md.

    Example:
        >>> @piece("server")
        ... def halve() -> ServerPiece:
        ...     return ServerPiece(update=lambda u, state, ctx: ({k: v / 2 for k, v in u.items()}, state))
    """

    for kind in kinds:
        if kind not in KINDS:
            raise AskewError(f"piece: unknown kind {shown(kind)}; {suggest(kind, KINDS)}")

    def register(function: F) -> F:
        if not inspect.isfunction(function):
            raise AskewError(f"piece: {shown(function)} is no function; put @piece('client') above a function's "
                             "definition")
        signature, tensors = inspect.signature(function), BATCHED.issuperset(kinds)

        @functools.wraps(function)
        def make(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise AskewError(f"{function.__name__}: {error}; it is {function.__name__}{_shown(function)}") from None
            given = _read(function, bound.arguments, tensors)
            for key, value in given.items():
                if not isinstance(value, Spec):
                    bound.arguments[key] = value
                elif not dataclass_with_spec(bound.arguments[key]):
                    bound.arguments[key] = build(str(_inner_kind(function, key)), value)
            result = function(*bound.args, **bound.kwargs)
            if not any(RESULTS[kind] == base.__name__ for kind in kinds for base in type(result).__mro__):
                raise AskewError(f"{function.__name__}: the function returns {shown(result)}; @piece({kinds[0]!r}) is "
                                 f"for one that returns a {RESULTS[kinds[0]]}")
            if dataclass_with_spec(result):
                given = {key: value for key, value in given.items() if key not in INJECTED}
                spec = Spec(function.__name__, _written(function, given, tensors))
                if "spec" in type(result).__dataclass_fields__:
                    return replace(result, spec=spec)
                object.__setattr__(result, "_spec", spec)  # client and server pieces hold their maths alone
            return result

        for kind in kinds:
            _PIECES[kind][function.__name__] = make
        return typing.cast(F, make)

    return register


def dataclass_with_spec(value: Any) -> bool:
    return hasattr(value, "spec") and hasattr(type(value), "__dataclass_fields__")


@functools.cache
def _file_all() -> None:
    """askew's own pieces file themselves when they are imported, which is when the first one is asked for by name."""
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
    module, colon, function = name.rpartition(":")
    if colon:
        raise AskewError(f"{kind} {shown(name)} names a module, which recipes may not; import it "
                         f"(--import {module or 'MODULE'}) and write {function!r}")
    raise AskewError(f"unknown {kind} {shown(name)}; {suggest(name, names(kind))} "
                     "(a piece of your own needs its module: --import MODULE)")


@functools.cache
def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """A piece's parameters by name: looked up once, since every piece of every configuration is asked for them."""
    return inspect.signature(function).parameters


def parse(kind: str, text: str | Spec) -> Spec:
    """Read `name` or `name(1, key=2)` into a `Spec` whose arguments are checked against the piece's signature."""
    positional: list[Any] = []
    if isinstance(text, Spec):
        if not isinstance(text.name, str) or not isinstance(text.args, Mapping):
            raise AskewError(f"{kind} {shown(text)} is not a name with its arguments; write Spec('name', "
                             f"{{'argument': value}})")
        name, named = text.name, dict(text.args)
    else:
        name, positional, named = read_call(kind, text)
    function = find(kind, name)
    parameters = {key: value for key, value in parameters_of(function).items() if key not in INJECTED}
    unknown = [key for key in named if key not in parameters]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        remedy = moved(name, unknown[0]) or (suggest(unknown[0], parameters) if parameters else "it takes none")
        raise AskewError(f"{kind} {name!r} has no argument {shown(unknown[0])}; {remedy}")
    if len(positional) > len(parameters):
        raise AskewError(f"{kind} {name!r} takes at most {len(parameters)} arguments, {len(positional)} were given: "
                         f"{shown(text)}")
    first = dict(zip(parameters, positional, strict=False))
    if twice := [key for key in named if key in first]:
        raise AskewError(f"{kind} {shown(text)} gives {twice[0]!r} twice, by its place and by its name; keep one of "
                         "them")
    args = _written(function, _read(function, {**first, **named}, kind in BATCHED), kind in BATCHED)
    missing = [key for key, value in parameters.items() if value.default is value.empty and key not in args
               and value.kind not in (value.VAR_KEYWORD, value.VAR_POSITIONAL)]
    if missing:
        raise AskewError(f"{kind} {name!r} needs {missing[0]!r}: write {name}({missing[0]}=...)")
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
    hints = hints_of(function)
    args = {}
    for key, parameter in parameters_of(function).items():
        if key in spec.args:
            value = spec.args[key]
            if isinstance(value, Spec):
                value = essential(str(_inner_kind(function, key)), value)
            elif isinstance(value, int) and not isinstance(value, bool) and float in options(hints.get(key)):
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


def without_tensors(spec: Spec) -> Spec:
    """The piece with numbers in place of tensors of one number, which a person may give and a file cannot hold."""
    def plain(value: Any) -> Any:
        if isinstance(value, Spec):
            return without_tensors(value)
        return value.tolist() if isinstance(value, torch.Tensor) else value

    return replace(spec, args={key: plain(value) for key, value in spec.args.items()})


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
    args = {key: with_argument(inner, target, argument, value) if isinstance(inner, Spec) else inner
            for key, inner in spec.args.items()}
    if spec.name != target:
        return replace(spec, args=args)
    present = args.get(argument)
    if isinstance(present, Spec) and isinstance(value, int | float):
        value = _starting_from(present, value)
    return replace(spec, args={**args, argument: value})


def _starting_from(spec: Spec, value: float) -> Spec | float:
    """A schedule with another number as its first argument, or as that of the schedule inside it."""
    parameters = parameters_of(find("schedule", spec.name))
    first = next((key for key in parameters if key in spec.args), None)
    if first is None:
        return value
    inner = spec.args[first]
    return spec.with_args(**{first: _starting_from(inner, value) if isinstance(inner, Spec) else value})


def names_in(spec: Spec) -> list[str]:
    """The piece's name and those of the pieces inside it."""
    return [spec.name, *(name for value in spec.args.values() if isinstance(value, Spec) for name in names_in(value))]


def build(kind: str, spec: str | Spec, **injected: Any) -> Any:
    """Call the piece named by `spec`; of `injected`, it is given those it asks for."""
    spec = parse(kind, spec)
    function = find(kind, spec.name)
    wanted = parameters_of(function)
    return function(**{key: value for key, value in injected.items() if key in wanted}, **spec.args)


def _read(function: Callable[..., Any], args: Mapping[str, Any], tensors: bool) -> dict[str, Any]:
    """The arguments, checked: plain values, and those that are pieces (made ones, Specs, calls as text) as Specs."""
    return {key: _read_argument(function, key, value, tensors) for key, value in args.items()}


def _written(function: Callable[..., Any], args: Mapping[str, Any], tensors: bool) -> dict[str, Any]:
    """Arguments that have been read as a recipe holds them; what cannot be written down is refused."""
    written = {key: value if isinstance(value, Spec) or (tensors and isinstance(value, torch.Tensor))
               else checked_literal(f"{function.__name__}: {key}", value) for key, value in args.items()}
    length = sum(len(literal(value)) for value in written.values() if isinstance(value, Sequence | Mapping))
    if length > LONGEST:
        raise AskewError(f"{function.__name__}: its arguments take {length:,} characters to write down, and a recipe's "
                         f"call has at most {LONGEST:,}; give less, or let the piece read it from a file")
    return written


def _read_argument(function: Callable[..., Any], key: str, value: Any, tensors: bool) -> Any:
    kind, hint = _inner_kind(function, key), hints_of(function).get(key, Any)
    if kind is not None:
        if dataclass_with_spec(value) and value.spec is not None:
            return value.spec
        if isinstance(value, Spec) or (isinstance(value, str) and "(" in value):
            return parse(kind, value)
    if isinstance(value, CallText | Spec):
        raise AskewError(f"{function.__name__}: {key} must be {hint_name(hint)}, not {shortened(str(value), 80)}")
    if key not in INJECTED and not (tensors and isinstance(value, torch.Tensor)):
        value = plain(value)  # the same whether it comes from Python or from a file
    return accepted(f"{function.__name__}: {key}", value, hint, tensors)


def _inner_kind(function: Callable[..., Any], key: str) -> str | None:
    """The kind of the pieces that an argument takes: that of a type among its types, if one has any (`Schedule`)."""
    kinds = [getattr(option, "kind", None) for option in options(hints_of(function).get(key))]
    return next((kind for kind in kinds if isinstance(kind, str)), None)


def _shown(function: Callable[..., Any]) -> str:
    parameters = [p for key, p in parameters_of(function).items() if key not in INJECTED]
    return str(inspect.Signature(parameters))

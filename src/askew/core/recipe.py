"""A recipe: one experiment as a typed value that can be written to a file and read back.

Every field is a number, a word or a piece by name, so that a recipe in Python, in a TOML file and on the command
line (`--set`) is the same value. Methods (`askew.pieces.methods`) are functions from recipe to recipe.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from askew.core import registry
from askew.core.arguments import accepted, bare, checked, hints_of
from askew.core.bounds import LARGEST, Bounds, Count
from askew.core.errors import AskewError, first_line, shown, suggest
from askew.core.files import MEGABYTE, read_text
from askew.core.migrate import FIELDS_OF_CLIENTS, FIELDS_OF_COMBINATORS, migrate
from askew.core.population_spec import PopulationSpec
from askew.core.registry import Spec

# Field -> kind of the pieces it holds.
PIECE_FIELDS = {"data": "data", "preprocess": "preprocess", "population": "partition", "model": "model",
                "start": "start", "objective": "objective", "client": "client", "server": "server", "pool": "pool",
                "probes": "probe", "adversity": "adversity", "guard": "guard"}
LIST_FIELDS = ("preprocess", "client", "server", "probes", "adversity", "guard")
LARGEST_FILE = 4 * MEGABYTE  # a recipe of all pieces has a few kilobytes
LONGEST_NAME = 200  # characters: names stand in tables and in the names of folders
FORMAT = 4  # of recipes and their fingerprints. 1: taken over the whole text; 2 and 3: see `migrate`
Pieces = Sequence[Any]  # strings, Specs or made pieces before __post_init__, Specs after it


@dataclass(frozen=True)
class Recipe:
    """One experiment.

    Args:
        name: the name under which reports show it.
        data: the data set.
        preprocess: what happens to inputs between storage and network.
        population: how the training examples are shared out among clients, and what is kept back: a scheme and
            combinators, `iid(clients=10) + hold_out(0.05)`.
        model: the network.
        start: where its weights start from.
        objective: what is minimised, and what a model is judged by.
        client: the pieces of a client's round: what is done to a gradient, what makes a step of it, what an update
            passes on its way to the server.
        epochs: local epochs E in each round.
        batch_size: local batch size B; 0 takes all of a client's examples at once.
        server: the pieces of the server's update.
        pool: which global models exist.
        fraction: fraction C of the clients that train in a round.
        rounds: communication rounds.
        evaluate_every: rounds between evaluations; the last round is always evaluated.
        stop_after_no_gain: stop before the last round when the headline on held-out training examples (clients'
            validation examples, else the server's) has not gained in so many rounds; 0: never.
        judge: "global" takes the accuracy (the objective's headline) on the test set, "devices" the mean over clients
            of that on each one's own test data; "auto" takes devices where the population or the pool is about devices.
        probes: further measurements in each round.
        adversity: what goes wrong with clients.
        guard: which updates the server leaves out.
        seed: of every random stream.
    """

    name: str = "fedavg"
    data: Any = "digits()"
    preprocess: Pieces = ()
    population: Any = "shards(clients=10, shards_per_client=2)"
    model: Any = "mlp(hidden=[64])"
    start: Any = "random()"
    objective: Any = "cross_entropy()"
    client: Pieces = ("sgd(lr=0.1)",)
    epochs: Count = 1
    batch_size: Annotated[int, Bounds(0, LARGEST)] = 10
    server: Pieces = ("mean()",)
    pool: Any = "single_model()"
    fraction: Annotated[float, Bounds(0, 1, open_low=True)] = 1.0
    rounds: Count = 50
    evaluate_every: Count = 1
    stop_after_no_gain: Annotated[int, Bounds(0, LARGEST)] = 0
    judge: Literal["auto", "global", "devices"] = "auto"
    probes: Pieces = ()
    adversity: Pieces = ()
    guard: Pieces = ()
    seed: int = 0

    def __post_init__(self) -> None:
        self._read(hints_of(Recipe))

    def _read(self, fields: Iterable[str]) -> None:
        """Check fields that have been given, and turn pieces into Specs."""
        hints = hints_of(Recipe)
        for name in fields:
            value = getattr(self, name)
            if name in PIECE_FIELDS:
                object.__setattr__(self, name, _as_specs(name, value))
                continue
            value = accepted(name, value, hints[name])
            object.__setattr__(self, name, float(value) if bare(hints[name]) is float else value)
        if not self.name.isprintable() or len(self.name) > LONGEST_NAME:
            raise AskewError(f"name must be one line of at most {LONGEST_NAME} printable characters, not "
                             f"{shown(self.name)}")

    def replace(self, **changes: Any) -> Recipe:
        """A variant of this recipe."""
        for name in changes:
            _check_key(name)
        variant = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(variant, name, value)
        variant._read(changes)  # the others have been read before
        return variant

    @checked
    def with_setting(self, address: str, value: Any) -> Recipe:
        """A variant with one field, or one argument of a piece, changed.

        Args:
            address: a field (`rounds`) or piece.argument (`sgd.lr`, or `decay.start` of a schedule inside
                it), as `--set` writes it; `client.adam.lr` and `server.adam.lr`, with the field in
                front, where both have a piece of that name. One that takes the same arguments in both (`quantize`)
                is changed in both without it.
            value: the new value.
        """
        if "." not in address:
            return self.replace(**{address: value})
        *place, target, argument = address.rsplit(".", 2)
        held = {name: _pieces(name, getattr(self, name)) for name in _fields_at(address, *place)}
        _check_one_meaning(address, target, held)
        changes: dict[str, Any] = {}
        for name, pieces in held.items():
            named = any(target in registry.names_in(spec) for _, spec in pieces)
            if named or (name == target and pieces):
                piece = target if named else pieces[0][1].name
                changes[name] = _put_together(name, [registry.with_argument(spec, piece, argument, value)
                                                     for _, spec in pieces])
        if changes:
            return self.replace(**changes)
        present = [name for pieces in held.values() for _, spec in pieces for name in registry.names_in(spec)]
        raise AskewError(f"{address}: the recipe has no piece {target!r}; {suggest(target, present)}")

    @property
    def fingerprint(self) -> str:
        """What a run does, in 12 digits: two recipes that differ only in name or seed have the same.

        Taken over what is not as it is by default, so that a further field, or a further argument of a piece, with a
        default that leaves all as it was, leaves the fingerprint as it was. Whoever changes a default raises `FORMAT`.

        Example:
            >>> plain = Recipe(server="momentum()")
            >>> spelt_out = Recipe(name="other", seed=3, server=["momentum(beta=0.9, nesterov=False)"], rounds=50)
            >>> plain.fingerprint == spelt_out.fingerprint
            True
        """
        return self.fingerprint_without("name", "seed")

    def fingerprint_without(self, *fields: str) -> str:
        """What two recipes have in common that differ in these fields only."""
        cls: Any = type(self)
        values = {field.name: _essential(field.name, getattr(self, field.name)) for field in dataclasses.fields(self)
                  if field.name not in fields}
        text = "\n".join(f"{name} = {value}" for name, value in sorted(values.items()) if value != _default(cls, name))
        return hashlib.sha256(f"format {FORMAT}\n{text}".encode()).hexdigest()[:12]

    def to_toml(self) -> str:
        """The recipe as a TOML file that `from_toml` reads back to an equal value."""
        lines = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            lines.append(f"{field.name} = {_toml(value)}")
        return "\n".join(lines) + "\n"

    @classmethod
    @checked
    def from_mapping(cls, values: Mapping[str, Any]) -> Recipe:
        """From a file's keys, also those of an earlier version (see `migrate`)."""
        values = migrate(values)
        for name in values:
            _check_key(name)
        return cls(**values)

    @classmethod
    @checked
    def from_toml(cls, text: str) -> Recipe:
        """From what `to_toml` wrote; an empty text is what is left of a file, and no recipe."""
        if not (values := read_toml(text, "recipe")):
            raise AskewError("the recipe is empty: it was not written to its end; for the default recipe write "
                             "Recipe(), or name no file")
        return cls.from_mapping(values)


def read_toml(text: str, where: str) -> dict[str, Any]:
    """Parse TOML; an error names the place and the line."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # 5,000 digits are a ValueError, 1,000 brackets a RecursionError
        raise AskewError(f"{where} is not valid TOML: {first_line(error)}") from None


def read_file(path: Path) -> dict[str, Any]:
    """The keys of a recipe file."""
    if not path.exists():
        raise AskewError(f"no recipe file {str(path)!r}")
    return read_toml(read_text(path, "recipe", LARGEST_FILE), str(path))


def parse_value(text: str) -> Any:
    """A value as `--set` writes it: TOML where it parses, else a plain word (so that quotes may be left out)."""
    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return read["value"] if list(read) == ["value"] else text


def _check_key(name: str) -> None:
    known = [field.name for field in dataclasses.fields(Recipe)]
    if name in FIELDS_OF_COMBINATORS:
        call = "hold_out(0.05, use=100)" if name.startswith("hold_out") else f"{name}(0.2)"
        raise AskewError(f"{name!r} is a part of population now: write '... + {call}' behind the scheme")
    if name in FIELDS_OF_CLIENTS:
        raise AskewError(f"{name!r} is a part of client now: write client = [...], all pieces of a client's round in "
                         "their order")
    if name not in known:
        raise AskewError(f"unknown key {name!r}; {suggest(name, known)}")


def _fields_at(address: str, place: str | None = None) -> Sequence[str]:
    """The fields that may hold a piece."""
    if place is None:
        return list(PIECE_FIELDS)
    if place not in PIECE_FIELDS:
        raise AskewError(f"{address}: there is no {place!r} in a recipe; {suggest(place, PIECE_FIELDS)}")
    return [place]


def _check_one_meaning(address: str, target: str, held: Mapping[str, Sequence[tuple[str, Spec]]]) -> None:
    """Refuse a name that pieces of two kinds have which take different arguments."""
    kinds = dict.fromkeys(kind for pieces in held.values() for kind, spec in pieces if spec.name == target)
    if len({tuple(registry.parameters_of(registry.find(kind, target))) for kind in kinds}) > 1:
        raise AskewError(f"{address}: {' and '.join(kinds)} both have a piece {target!r}; write "
                         f"{' or '.join(f'{kind}.{address}' for kind in kinds)}")


def _as_specs(name: str, value: Any) -> Any:
    kind = PIECE_FIELDS[name]

    def one(item: Any) -> Spec:
        if registry.dataclass_with_spec(item) and item.spec is not None:
            item = item.spec  # a piece made in Python
        if not isinstance(item, str | Spec):
            raise AskewError(f"{name} must name a piece of kind {kind}, such as {registry.names(kind)[0]}(), not "
                             f"{shown(item)}")
        return registry.parse(kind, registry.without_tensors(item) if isinstance(item, Spec) else item)

    if name == "population":
        return PopulationSpec.of(value)
    if name in LIST_FIELDS:
        if not isinstance(value, list | tuple | np.ndarray) or (isinstance(value, np.ndarray) and value.ndim == 0):
            value = [value]
        return tuple(one(item) for item in value)
    return one(value)


@functools.cache
def _default(recipe: Any, name: str) -> str:
    """What `_essential` makes of a field's default."""
    value = recipe.__dataclass_fields__[name].default
    return _essential(name, _as_specs(name, value) if name in PIECE_FIELDS else value)


def _essential(name: str, value: Any) -> str:
    """A field's value without what is as it is by default."""
    if name not in PIECE_FIELDS:
        return repr(float(value) if bare(hints_of(Recipe).get(name)) is float else value)
    return ", ".join(_essential_piece(kind, str(spec)) for kind, spec in _pieces(name, value))


@functools.lru_cache(maxsize=4096)  # the papers' thousands of recipes are made of a few pieces
def _essential_piece(kind: str, text: str) -> str:
    return str(registry.essential(kind, registry.parse(kind, text)))


def _pieces(name: str, value: Any) -> list[tuple[str, Spec]]:
    """The pieces that a field holds, each with its kind."""
    if isinstance(value, PopulationSpec):
        return [(PIECE_FIELDS[name], value.scheme), *(("combinator", spec) for spec in value.combinators)]
    return [(PIECE_FIELDS[name], spec) for spec in (value if isinstance(value, tuple) else (value,))]


def _put_together(name: str, specs: Sequence[Spec]) -> Any:
    """The field that holds these pieces."""
    if name == "population":
        return PopulationSpec(specs[0], tuple(specs[1:]))
    return tuple(specs) if name in LIST_FIELDS else specs[0]


def _toml(value: Any) -> str:
    if isinstance(value, Spec | PopulationSpec):
        return json.dumps(str(value), ensure_ascii=False)  # TOML knows no surrogate pairs, which JSON's escapes use
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)

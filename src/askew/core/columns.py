"""How the columns of a table become the inputs of a network, with the numbers that this takes; kept with the model.

Categories, means and vocabularies are those of the training rows: nothing of the rows for the test is in them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor

from askew.core.arguments import check_fields
from askew.core.bounds import Bounds
from askew.core.cells import Values, absent, numbers, words
from askew.core.errors import AskewError, shown, suggest

Missing = Literal["refuse", "mean", "drop", "indicator"]
Unknown = Literal["refuse", "none"]
PADDING, UNKNOWN = 0, 1  # numbers of no word and of a word that is not in the vocabulary
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Feature:
    """A column of numbers, one input, or of categories, one input for each, 1 where it is this one.

    Args:
        name: of the column.
        categories: in order; none of numbers.
        fill: what stands for an empty cell: the mean, or the most frequent category; none where they are refused.
        indicator: whether a further input says that the cell was empty; an empty category is then none of them.

    Example:
        >>> ward = Feature("ward", ("east", "north"))
        >>> ward.encode("visits.csv", ["north", "east"]).tolist(), ward.inputs
        ([[0.0, 1.0], [1.0, 0.0]], ['ward=east', 'ward=north'])
        >>> Feature("age", fill=40.0, indicator=True).encode("visits.csv", ["30", ""]).tolist()
        [[30.0, 0.0], [40.0, 1.0]]
    """

    name: str
    categories: tuple[str, ...] | None = None
    fill: float | str | None = None
    indicator: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.fill is not None and isinstance(self.fill, str) is (self.categories is None):
            raise AskewError(f"column {self.name!r}: {shown(self.fill)} cannot stand for an empty cell")
        if self.categories is not None and len(set(self.categories)) < len(self.categories):
            raise AskewError(f"column {self.name!r}: a category is there twice")

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs that it becomes."""
        names = [self.name] if self.categories is None else [f"{self.name}={word}" for word in self.categories]
        return [*names, *([f"{self.name} is empty"] if self.indicator else [])]

    def encode(self, where: str, values: Values, unknown: Unknown = "refuse", decimal: str = ".",
               rows: np.ndarray | None = None) -> np.ndarray:
        """Cells as inputs, float32 [rows, inputs].

        Args:
            where: the table, for errors.
            unknown: what becomes of a category that is none of ours.
            rows: their numbers in the table, from 0, for errors; default: all of its rows.
        """
        floats, bad = (None, None) if self.categories is not None else numbers(values, decimal)
        empty = absent(values) if floats is None or bad is None else np.isnan(floats) & ~bad
        if empty.any() and self.fill is None and not self.indicator:
            raise AskewError(f"{where}: {empty_cells({self.name: empty})}; the model was trained on rows without gaps: "
                             "fill them, or leave these rows out")
        if floats is None or bad is None:
            inputs = self._categories(where, values, unknown, rows)
        elif bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise AskewError(f"{where}: column {self.name!r} holds {shown(values[at])} in {_row(rows, at)}; it must "
                             "hold finite numbers")
        else:
            inputs = np.where(empty, np.float32(self.fill or 0.0), floats)[:, None]
        return np.concatenate([inputs, empty[:, None].astype(np.float32)], axis=1) if self.indicator else inputs

    def _categories(self, where: str, values: Values, unknown: Unknown, rows: np.ndarray | None) -> np.ndarray:
        assert self.categories is not None
        place = {word: at for at, word in enumerate(self.categories)}
        given = words(values)
        if isinstance(self.fill, str):
            given = [self.fill if word is None else word for word in given]
        strange = [row for row, word in enumerate(given) if word is not None and word not in place]
        if strange and unknown == "refuse":
            word = given[strange[0]]
            raise AskewError(f"{where}: column {self.name!r} holds {shown(word)} in {_row(rows, strange[0])}, which no "
                             f"training row had; {suggest(word, self.categories[:100])}")
        result = np.zeros((len(given), len(place)), np.float32)
        known = [(row, place[word]) for row, word in enumerate(given) if word is not None and word in place]
        if known:
            result[tuple(np.array(known).T)] = 1.0
        return result


@dataclass(frozen=True)
class Text:
    """A column of text as the numbers of its words.

    Words are runs of letters and digits in lower case, and single other signs. A text longer than `length` is cut, a
    shorter one filled up with 0; words that are not in the vocabulary are 1.

    Args:
        name: of the column.
        vocabulary: the words that have the numbers 2, 3, ...
        length: places of each example.

    Example:
        >>> note = Text.fit("note", ["No pain.", "Pain, pain!"], vocabulary=4, length=5)
        >>> note.vocabulary, note.encode(["pain; no pain"]).tolist()
        (('pain', '!'), [[2, 1, 1, 2, 0]])
    """

    name: str
    vocabulary: tuple[str, ...]
    length: Annotated[int, Bounds(1, 100_000)]

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def fit(cls, name: str, values: Values, vocabulary: int, length: int) -> Text:
        """The most frequent words of some texts; of equally frequent ones, the first in the alphabet.

        Args:
            vocabulary: numbers in all, those of no word and of an unknown one included.
        """
        counts = Counter(token for text in words(values) for token in tokens(text or ""))
        order = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(name, tuple(order[: max(0, vocabulary - 2)]), length)

    def encode(self, values: Values) -> np.ndarray:
        """Texts as int64 [rows, length]."""
        place = {word: at for at, word in enumerate(self.vocabulary, start=2)}
        result = np.full((len(values), self.length), PADDING, np.int64)
        for row, text in enumerate(words(values)):
            word_numbers = [place.get(word, UNKNOWN) for word in tokens(text or "")[: self.length]]
            result[row, : len(word_numbers)] = word_numbers
        return result


@dataclass(frozen=True)
class Columns:
    """The columns of a table: those that are inputs, and those of the label and the client.

    Args:
        features: in the order of the inputs; none where a text is the input.
        label: the column or columns to be learnt.
        client: the column of the client, if there is one.
        others: columns of the table that are not used.
        missing: what became of empty cells.
        text: the column of text, where that is the input.
        decimal: the mark between whole and fraction in numbers.
        delimiter: between the cells of CSV, where it was given.
    """

    features: tuple[Feature, ...]
    label: tuple[str, ...]
    client: str | None = None
    others: tuple[str, ...] = ()
    missing: Missing = "refuse"
    text: Text | None = None
    decimal: Literal[".", ","] = "."
    delimiter: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def used(self) -> list[str]:
        """The columns that inputs are made of."""
        return [feature.name for feature in self.features] if self.text is None else [self.text.name]

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs, one each; of a text, its places."""
        if self.text is not None:
            return [f"{self.text.name} {place}" for place in range(self.text.length)]
        return [name for feature in self.features for name in feature.inputs]

    def encode(self, where: str, columns: Mapping[str, Values], unknown: Unknown = "refuse",
               rows: np.ndarray | None = None) -> Tensor:
        """Rows as inputs: float32 [rows, inputs], of a text int64 [rows, places].

        Args:
            rows: as in `Feature.encode`.
        """
        if self.text is not None:
            return torch.from_numpy(self.text.encode(columns[self.text.name]))
        return torch.from_numpy(np.concatenate(
            [f.encode(where, columns[f.name], unknown, self.decimal, rows) for f in self.features], axis=1))

    def check(self, where: str, names: Sequence[str]) -> None:
        """Refuse a table that lacks a column, or has one that was not there when the model was trained."""
        for name in self.used:
            if name not in names:
                raise AskewError(f"{where}: no column {name!r}, which the model needs; {suggest(name, names[:100])}")
        known = {*self.used, *self.label, *self.others, self.client}
        for name in names:
            if name not in known:
                raise AskewError(f"{where}: column {name!r} was not in the table that the model was trained on: leave "
                                 f"it out; {suggest(name, self.used[:100])}")

    def as_mapping(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, value: Any) -> Columns:
        """From what `as_mapping` gave; whatever else it is given is refused."""
        args = dict(of_fields(cls, "table", value))
        features = args.get("features")
        if not isinstance(features, list | tuple):
            raise AskewError(f"table: features must be a list, not {shown(features)}")
        text = args.get("text")
        return cls(**{**args, "features": tuple(Feature(**of_fields(Feature, "feature", f)) for f in features),
                      "text": None if text is None else Text(**of_fields(Text, "text", text))})


def tokens(text: str) -> list[str]:
    """The words of a text, and its other signs.

    Example:
        >>> tokens("It's 38.5 °C")
        ['it', "'", 's', '38', '.', '5', '°', 'c']
    """
    return _TOKEN.findall(text.lower())


def _row(rows: np.ndarray | None, at: int) -> str:
    return f"row {(at if rows is None else int(rows[at])) + 1}"


def empty_cells(empty: Mapping[str, np.ndarray]) -> str:
    """Which columns have empty cells, how many, and where the first is.

    Example:
        >>> empty_cells({"age": np.array([False, True, True]), "ward": np.array([True, False, False])})
        "column 'age' has no value in 2 of 3 rows (the first: row 2), 'ward' in 1"
    """
    (name, first), *further = empty.items()
    said = f"column {name!r} has no value in {int(first.sum()):,} of {len(first):,} rows (the first: row " \
           f"{int(np.flatnonzero(first)[0]) + 1:,})"
    return said + "".join(f", {other!r} in {int(rows.sum()):,}" for other, rows in further[:5]) + (
        f" and {len(further) - 5} further columns" if len(further) > 5 else "")


def of_fields(cls: type, what: str, value: Any) -> dict[str, Any]:
    """An object of a file as arguments of a dataclass: none unknown, none lacking that has no default."""
    known = {field.name: field for field in fields(cls)}
    if not isinstance(value, dict):
        raise AskewError(f"{what} must be an object, not {shown(value)}")
    for name in value:
        if name not in known:
            raise AskewError(f"{what}: unknown key {shown(name)}; {suggest(name, known)}")
    for name, field in known.items():
        if field.default is MISSING and name not in value:
            raise AskewError(f"{what}: it has no {name!r}")
    return value

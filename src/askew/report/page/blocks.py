"""What a page is made of: sections of text, tables, figures, code, and choices among such blocks.

The template (page.html) has one macro for each; it escapes every text. In figures, where plotly reads a few tags of
HTML in names, `Figure.json` does it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DASHES = ("solid", "6px,3px", "2px,2px", "8px,3px,2px,3px")
HEAT = [[0, "--paper"], [1, "--deep"]]  # from nothing to all
COLOURS = 8  # --c0 to --c7 in style.css
_OURS = ("hovertemplate", "texttemplate")  # texts with tags, written here and never made of names


class Block:
    """A part of a section."""

    @property
    def kind(self) -> str:
        """By which the template knows it."""
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Text(Block):
    """A paragraph; a note says what is missing and why."""

    text: str
    is_note: bool = False


@dataclass(frozen=True)
class Code(Block):
    """Text as it is, folded away under a title."""

    title: str
    text: str


@dataclass(frozen=True)
class Fact:
    """One number of the first screen."""

    title: str
    value: str
    about: str


@dataclass(frozen=True)
class Facts(Block):
    facts: Sequence[Fact]


@dataclass(frozen=True)
class Line:
    """How a series looks: its number among all, whether it is the ceiling; `group` hides it in every figure at once."""

    label: str
    group: str
    colour: str
    dash: str = "solid"


@dataclass(frozen=True)
class Table(Block):
    """Rows of texts; a column's title that begins with '#' is of numbers, and set to the right.

    Args:
        lines: of each row's series, drawn before its first cell; or none at all.
        strong: rows that stand out.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    lines: Sequence[Line] = ()
    strong: Sequence[int] = ()


@dataclass(frozen=True)
class Figure(Block):
    """A plot: what plotly draws, and the lines that can be switched on and off under it.

    Colours are names of style.css, `--c0`, with an opacity behind a stroke, `--c0/0.2`, so that themes can change them.

    Args:
        alt: what it shows, in words.
    """

    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    alt: str
    height: int = 340
    lines: Sequence[Line] = ()

    @property
    def json(self) -> str:
        """For a script element: no text in it can end that, and none is markup to plotly."""
        text = json.dumps(_plain({"data": list(self.data), "layout": dict(self.layout)}), allow_nan=False,
                          separators=(",", ":"))
        return text.replace("<", "\\u003c")


@dataclass(frozen=True)
class Choice(Block):
    """One of several lists of blocks at a time; choices of one `key` go together through the page."""

    key: str
    title: str
    options: Sequence[tuple[str, Sequence[Any]]]
    chosen: int = 0


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    blocks: Sequence[Any] = field(default_factory=list)


def line(number: int, label: str, group: str) -> Line:
    """The look of the n-th line of a figure: neighbours differ in colour and in dashes, and 32 lines in one of them."""
    return Line(label, group, f"--c{number % COLOURS}", DASHES[(number + number // COLOURS) % len(DASHES)])


def axis(title: str, is_share: bool = False, **more: Any) -> dict[str, Any]:
    """An axis; of shares, in percent."""
    return {"title": {"text": title}, **({"tickformat": ".0%"} if is_share else {}), **more}


def ticks(names: Sequence[str], most: int = 28) -> dict[str, Any]:
    """Of an axis: names in place of 0, 1, ..., those that are longer than so many letters cut."""
    return {"tickvals": list(range(len(names))), "ticktext": [cut(name, most) for name in names]}


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def hover(where: str, is_share: bool) -> str:
    """How plotly writes a number of a point: that on its axis `x` or `y`."""
    return f"%{{{where}:.1%}}" if is_share else f"%{{{where}:.4g}}"


def points(look: Line, x: Sequence[float], y: Sequence[float], **more: Any) -> dict[str, Any]:
    """A line through points; a mark where there is but one."""
    return {"type": "scatter", "mode": "lines" if len(x) > 1 else "markers", "name": look.label,
            "legendgroup": look.group, "x": x, "y": y,
            "line": {"color": look.colour, "dash": look.dash, "width": 2}, "marker": {"color": look.colour, "size": 8},
            **more}


def heat_map(cells: Sequence[Sequence[float | None]], bar: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Cells coloured from nothing to all.

    Args:
        bar: what the bar beside them says.
    """
    return {"type": "heatmap", "z": cells, "x": list(range(len(cells[0]))), "y": list(range(len(cells))), "zmin": 0,
            "zmax": 1, "colorscale": HEAT, "xgap": 1, "ygap": 1,
            "colorbar": {"thickness": 10, "outlinewidth": 0, **bar}, **more}


def _plain(value: Any, key: str = "") -> Any:
    """As JSON has it: five digits per number, null for NaN, and texts that plotly takes for nothing but text."""
    if isinstance(value, Mapping):
        return {name: _plain(item, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, key) for item in value]
    if hasattr(value, "tolist"):  # numpy's
        return _plain(value.tolist(), key)
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, str) and key not in _OURS:
        return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return value

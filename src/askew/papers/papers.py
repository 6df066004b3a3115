"""The papers, and their tables and figures by address: `zhao2018`, `zhao2018/table3-mnist`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable

from askew.core.errors import AskewError, suggest
from askew.papers.item import Builders, Item

PAPERS = ("zhao2018", "hsu2019", "fedcd2020", "fednnnn2020", "ozdayi2020")


@functools.cache
def listed(paper: str) -> Builders:
    """A paper's tables and figures by name, as `askew.papers.PAPER.items` lists them; none of them is built."""
    builders: Builders = importlib.import_module(f"askew.papers.{paper}.items").items()
    return builders


def all_items() -> tuple[Item, ...]:
    """Every table and figure of every paper."""
    return tuple(item for paper in PAPERS for item in find(paper))


def find(address: str) -> tuple[Item, ...]:
    """The items that an address means, and only these are built: a paper's short name means all of the paper's.

    Args:
        address: `PAPER` or `PAPER/ITEM`.
    """
    paper, slash, name = address.partition("/")
    if paper not in PAPERS:
        raise AskewError(f"unknown paper {paper!r}; {suggest(paper, PAPERS)}")
    builders = listed(paper)
    if slash and name not in builders:
        raise AskewError(f"{paper} has no item {name!r}; {suggest(name, builders)}")
    return tuple(_built(builders[each]) for each in ((name,) if slash else builders))


@functools.cache
def _built(builder: Callable[[], Item]) -> Item:
    """The item, built once."""
    return builder()

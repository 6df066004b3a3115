"""The papers, and their tables and figures by address: `zhao2018`, `zhao2018/table3-mnist`."""

from __future__ import annotations

import functools
import importlib

from askew.core.errors import AskewError
from askew.core.registry import suggest
from askew.papers.item import Item

PAPERS = ("zhao2018", "hsu2019", "fedcd2020", "fednnnn2020", "ozdayi2020")


@functools.cache
def items_of(paper: str) -> tuple[Item, ...]:
    """A paper's tables and figures, as `askew.papers.PAPER.items` describes them."""
    return tuple(importlib.import_module(f"askew.papers.{paper}.items").items())


def all_items() -> tuple[Item, ...]:
    """Every table and figure of every paper."""
    return tuple(item for paper in PAPERS for item in items_of(paper))


def find(address: str) -> tuple[Item, ...]:
    """The items that an address means: a paper's short name means all of the paper's.

    Args:
        address: `PAPER` or `PAPER/ITEM`.
    """
    paper, slash, name = address.partition("/")
    if paper not in PAPERS:
        raise AskewError(f"unknown paper {paper!r}; {suggest(paper, PAPERS)}")
    meant = tuple(item for item in items_of(paper) if not slash or item.name == name)
    if not meant:
        raise AskewError(f"{paper} has no item {name!r}; {suggest(name, [item.name for item in items_of(paper)])}")
    return meant

"""The papers, and their tables and figures by address: `zhao2018`, `zhao2018/table3-mnist`."""

from __future__ import annotations

import functools
import importlib

from askew.core.errors import AskewError
from askew.core.registry import suggest
from askew.reproduce.item import Item

PAPERS = ("zhao2018", "hsu2019", "fedcd2020", "fednnnn2020", "ozdayi2020")


@functools.cache
def all_items() -> tuple[Item, ...]:
    """Every table and figure of every paper; `askew.recipes.PAPER` describes those of one."""
    return tuple(item for paper in PAPERS for item in importlib.import_module(f"askew.recipes.{paper}").items())


def find(address: str) -> tuple[Item, ...]:
    """The items that an address means: a paper's short name means all of the paper's.

    Args:
        address: `PAPER` or `PAPER/ITEM`.
    """
    items = all_items()
    meant = tuple(item for item in items if address in (item.paper, item.address))
    if meant:
        return meant
    paper, slash, name = address.partition("/")
    papers = list(dict.fromkeys(item.paper for item in items))
    if not slash or paper not in papers:
        raise AskewError(f"unknown paper {paper!r}; {suggest(paper, papers)}")
    raise AskewError(f"{paper} has no item {name!r}; {suggest(name, [item.name for item in items if item.paper == paper])}")

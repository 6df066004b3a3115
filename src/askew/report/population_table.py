"""A federation as a table in the terminal: a row per client, and the whole in a few lines."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from askew.core import skew
from askew.report.palette import class_colours

MOST_ROWS = 30
_BAR = 30  # characters
_MARKS = string.digits + string.ascii_lowercase + string.ascii_uppercase  # one per class: readable without colour


def client_rows(counts: np.ndarray, reference: np.ndarray | None, client_names: Sequence[str], clients: np.ndarray,
                title: str | None = None, column: str = "client") -> Table:
    """One row for each of `clients`: size, classes, EMD, entropy and a bar with a mark for each thirtieth.

    Args:
        counts: examples per client and class.
        reference: examples of each class in the whole; None pools the clients.
        client_names: of all clients.
        clients: which to show.
        title: above the table.
        column: what clients are called: hospital.
    """
    table = Table(title=title, box=None, header_style="bold", title_style="bold", title_justify="left", pad_edge=False)
    table.add_column(Text(column), overflow="fold")  # the only one that may be broken: numbers stay whole
    for name in ("examples", "classes", "EMD", "entropy"):
        table.add_column(name, justify="right", no_wrap=True)
    with_bar = counts.shape[1] <= len(_MARKS)
    if with_bar:
        table.add_column("class distribution", no_wrap=True)
    distances, bits = skew.emd(counts, reference), skew.entropy(counts)
    held = skew.classes_per_client(counts)
    for k in clients.tolist():
        row: list[str | Text] = [
            Text(client_names[k]), f"{counts[k].sum():,}", str(held[k]), f"{distances[k]:.3f}", f"{bits[k]:.2f}"]
        table.add_row(*row, *([_bar(counts[k])] if with_bar else []))
    return table


def _bar(row: np.ndarray) -> Text:
    ends = np.rint(np.cumsum(row) / row.sum() * _BAR).astype(int)
    text = Text()
    for label, (colour, length) in enumerate(zip(class_colours(len(row)), np.diff(ends, prepend=0), strict=True)):
        text.append(_MARKS[label] * int(length), style=colour)
    return text


def summary(counts: np.ndarray, reference: np.ndarray | None) -> dict[str, Any]:
    """The whole federation in numbers, for `--json` and for the lines under a table."""
    sizes = counts.sum(axis=1)
    by_chance = skew.chance_emd(sizes, skew.reference_shares(counts, reference))
    return {
        "clients": len(counts), "classes": counts.shape[1], "examples": int(sizes.sum()),
        "mean_emd": skew.mean_emd(counts, reference),
        "weighted_mean_emd": skew.mean_emd(counts, reference, weighted=True),
        "largest_emd": skew.largest_emd(counts.shape[1]),
        "chance_emd": float(np.average(by_chance, weights=sizes)),
        "mean_entropy": float(skew.entropy(counts).mean()),
        "mean_classes_per_client": float(skew.classes_per_client(counts).mean()),
    }


def summary_rows(counts: np.ndarray, reference: np.ndarray | None) -> Table:
    """The same as a table of two columns."""
    facts, sizes = summary(counts, reference), counts.sum(axis=1)
    held = skew.classes_per_client(counts)
    distances = skew.emd(counts, reference)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    table.add_row("clients", f"{facts['clients']:,} with {facts['examples']:,} examples of {facts['classes']} classes")
    table.add_row("sizes", f"{sizes.min():,} to {sizes.max():,}, median {np.median(sizes):,.0f}")
    table.add_row("classes per client", f"{held.min()} to {held.max()}, mean {held.mean():.1f}")
    table.add_row("EMD", f"{distances.min():.3f} to {distances.max():.3f}, mean {facts['mean_emd']:.3f}, weighted by "
                         f"examples {facts['weighted_mean_emd']:.3f}")
    table.add_row("", f"(one class only: {facts['largest_emd']:.3g}; by chance alone: {facts['chance_emd']:.3f})")
    table.add_row("entropy", f"mean {facts['mean_entropy']:.2f} bits of {np.log2(facts['classes']):.2f}")
    return table

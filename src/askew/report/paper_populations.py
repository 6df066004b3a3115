"""Federations side by side, before anything is trained: who has which classes (hsu2019, figure 1)."""

from __future__ import annotations

import numpy as np

from askew.core import skew
from askew.core.dataset import Source
from askew.data.cifar10 import CLASSES
from askew.papers.store import Results
from askew.papers.summary import ItemSummary
from askew.partition import draw
from askew.report.canvas import Axes, Figure
from askew.report.palette import class_colours
from askew.report.population_plot import MOST_BARS, _legend

_COLUMNS = 3
_EACH = 5_000  # training images of each class of CIFAR-10: all that a population depends on


def draw_populations(figure: Figure, summary: ItemSummary, results: Results) -> None:
    """A panel for each row, whose name is the population as a recipe writes it; up to 30 clients of seed 0."""
    plot = summary.item.plot
    assert plot is not None
    source = Source(np.repeat(np.arange(len(CLASSES)), _EACH), len(CLASSES),
                    test_labels=np.repeat(np.arange(len(CLASSES)), _EACH // 5))
    names = [row.name for row in summary.item.rows]
    columns = min(len(names), _COLUMNS)
    figure.set_figheight(0.9 + 2.3 * -(-len(names) // columns))
    panels = figure.subplots(-(-len(names) // columns), columns, squeeze=False).flatten()
    for axes, name in zip(panels, names, strict=False):
        counts = draw(name, source, 0).counts
        shown = np.unique(np.linspace(0, len(counts) - 1, min(len(counts), MOST_BARS)).round().astype(int))
        _bars(axes, skew.class_shares(counts[shown]))
        axes.set_title(f"{name.replace('clients=', '')}: EMD {skew.mean_emd(counts):.2f}", fontsize=7.5,
                       color="#333333")
        axes.grid(visible=False)
    for axes in panels[len(names):]:
        axes.remove()
    for axes in panels[:len(names)][-columns:]:
        axes.set_xlabel(plot.x_label)
    for axes in panels[:len(names):columns]:
        axes.set_ylabel(plot.y_label)
    _legend(figure, list(CLASSES))


def _bars(axes: Axes, shares: np.ndarray) -> None:
    """As in `population_plot`, without bars of no length: every bar is a line of the file."""
    starts = np.cumsum(shares, axis=1) - shares
    for label, colour in enumerate(class_colours(shares.shape[1])):
        some = np.flatnonzero(shares[:, label])
        axes.barh(some, shares[some, label], left=starts[some, label], height=0.86, color=colour, edgecolor="white",
                  linewidth=0.3)
    axes.set(xlim=(0, 1), ylim=(len(shares) - 0.4, -0.6), yticks=[])
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes.spines[["left", "bottom"]].set_visible(False)

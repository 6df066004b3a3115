"""A paper's figure from our results, as one picture with the paper's printed numbers in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from askew.core.errors import AskewError, suggest
from askew.papers.store import Results
from askew.papers.summary import ItemSummary
from askew.report.canvas import Figure, check_plot_path, save_figure
from askew.report.paper_archetypes import draw_archetypes, draw_changes, draw_preferences
from askew.report.paper_curves import draw_curves
from askew.report.paper_points import draw_points
from askew.report.paper_populations import draw_populations

# How an item is drawn (`Plot.kind`): a figure, what was measured -> the figure with axes in it.
KINDS: dict[str, Callable[[Figure, ItemSummary, Results], None]] = {
    "curves": draw_curves, "points": draw_points, "archetypes": draw_archetypes, "changes": draw_changes,
    "preferences": draw_preferences, "populations": draw_populations}
UNTRAINED = ("populations",)  # kinds that need no results
# Text stays text, to be searched, and read aloud by screen readers; its font is the reader's.
_TEXT_AS_TEXT: Any = {"svg.fonttype": "none"}


def write_figure(summary: ItemSummary, results: Results, path: Path) -> bool:
    """Draw an item, where it is a figure of which something has been measured.

    Args:
        summary: of the item.
        results: that it was made from.
        path: .svg, .png or .pdf; the same results write the same bytes.

    Returns:
        Whether there was anything to draw.
    """
    plot = summary.item.plot
    if plot is None:
        return False
    if plot.kind not in KINDS:
        raise AskewError(f"{summary.item.address}: unknown kind of plot {plot.kind!r}; {suggest(plot.kind, KINDS)}")
    if plot.kind not in UNTRAINED and not any(row.ours.mean is not None for row in summary.rows):
        return False
    draw = KINDS[plot.kind]
    path = check_plot_path(path, overwrite=True)
    save_figure(path, lambda figure: draw(figure, summary, results), (8.4, 3.8), 110, _TEXT_AS_TEXT)
    return True

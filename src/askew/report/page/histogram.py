"""How many clients have which value, as bars, with the mean."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from askew.report.page.blocks import Figure, axis

_BINS = 20


def histogram(values: np.ndarray, low: float, high: float, title: str, style: str) -> Figure:
    """Bars from `low` to `high`; the page gets counts, not values.

    Args:
        title: what is counted, of a client.
        style: how plotly writes it, as `.0%`.
    """
    if not low < high:
        low, high = low - 0.5, high + 0.5
    heights, edges = np.histogram(values, bins=_BINS, range=(low, high))
    mean = float(values.mean())
    data = [{"type": "bar", "x": (edges[:-1] + edges[1:]) / 2, "y": heights, "width": (high - low) / _BINS,
             "name": "clients", "customdata": [list(pair) for pair in pairwise(edges.tolist())],
             "marker": {"color": "--c0", "line": {"width": 0.5, "color": "--paper"}},
             "hovertemplate": f"%{{y}} clients from %{{customdata[0]:{style}}} to %{{customdata[1]:{style}}}"
                              "<extra></extra>"}]
    layout = {"xaxis": axis(title, range=[low, high], tickformat=style.replace("1%", "0%")), "margin": {"t": 28},
              "yaxis": axis("clients", rangemode="tozero", tickformat=",d", **_whole(int(heights.max()))),
              "shapes": [{"type": "line", "x0": mean, "x1": mean, "y0": 0, "y1": 1, "yref": "paper",
                          "line": {"color": "--ink", "width": 1.5, "dash": "dot"}}],
              "annotations": [{"x": mean, "y": 1, "yref": "paper", "text": f"mean {mean:{style}}", "showarrow": False,
                               "xanchor": "right" if mean > (low + high) / 2 else "left", "yanchor": "bottom"}]}
    return Figure(data, layout, f"how many clients have which {title}", height=240)


def _whole(most: int) -> dict[str, Any]:
    """Where plotly would put marks between whole numbers, which then all read as such: one mark for each.

    Example:
        >>> _whole(3), _whole(30)
        ({'dtick': 1}, {})
    """
    return {"dtick": 1} if most < 5 else {}

"""A picture of a federation: who has which classes, and how far clients are from the whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from askew.core import skew
from askew.report.canvas import Axes, Figure, check_plot_path, save_figure
from askew.report.palette import class_colours

MOST_BARS = 30  # as many clients as hsu2019's figure 1 shows
_MOST_NAMES = 25  # classes beyond this are shown as a scale, not by name
_MEAN = "#111111"  # no colour of a class


def plot_population(path: str | Path, counts: np.ndarray, *, reference: np.ndarray | None = None,
                    class_names: Sequence[str] | None = None, client_names: Sequence[str] | None = None,
                    title: str = "") -> None:
    """Write the picture: horizontal bars of class shares beside the distribution of EMD over all clients.

    At most 30 clients are drawn, evenly spaced among all (schemes number clients at random, so the choice is random
    too); the distribution is of all of them. Where sizes differ, a third panel shows them.

    Args:
        path: .png, .svg or .pdf.
        counts: examples per client and class.
        reference: examples of each class in the whole; None pools the clients.
        class_names: for the legend; else numbers.
        client_names: for the bars; else numbers.
        title: above everything.

    References:
        Hsu et al. 2019, figure 1.
    """
    path = check_plot_path(path, overwrite=True)
    names = [str(c) for c in range(counts.shape[1])] if class_names is None else list(class_names)
    clients = [str(k) for k in range(len(counts))] if client_names is None else list(client_names)
    shown = np.unique(np.linspace(0, len(counts) - 1, min(len(counts), MOST_BARS)).round().astype(int))
    sizes = counts.sum(axis=1)
    unequal = len(counts) > 1 and sizes.max() > 1.1 * sizes.min()

    def draw(figure: Figure) -> None:
        widths = [3.2, 0.8, 2.2] if unequal else [3.2, 2.2]
        axes = list(figure.subplots(1, len(widths), width_ratios=widths))
        _bars(axes[0], counts, shown, clients, names)
        if unequal:
            _sizes(axes[1], sizes, shown)
        _distances(axes[-1], skew.emd(counts, reference), counts.shape[1])
        if title:
            figure.suptitle(title, fontsize=11, fontweight="bold", color="#222222")
        _legend(figure, names)

    height = 1.9 + 0.145 * max(len(shown), 12) + (0.2 if len(names) > 10 else 0.0)
    save_figure(path, draw, (10.0, height), style={"axes.grid": False, "axes.axisbelow": "line"})


def _bars(axes: Axes, counts: np.ndarray, shown: np.ndarray, clients: list[str], names: list[str]) -> None:
    shares = skew.class_shares(counts[shown])
    place = np.arange(len(shown))
    left = np.zeros(len(shown))
    for label, colour in enumerate(class_colours(len(names))):
        axes.barh(place, shares[:, label], left=left, height=0.86, color=colour, edgecolor="white", linewidth=0.4)
        left += shares[:, label]
    axes.set(xlim=(0, 1), ylim=(len(shown) - 0.4, -0.6), xlabel="class distribution")
    axes.set_yticks(place, [_short(clients[k]) for k in shown], fontsize=7)
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes.tick_params(axis="y", length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_ylabel(f"client ({len(shown)} of {len(counts):,})" if len(shown) < len(counts) else "client")


def _sizes(axes: Axes, sizes: np.ndarray, shown: np.ndarray) -> None:
    axes.barh(np.arange(len(shown)), sizes[shown], height=0.86, color="#b8bec4")
    if sizes.max() > 30 * sizes.min():
        axes.set_xscale("log")
        axes.set_xlim(left=max(0.8, 0.5 * float(sizes[shown].min())))
    else:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(2, integer=True))
    axes.set(ylim=(len(shown) - 0.4, -0.6), xlabel="examples", yticks=[])
    axes.spines["left"].set_visible(False)


def _distances(axes: Axes, distances: np.ndarray, num_classes: int) -> None:
    largest = skew.largest_emd(num_classes)
    mean = float(distances.mean())
    top = max(largest, float(distances.max()))  # an uneven reference allows a little more than the uniform one
    bins = np.linspace(0, top, 37)
    heights, _, _ = axes.hist(np.clip(distances, 0, top), bins=list(bins), color="#5b7f9f", edgecolor="white",
                              linewidth=0.5)
    axes.axvline(mean, color=_MEAN, linewidth=1.4)
    ceiling = float(np.max(np.asarray(heights))) * 1.16
    left = mean > 0.55 * top
    axes.text(mean + (-0.02 if left else 0.02) * top, ceiling * 0.975, f"mean {mean:.2f}", color=_MEAN, fontsize=9,
              ha="right" if left else "left", va="top")
    axes.axvline(largest, color="#999999", linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set(xlim=(-0.02 * top, top * 1.03), ylim=(0, ceiling), ylabel="clients",
             xlabel=f"EMD from the whole (dashed: one class only, {largest:.3g})")
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))


def _legend(figure: Figure, names: list[str]) -> None:
    from matplotlib.patches import Patch

    colours = class_colours(len(names))
    picked = range(len(names))
    if len(names) > _MOST_NAMES:  # first, last and evenly between: the colours run in order
        picked = np.unique(np.linspace(0, len(names) - 1, 12).round().astype(int)).tolist()
    handles = [Patch(color=colours[c], label=_short(names[c])) for c in picked]
    columns = len(handles) if len(handles) <= 10 else -(-len(handles) // 2)
    figure.legend(handles=handles, loc="outside lower center", ncols=min(columns, 13), frameon=False, fontsize=8,
                  handlelength=1.0, handleheight=1.0, columnspacing=1.2, handletextpad=0.4)


def _short(name: str) -> str:
    return name if len(name) <= 14 else name[:13] + "…"

"""What all pictures share: where they may be written, how they look, and that the same numbers give the same bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from askew.core.errors import AskewError
from askew.core.files import check_new, written
from askew.report.palette import class_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # annotations alone: a command that draws nothing does not wait for matplotlib
    Axes = Figure = Any

FORMATS = (".png", ".svg", ".pdf")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)))
_STYLE: Any = {
    "font.family": "sans-serif", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
    "axes.edgecolor": "#555555", "axes.labelcolor": "#333333", "xtick.color": "#555555", "ytick.color": "#555555",
    "axes.grid": True, "axes.axisbelow": True, "grid.color": "#e6e6e6", "grid.linewidth": 0.7,
    "lines.solid_capstyle": "round", "svg.hashsalt": "askew", "svg.fonttype": "path",
}
# No times or versions in the file.
_METADATA: dict[str, Any] = {".svg": {"Date": None, "Creator": None}, ".png": {"Software": None},
                             ".pdf": {"CreationDate": None}}


def check_plot_path(path: str | Path, *, overwrite: bool = False,
                    remedy: str = "name another file, or remove it first") -> Path:
    """Refuse, before any work, a file that exists already or could not be written.

    Args:
        overwrite: whether a person said that a file may be replaced.
        remedy: what else to do about one that exists.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise AskewError(f"plot file {str(path)!r} must end in {', '.join(FORMATS)}")
    return check_new(path, "plot file", remedy, overwrite)


def save_figure(path: Path | Sequence[Path], draw: Callable[[Figure], None], size: tuple[float, float], dpi: int = 160,
                style: Any = None) -> None:
    """Draw a figure of `size` inches and write it, without a display.

    Args:
        path: of one file, or of several, for which it is drawn once.
        style: settings of matplotlib (a mapping) that differ from those of our pictures.
    """
    import matplotlib as mpl

    with mpl.rc_context(_STYLE | (style or {})):
        figure = drawn_figure(draw, size, style)
        for file in [path] if isinstance(path, Path) else path:
            write_figure(figure, file, dpi)
            figure.set_layout_engine("none")  # the first file has shown where everything goes


def drawn_figure(draw: Callable[[Figure], None], size: tuple[float, float], style: Any = None) -> Figure:
    """A figure of `size` inches, without a display; a notebook shows it."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    class Shown(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=96)
            return buffer.getvalue()

    with mpl.rc_context(_STYLE | (style or {})):
        figure = Shown(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        for text in figure.findobj(Text):
            if "$" in text.get_text():  # of a name: the only formulas of ours are ticks, which are not written yet
                text.set_parse_math(False)
    return figure


def write_figure(figure: Figure, path: Path, dpi: int = 160) -> None:
    """As a file that holds neither times nor versions."""
    with written(path) as aside:
        figure.savefig(aside, dpi=dpi, metadata=_METADATA[path.suffix.lower()])


def line_styles(number: int, without: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Colour, dashes and height of so many lines: no two alike up to 32, also for colour-blind readers and in print.

    Lines with more gaps lie above those with fewer, so that one that runs along another does not hide it.

    Args:
        without: colours that mean something else.
    """
    # The tenth is too pale for a line.
    colours = [colour for colour in class_colours(10)[:9] if colour not in without]
    styles: list[dict[str, Any]] = []
    for at in range(number):
        dashes = (at % len(colours) + at // len(colours)) % len(DASHES)
        styles.append({"color": colours[at % len(colours)], "linestyle": DASHES[dashes], "zorder": 3 + dashes / 10})
    return styles


def band(axes: Axes, rounds: Sequence[int], values: np.ndarray, style: Mapping[str, Any]) -> None:
    """One standard deviation over seeds to either side of their mean.

    Args:
        values: [seeds, rounds]; of one seed there is no band.
    """
    if len(values) > 1:
        mean, std = values.mean(axis=0), values.std(axis=0, ddof=1)
        axes.fill_between(rounds, mean - std, mean + std, color=style["color"], alpha=0.13, linewidth=0, zorder=2)


def fit_shares(axes: Axes, values: Iterable[float]) -> None:
    """The y axis where the data are: shares from 0 to 1 with a little room, and no more."""
    known = np.array([value for value in values if np.isfinite(value)])
    if len(known):
        room = max(0.03 * float(known.max() - known.min()), 0.005)
        axes.set_ylim(max(float(known.min()) - room, -0.005), min(float(known.max()) + room, 1.005))


def in_percent(axis: Any, decimals: int | None = None) -> None:
    """The x or y axis of shares: as per cent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=decimals))


def whole_rounds(axes: Axes) -> None:
    """Rounds on the x axis: whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.margins(x=0.02)

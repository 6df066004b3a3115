from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from askew.core.errors import AskewError
from askew.papers.item import Plot
from askew.papers.papers import all_items
from askew.papers.store import Results
from askew.papers.summary import summarise
from askew.report.paper_figures import KINDS, write_figure
from askew.report.paper_points import _mark_places

pytestmark = pytest.mark.slow  # whole runs: tens of them

if TYPE_CHECKING:
    from conftest import Measured

FIGURES = ("learning", "lengths", "rates", "layers", "archetypes", "changes", "preferences", "populations")


def drawn(measured: Measured, name: str) -> Figure:
    """The axes themselves, to read numbers off."""
    item = measured.items[name]
    figure = Figure()
    assert item.plot is not None
    KINDS[item.plot.kind](figure, summarise(item, measured.results), measured.results)
    return figure


def mean_over_seeds(measured: Measured, name: str, row: int, key: str) -> np.ndarray:
    item = measured.items[name]
    return np.mean([run.records[key] for run in measured.results.seeds(item.paper, item.rows[row].recipes[0])], axis=0)


def test_there_is_an_item_for_every_kind(measured: Measured) -> None:
    assert {measured.items[name].plot.kind for name in FIGURES} == set(KINDS)


@pytest.mark.parametrize("name", FIGURES)
def test_the_same_results_write_the_same_bytes(measured: Measured, name: str, tmp_path: Path) -> None:
    summary = summarise(measured.items[name], measured.results)
    for path in (tmp_path / "a.svg", tmp_path / "b.svg"):
        assert write_figure(summary, measured.results, path)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert "<text" in text  # text is text
    assert "<dc:date>" not in text


def test_curves_show_the_mean_over_seeds(measured: Measured) -> None:
    axes = drawn(measured, "learning").axes[0]
    for row in range(2):
        assert axes.lines[row].get_ydata() == pytest.approx(mean_over_seeds(measured, "learning", row, "accuracy"))
        assert list(axes.lines[row].get_xdata()) == list(range(1, 9))
    assert len(axes.collections) == 2  # bands over the two seeds


def test_curves_have_a_panel_for_each_number(measured: Measured) -> None:
    for axes, key in zip(drawn(measured, "lengths").axes, ("N", "E"), strict=True):
        assert axes.get_title() == key
        assert axes.lines[1].get_ydata() == pytest.approx(mean_over_seeds(measured, "lengths", 1, key))


@pytest.mark.usefixtures("printed_numbers")
def test_printed_numbers_are_shown_beside_ours(measured: Measured, tmp_path: Path) -> None:
    figure = drawn(measured, "learning")
    rings = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert [float(ring.get_ydata()[0]) for ring in rings] == [0.95, 0.205]
    write_figure(summarise(measured.items["learning"], measured.results), measured.results, tmp_path / "a.svg")
    assert "(paper ○ 20.5)" in (tmp_path / "a.svg").read_text()


def test_points_stand_at_their_places(measured: Measured) -> None:
    axes = drawn(measured, "rates").axes[0]
    summary = summarise(measured.items["rates"], measured.results)
    line = next(line for line in axes.lines if list(line.get_xdata()) == [0.1, 0.3])
    assert line.get_ydata() == pytest.approx([row.ours.mean for row in summary.rows[1:]])
    # The row without a place is a level.
    assert any(list(line.get_ydata()) == [summary.rows[0].ours.mean] * 2 for line in axes.lines)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.1", "0.3"]


def test_marks_of_no_figure_of_the_papers_overlap() -> None:
    """Of whatever set-ups: an effective rate of 0.03 and one of 0.0333 stand beside each other."""
    kinds = {(tuple(sorted({row.x for row in item.rows if row.x is not None})), item.plot) for item in all_items()
             if item.plot is not None and item.plot.kind == "points"}
    assert len(kinds) > 5
    for places, plot in kinds:
        figure = Figure(figsize=(8.4, 3.8))
        axes = figure.subplots()
        axes.plot(places, places)
        _mark_places(axes, list(places), plot)
        figure.draw_without_rendering()
        boxes = [tick.get_window_extent() for tick in axes.get_xticklabels() if tick.get_text()]
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes)), (plot.x_label, places)


def test_places_are_named_where_the_label_names_them(measured: Measured) -> None:
    axes = drawn(measured, "layers").axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["fc1", "fc2"]
    assert axes.get_xlabel() == "layer"


def test_archetypes_have_a_line_each_and_one_panel_a_method(measured: Measured) -> None:
    figure = drawn(measured, "archetypes")
    assert [axes.get_title() for axes in figure.axes] == ["FedCD", "FedAvg"]
    expected = mean_over_seeds(measured, "archetypes", 0, "group_accuracy")
    for k in range(10):
        assert figure.axes[0].lines[k].get_ydata() == pytest.approx(expected[:, k])
    milestones = [line.get_xdata()[0] for line in figure.axes[0].lines[10:]]
    assert milestones == [2.5, 4.5]
    assert len(figure.axes[1].lines) == 10  # FedAvg clones nothing


def test_changes_are_those_between_rounds(measured: Measured) -> None:
    line = drawn(measured, "changes").axes[0].lines[1]
    item = measured.items["changes"]
    runs = measured.results.seeds(item.paper, item.rows[1].recipes[0])
    steps = [np.abs(np.diff(np.array(run.records["group_accuracy"]), axis=0)).mean(axis=1) for run in runs]
    assert line.get_ydata() == pytest.approx(np.mean(steps, axis=0))


def test_bars_of_preferences_cover_all_rounds(measured: Measured) -> None:
    axes = drawn(measured, "preferences").axes[0]
    item = measured.items["preferences"]
    run = measured.results.seeds(item.paper, item.rows[0].recipes[0])[0]
    for archetype in range(10):
        bars = [bar for bar in axes.patches if round(bar.get_y() + bar.get_height() / 2) == archetype]
        chosen = [choice[archetype] for choice in run.records["group_choice"]]
        assert sum(bar.get_width() for bar in bars) == 8
        assert len(bars) == 1 + sum(a != b for a, b in pairwise(chosen))


def test_populations_need_no_results(measured: Measured, tmp_path: Path) -> None:
    nothing = Results(tmp_path / "none")
    assert write_figure(summarise(measured.items["populations"], nothing), nothing, tmp_path / "a.svg")


def test_nothing_measured_nothing_drawn(measured: Measured, tmp_path: Path) -> None:
    assert not write_figure(summarise(measured.items["unrun"], measured.results), measured.results, tmp_path / "a.svg")
    assert not (tmp_path / "a.svg").exists()


def test_unknown_kind_is_refused(measured: Measured, tmp_path: Path) -> None:
    odd: Any = replace(measured.items["learning"], plot=Plot("curvs"))
    with pytest.raises(AskewError, match=r"zhao2018/learning: unknown kind of plot 'curvs'.*curves"):
        write_figure(summarise(odd, measured.results), measured.results, tmp_path / "a.svg")


def test_every_figure_of_the_papers_has_a_known_kind() -> None:
    assert {item.plot.kind for item in all_items() if item.plot} <= set(KINDS)


def test_what_is_known_without_training_is_drawn_against_an_axis_of_its_own(measured: Measured) -> None:
    item = measured.items["rates"]
    assert item.plot is not None
    known = replace(item, plot=replace(item.plot, beside=((0.1, 1.8), (0.3, 0.9)), beside_label="distance"))
    figure = Figure()
    KINDS["points"](figure, summarise(known, measured.results), measured.results)
    ours, other = figure.axes
    assert (ours.get_ylabel(), other.get_ylabel()) == ("test accuracy (%)", "distance")
    assert other.lines[0].get_xydata().tolist() == [[0.1, 1.8], [0.3, 0.9]]
    assert "distance" in [text.get_text() for text in figure.legends[0].get_texts()]

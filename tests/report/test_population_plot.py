"""The picture of a population: what is drawn, read back from the drawing."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from askew.core.errors import AskewError
from askew.report.canvas import check_plot_path, save_figure
from askew.report.palette import class_colours
from askew.report.population_plot import plot_population


def drawn(path: Path) -> str:
    return path.read_text()


def test_one_rectangle_a_client_and_class_in_the_colours_of_the_classes(tmp_path: Path) -> None:
    counts = np.random.default_rng(0).integers(1, 50, (20, 10))
    plot_population(tmp_path / "a.svg", counts, title="twenty clients")
    text = drawn(tmp_path / "a.svg")
    for colour in class_colours(10):
        assert len(re.findall(f"fill: {colour}", text)) == 20 + 1  # the bars and the legend


def test_at_most_thirty_clients_are_drawn(tmp_path: Path) -> None:
    plot_population(tmp_path / "a.svg", np.ones((500, 3), np.int64))
    assert len(re.findall(f"fill: {class_colours(3)[0]}", drawn(tmp_path / "a.svg"))) == 30 + 1


def test_the_same_population_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for suffix in (".svg", ".png", ".pdf"):
            plot_population(tmp_path / f"{name}{suffix}", np.arange(1, 13).reshape(4, 3))
    for suffix in (".svg", ".png", ".pdf"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


@pytest.mark.parametrize("shape", [(1, 2), (3, 40), (2, 150)])
def test_few_clients_and_many_classes(tmp_path: Path, shape: tuple[int, int]) -> None:
    plot_population(tmp_path / "a.png", np.random.default_rng(1).integers(1, 9, shape))
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_colours_differ() -> None:
    for number in (2, 10, 11, 23, 24, 100):
        assert len(set(class_colours(number))) == number


@pytest.mark.parametrize("name", ["a.jpg", "a", "nowhere/a.png"])
def test_a_file_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(AskewError, match="plot file"):
        plot_population(tmp_path / name, np.ones((2, 2), np.int64))
    assert list(tmp_path.iterdir()) == []


def test_a_picture_is_refused_where_a_file_is_unless_it_may_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    assert check_plot_path(path) == path
    path.write_text("a person's work")
    with pytest.raises(AskewError, match="exists already; name another file, or remove it first"):
        check_plot_path(path)
    assert check_plot_path(path, overwrite=True) == path
    (tmp_path / "b.png").mkdir()
    with pytest.raises(AskewError, match="exists already"):
        check_plot_path(tmp_path / "b.png", overwrite=True)


def test_a_drawing_that_fails_leaves_the_old_picture(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_text("old")

    def draw(figure: object) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        save_figure(path, draw, (1, 1))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]

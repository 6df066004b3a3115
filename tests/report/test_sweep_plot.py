"""A sweep's picture: which panels it has, and that they show means and deviations."""

import pytest

import askew
from askew.report import sweep_plot
from askew.report.sweep_plot import effective_rate, numeric, plot_sweep
from askew.runs.ranking import ranked


def settings(values, scores):
    def result(score):
        return askew.Result(askew.Recipe(rounds=1), [{"round": 1, "accuracy": score, "loss": 1.0}], {}, 1.0)

    return ranked(values, [result(score) for score in scores])


@pytest.fixture
def drawn(monkeypatch):
    """Calls of `save_figure`, with the figures that were drawn."""
    figures = []

    def keep(path, draw, size):
        from askew.report.canvas import drawn_figure

        figures.append(drawn_figure(draw, size))

    monkeypatch.setattr(sweep_plot, "save_figure", keep)
    return figures


GRID = [{"sgd.lr": lr, "momentum.beta": beta, "seed": seed}
        for lr in (0.01, 0.1, 1.0) for beta in (0.0, 0.9) for seed in (0, 1)]


def test_a_grid_of_rates_and_momenta(drawn, tmp_path):
    plot_sweep(settings(GRID, [0.1 * (at % 7) for at in range(12)]), tmp_path / "x.png")
    [figure] = drawn
    labels = [axes.get_xlabel() for axes in figure.axes]
    assert labels[:4] == ["sgd.lr", "momentum.beta", "effective rate", "momentum.beta"]
    rate, _, effective, heat, *_ = figure.axes
    assert rate.get_xscale() == effective.get_xscale() == "log"
    first = {text.get_text(): bars for text, bars in zip(rate.get_legend().get_texts(), rate.containers, strict=True)}
    line = first["momentum.beta=0.0"].lines[0]
    assert line.get_xdata().tolist() == [0.01, 0.1, 1.0]
    assert line.get_ydata().tolist() == pytest.approx([0.05, 0.45, 0.15])  # means of scores 0 1, 4 5, 1 2 (of 7)
    styles = {bars.lines[0].get_linestyle() for bars in rate.containers}
    assert len(styles) == 2
    assert heat.images[0].get_array().shape == (3, 2)


def test_random_settings_are_points_and_no_heat_map(drawn, tmp_path):
    values = [{"sgd.lr": 0.01 * n, "fraction": 0.1 * n} for n in range(1, 7)]
    plot_sweep(settings(values, [0.1 * n for n in range(6)]), tmp_path / "x.svg")
    assert [axes.get_xlabel() for axes in drawn[0].axes] == ["sgd.lr", "fraction"]
    assert drawn[0].axes[0].containers[0].lines[0].get_linestyle() == "None"


def test_which_settings_are_numbers():
    assert numeric([{"a": 1, "b": "x", "seed": 0, "c": 2, "d": True}, {"a": 2, "b": "y", "seed": 1, "c": 2,
                                                                    "d": False}]) == ["a"]
    assert effective_rate({"sgd.lr": 0.1, "sgd.momentum": 0.5}) == pytest.approx(0.2)
    assert effective_rate({"sgd.lr": "decay(0.1, 0.9)", "momentum.beta": 0.5}) is None
    assert effective_rate({"sgd.lr": 0.1, "momentum.beta": 1.0}) is None


def test_nothing_to_draw_is_one_line(tmp_path, refused):
    with refused("no setting of the sweep has two of them"):
        plot_sweep(settings([{"x": "a"}], [0.5]), tmp_path / "x.png")
    none = ranked([{"x": 1.0}], [askew.Result(askew.Recipe(), [], {}, 1.0, diverged="it diverged")])
    with refused("no setting of the sweep has a score"):
        plot_sweep(none, tmp_path / "x.png")

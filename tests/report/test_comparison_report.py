"""A comparison made by hand, as a table and as a picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.table import Table

import askew
from askew.pieces.methods import centralised, fedavg, fedcd, fednnnn
from askew.report import canvas
from askew.report.canvas import drawn_figure
from askew.report.comparison import plot_comparison
from askew.report.comparison_table import divergence_lines, method_rows, needs_line, skew_rows
from askew.runs.comparison import Comparison, Contender
from askew.runs.result import Result


def result(seed: int, *curve: float, test: float | None = None, diverged: str | None = None) -> Result:
    records = [{"round": t + 1, "accuracy": value if test is None else test, "device_accuracy_mean": value,
                "bytes_up": 1_000_000, "bytes_down": 500_000} for t, value in enumerate(curve)]
    return Result(askew.Recipe(seed=seed), records, {}, seconds=2.0, diverged=diverged)


@pytest.fixture
def comparison() -> Comparison:
    return Comparison((
        Contender("fedavg", fedavg(), results=(result(0, 0.2, 0.5), result(1, 0.3, 0.7))),
        Contender("fednnnn", fednnnn(), results=(result(0, 0.8, 0.8), result(1, 0.7, 0.76))),
        Contender("wild", fednnnn(),
                  results=(result(0, diverged="round 1: too fast"), result(1, 0.1, diverged="round 2: too fast"))),
        Contender("centralised", centralised(), is_ceiling=True, results=(result(0, 0.7, 0.8), result(1, 0.7, 0.8))),
        Contender("fedcd", fedcd(), personal=True,
                  results=(result(0, 0.9, 0.9, test=0.3), result(1, 0.9, 0.9, test=0.3))),
    ), seeds=(0, 1), judge="devices", majority=0.9)


def column(table: Table, header: str) -> list[str]:
    found = next(c for c in table.columns if str(c.header).replace("\n", " ") == header)
    return [str(cell) for cell in found.cells]


def test_numbers_by_hand(comparison: Comparison) -> None:
    rows = {row["name"]: row for row in comparison.as_mapping()["methods"]}
    assert comparison.target == pytest.approx(0.95 * 0.8)
    assert rows["fedavg"]["accuracy_mean"] == pytest.approx(0.6)
    assert rows["fedavg"]["accuracy_std"] == pytest.approx(0.1 * 2**0.5)
    assert rows["fedavg"]["bytes"] == 3_000_000
    assert rows["fednnnn"]["gap_closed"] == pytest.approx((0.78 - 0.6) / (0.8 - 0.6))
    assert rows["fednnnn"]["rounds_to_target_by_seed"] == [1, 2]
    assert rows["fednnnn"]["rounds_to_target"] == 1.5
    assert rows["fednnnn"]["best_round"] == 2
    assert rows["fedcd"]["gap_closed"] is None
    assert rows["fedcd"]["test_accuracy_mean"] == pytest.approx(0.3)


def test_the_table_orders_by_kind_and_accuracy_and_marks_the_best_single_model(comparison: Comparison) -> None:
    table = method_rows(comparison.as_mapping())
    assert column(table, "method") == ["centralised", "fednnnn", "fedavg", "wild", "fedcd ¹"]
    assert column(table, "accuracy on own data") == ["80.0 ± 0.0", "78.0 ± 2.8", "60.0 ± 14.1", "diverged",
                                                     "90.0 ± 0.0"]
    assert column(table, "accuracy on test set")[-1] == "30.0 ± 0.0"
    assert column(table, "rounds to 76.0%") == ["2", "2", "never", "", "1"]
    cells = next(c for c in table.columns if "own data" in str(c.header)).cells
    assert [cell.style == "bold" for cell in cells] == [False, True, False, False, False]
    rows = comparison.as_mapping()["methods"]
    assert needs_line(rows) == "¹ a validation set on each device"
    assert divergence_lines(rows) == ["wild diverged in 2 of 2 seeds: seed 0, round 1: too fast"]


def test_runs_that_trained_together_share_their_time() -> None:
    alone, shared = (replace(result(0, 0.5), seconds=6.0, together=together) for together in (1, 4))
    assert Contender("a", fedavg(), results=(alone,)).seconds == 6.0
    assert Contender("a", fedavg(), results=(alone, shared)).seconds == (6.0 + 6.0 / 4) / 2


def test_a_seed_that_never_gets_there_is_counted(comparison: Comparison) -> None:
    table = method_rows({**comparison.as_mapping()} | {"methods": Comparison(
        comparison.contenders, (0, 1), "devices", asked_target=0.6).as_mapping()["methods"], "target": 0.6})
    assert column(table, "rounds to 60.0%")[2] == "1 of 2"


def test_skew_rows() -> None:
    table = skew_rows([{"name": "one place", "emd": None, "accuracy_mean": 0.9, "accuracy_std": None, "loss": None},
                       {"name": "FedAvg", "emd": 1.8, "accuracy_mean": 0.8, "accuracy_std": 0.01, "loss": -0.1}])
    assert column(table, "accuracy %") == ["90.0", "80.0 ± 1.0"]
    assert column(table, "loss") == ["", "-10.0"]


def test_the_picture_is_the_same_twice(comparison: Comparison, tmp_path: Path) -> None:
    plot_comparison(comparison, tmp_path / "a.svg")
    plot_comparison(comparison, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    plot_comparison(comparison, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_curves_have_bands_over_seeds_and_the_axis_is_where_they_are(
        comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = []
    monkeypatch.setattr(canvas, "save_figure", lambda path, draw, size: figures.append(drawn_figure(draw, size)))
    plot_comparison(comparison, tmp_path / "a.svg")
    curves = figures[0].axes[0]
    low, high = curves.get_ylim()
    assert low == pytest.approx(0.25 - 0.03 * 0.65)  # means from 0.25 (fedavg) to 0.9 (fedcd)
    assert high == pytest.approx(0.9 + 0.03 * 0.65)
    bands = [band.get_paths()[0].vertices[:, 1] for band in curves.collections]
    assert len(bands) == 4  # one per method that finished
    assert any((band.min(), band.max()) == pytest.approx((0.25 - 0.0707, 0.6 + 0.1414), abs=1e-3) for band in bands)
    one = Comparison(tuple(replace(c, results=c.results[:1]) for c in comparison.contenders), (0,), "devices")
    plot_comparison(one, tmp_path / "a.svg")
    assert not figures[1].axes[0].collections  # of one seed there is no spread


def test_nothing_finished_is_nothing_to_draw(tmp_path: Path) -> None:
    empty = Comparison((Contender("fedavg", fedavg()),), (0,), "global")
    assert empty.target is None
    with pytest.raises(askew.AskewError, match="no run of the comparison has finished"):
        plot_comparison(empty, tmp_path / "a.svg")


def test_updates_that_were_left_out_have_a_column_where_there_are_any(comparison: Comparison) -> None:
    assert not any("left out" in str(c.header) for c in method_rows(comparison.as_mapping()).columns)
    dropped = [replace(r, records=[{**record, "dropped": {"late": 2, "not_finite": seed}} for record in r.records])
               for seed, r in enumerate(comparison.contenders[1].results)]
    first, second, *others = comparison.contenders
    some = replace(comparison, contenders=(first, replace(second, results=tuple(dropped)), *others))
    rows = {row["name"]: row for row in some.as_mapping()["methods"]}
    assert (rows["fednnnn"]["dropped"], rows["fedavg"]["dropped"]) == (5.0, None)  # 2 * 2 and 2 * 3
    assert column(method_rows(some.as_mapping()), "updates left out") == ["", "5", "", "", ""]

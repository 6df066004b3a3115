"""The programs in examples/: each runs in seconds, says what its comments promise, and leaves nothing behind."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from askew.core import registry

EXAMPLES = Path(__file__).parents[2] / "examples"
Run = Callable[[str], list[str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run an example by name in an empty folder; the lines that it prints."""
    monkeypatch.chdir(tmp_path)
    registry.names("server")  # all of askew's own are filed before the copy is taken
    # Pieces that an example files must not outlive it.
    monkeypatch.setattr(registry, "_PIECES", {kind: dict(pieces) for kind, pieces in registry._PIECES.items()})

    def call(name: str) -> list[str]:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        assert not list(tmp_path.iterdir())
        return capsys.readouterr().out.splitlines()

    return call


def accuracies(lines: list[str]) -> list[float]:
    return [float(re.findall(r"\d\.\d{3}\b", line)[0]) for line in lines]


def test_own_data(run: Run) -> None:
    divided, one_class = run("own_data")
    assert "EMD 1.33" in one_class  # by hand: |1 - 1/3| + 2 * |0 - 1/3|
    assert min(accuracies([divided, one_class])) > 0.8  # three corners that hardly overlap


def test_own_network(run: Run) -> None:
    one_by_one, together = accuracies(run("own_network"))
    assert one_by_one == pytest.approx(together, abs=0.003)  # one of 360 digits
    assert one_by_one > 0.6


def test_own_piece(run: Run) -> None:
    everything, _, few = accuracies(run("own_piece"))
    assert few < everything


def test_own_objective(run: Run) -> None:
    [line] = run("own_objective")
    assert 5 <= int(line.partition("%")[0]) <= 15  # asked for: 10%


def test_regression(run: Run) -> None:
    mean, learnt = accuracies(run("regression"))
    assert learnt < 0.7 * mean


def test_multi_label(run: Run) -> None:
    labels, whole = run("multi_label")
    right, never = map(float, re.findall(r"\d\.\d{3}\b", labels))
    assert right > never + 0.05
    assert accuracies([whole])[0] > 0.25


def test_text(run: Run) -> None:
    first, urgent, routine = run("text")
    assert accuracies([first])[0] > 0.95
    assert (urgent, routine) == ("heavy bleeding since today: urgent", "asks about pills: routine")


@pytest.mark.slow
def test_sweep(run: Run) -> None:
    head, *ranked = run("sweep")
    assert head == "40 runs; the best of 20 settings, mean and deviation over 2 seeds:"
    assert len(ranked) == 5
    assert accuracies(ranked) == sorted(accuracies(ranked), reverse=True)


def test_resume(run: Run) -> None:
    stopped, went_on, without = run("resume")
    assert stopped.startswith("stopped after 4 rounds, in the folder: askew.json, checkpoint-")
    assert went_on.startswith("went on to round 10: ")
    assert accuracies([went_on]) == accuracies([without])


def test_every_example_is_tested_and_short() -> None:
    examples = {path.stem: path.read_text() for path in EXAMPLES.glob("*.py")}
    tested = set(re.findall(r"^def test_(\w+)\(run: Run\)", Path(__file__).read_text(), re.MULTILINE))
    assert set(examples) == tested
    for name, text in examples.items():
        assert len(text.splitlines()) <= 45, name
        assert f"    python examples/{name}.py\n" in text

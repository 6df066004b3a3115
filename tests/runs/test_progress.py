"""Nothing longer than two seconds is silent: lines on stderr, a bar on a terminal, a live line in notebooks."""

import time

import pytest

import askew
from askew.cli.common import err
from askew.cli.progress import RunProgress
from askew.runs import progress
from askew.runs.progress import Lines
from askew.runs.sweep import sweep

SHORT = askew.Recipe(rounds=3, population="iid(clients=3)", batch_size=100)


def test_lines_come_more_and_more_seldom_also_within_a_round():
    told = []
    with Lines(50, "fedavg on digits", lambda line: told.append((time.monotonic(), line)), first=0.05) as lines:
        began = time.monotonic()
        time.sleep(0.1)
        lines.on_round({"round": 1, "accuracy": 0.5, "loss": 1.25}, SHORT)
        time.sleep(0.4)
    assert told[0][1] == "fedavg on digits: 0 of 50 rounds (0:00:00)"
    assert told[-1][1] == "fedavg on digits: 1 of 50 rounds, accuracy 0.500, loss 1.250 (0:00:00)"
    assert len(told) <= 3  # after 0.05, 0.15 and 0.35 s
    assert told[0][0] - began < 0.1
    number = len(told)
    time.sleep(0.1)
    assert len(told) == number  # nothing is said any more


@pytest.mark.parametrize("quiet", [False, True])
def test_the_command_line_without_a_terminal(quiet, monkeypatch, capsys):
    monkeypatch.setattr(progress.Lines.__init__, "__defaults__", (0.01,))
    with RunProgress(3, "fedavg on digits", quiet):
        time.sleep(0.1)
    said = capsys.readouterr().err
    assert bool(said) is not quiet
    assert quiet or said.startswith("askew: fedavg on digits: 0 of 3 rounds")


def test_a_terminal_has_a_bar_and_no_lines(monkeypatch):
    monkeypatch.setattr(type(err), "is_terminal", True)
    assert RunProgress(3, "x")._lines is None


def test_in_python_it_is_silent_unless_asked_and_on_round_is_still_called(monkeypatch, capsys):
    monkeypatch.setattr(progress.Lines.__init__, "__defaults__", (0.001,))
    for asked in (None, False, True):
        rounds = []
        askew.run(SHORT, progress=asked, on_round=lambda record, recipe, rounds=rounds: rounds.append(record["round"]))
        assert rounds == [1, 2, 3]
        assert ("askew: fedavg on digits: " in capsys.readouterr().err) == bool(asked)
    sweep([SHORT, SHORT.replace(seed=1)], progress=True)
    assert "askew: 2 configurations: " in capsys.readouterr().err


def test_a_kernel_is_known_and_a_terminal_of_ipython_is_none(monkeypatch):
    class Shell:
        kernel = None

    class Module:
        get_ipython = staticmethod(lambda: Shell)

    monkeypatch.setitem(progress.sys.modules, "IPython", Module)
    assert not progress.in_notebook()
    Shell.kernel = object()
    assert progress.in_notebook()

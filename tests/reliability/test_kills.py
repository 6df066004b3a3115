"""Killed at any instant, a run goes on to the same bits; `make kills` does it hundreds of times, here a few."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from victims import BASE, LONG, RECIPES, Strikes, begin_or_go_on, contents, in_a_child, record, wait_for

import askew
from askew.runs.sweep import grid, sweep

pytestmark = [pytest.mark.usefixtures("one_thread"),
              pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")]
# What is struck, and how many of such operations further on CI strikes again: a file is opened far more often than
# anything else happens to it.
FURTHER = {"open": (20, 50), "replace": (6, 16), "remove": (6, 16), "write": (6, 16)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> dict[str, dict[str, bytes]]:
    """What undisturbed runs leave."""
    folder = tmp_path_factory.mktemp("whole")
    for recipe in RECIPES:
        askew.run(recipe, out=folder / recipe.name)
    return {recipe.name: contents(folder / recipe.name) for recipe in RECIPES}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FURTHER)
def test_killed_in_the_middle_of_each_file_operation(kind: str, whole: dict[str, dict[str, bytes]],
                                                     tmp_path: Path) -> None:
    """At the first, second, ... operation of a kind, in a run that saves after every round, up to its end."""
    kills, generator = 0, random.Random(kind)
    for recipe in RECIPES if LONG else generator.sample(RECIPES, 2):
        number = 1
        while True:
            folder = tmp_path / f"{recipe.name}-{number}"

            def work(number: int = number, folder: Path = folder, recipe: askew.Recipe = recipe) -> askew.Result:
                Strikes(kind, number).install()
                return askew.run(recipe, out=folder, checkpoint_every=1)

            code = wait_for(in_a_child(work))
            assert code in (0, -signal.SIGKILL)
            if code == 0:
                break
            kills += 1
            begin_or_go_on(recipe, folder)
            assert contents(folder) == whole[recipe.name], f"{recipe.name}, killed at {kind} {number}"
            number += 1 if LONG else generator.randint(*FURTHER[kind])
    assert kills >= 2
    record(f"kills-{kind}",
           {"what": f"SIGKILL at each {kind} of files, a checkpoint per round", "kills": kills, "differing": 0})


def test_killed_at_random_instants_again_and_again(whole: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    """With default settings; what is killed before its first checkpoint begins again."""
    generator, kills = random.Random(7), 0
    for recipe in RECIPES * 30 if LONG else RECIPES[:3]:
        folder = tmp_path / f"{recipe.name}-{kills}"
        for _ in range(3):
            child = in_a_child(lambda folder=folder, recipe=recipe: begin_or_go_on(recipe, folder, checkpoint_every=1))
            time.sleep(generator.uniform(0.0, 0.15))
            os.kill(child, signal.SIGKILL)
            kills += wait_for(child) == -signal.SIGKILL
        if not (folder / "summary.json").exists():
            begin_or_go_on(recipe, folder)
        assert contents(folder) == whole[recipe.name]
    assert kills
    record("kills-random", {"what": "SIGKILL at random instants, up to three per run", "kills": kills, "differing": 0})


@pytest.mark.slow
def test_what_a_kill_costs_with_default_settings(tmp_path: Path) -> None:
    """At most 5 s, or 5% of the time; here 5 s, since the runs are short. CI's mostly waits: it is about seconds."""
    def idle(record: askew.Record, recipe: askew.Recipe) -> None:
        time.sleep(0.0 if LONG else 0.05)

    lost, generator = [], random.Random(3)
    for number in range(40 if LONG else 1):
        recipe, folder = BASE.replace(rounds=100_000, seed=number), tmp_path / f"{number}"
        child = in_a_child(lambda folder=folder, recipe=recipe: askew.run(recipe, out=folder, on_round=idle))
        time.sleep(generator.uniform(2, 20) if LONG else 3.0)
        os.kill(child, signal.SIGKILL)
        assert wait_for(child) == -signal.SIGKILL
        now, saved = time.time(), sorted(folder.glob("checkpoint-*.json"))
        assert saved, "a run of some seconds has been saved"
        lost.append(now - max(path.stat().st_mtime for path in saved))
        before = len((folder / "metrics.jsonl").read_text().splitlines())

        def stop(record: askew.Record, recipe: askew.Recipe, last: int = before + 2) -> None:
            if record["round"] == last:
                raise KeyboardInterrupt

        assert len(askew.resume(folder, on_round=stop).records) == before + 2
    assert max(lost) < 5.0
    record("kills-lost",
           {"what": "seconds of work lost to SIGKILL, default settings, runs of 2 to 20 s", "kills": len(lost),
            "seconds_lost": {"most": round(max(lost), 2), "mean": round(sum(lost) / len(lost), 2)}})


@pytest.mark.parametrize("numbers", [(signal.SIGTERM,), (signal.SIGHUP,), (signal.SIGINT, signal.SIGINT),
                                     (signal.SIGTERM, signal.SIGINT, signal.SIGTERM)], ids=str)
def test_signals_save_what_there_is_and_a_second_one_does_not_lose_it(numbers: tuple[signal.Signals, ...],
                                                                      tmp_path: Path) -> None:
    generator, stopped = random.Random(str(numbers)), 0
    for number in range(40 if LONG else 2):
        recipe, folder = BASE.replace(rounds=100_000), tmp_path / f"{number}"
        child = in_a_child(lambda folder=folder, recipe=recipe: askew.run(recipe, out=folder, checkpoint_every="1h"))
        while not (folder / "metrics.jsonl").exists() or not (folder / "metrics.jsonl").stat().st_size:
            time.sleep(0.005)
        for signal_number in numbers:
            time.sleep(generator.uniform(0, 0.03))
            os.kill(child, signal_number)
        # A later signal may find the run left and its own handling back in place; the first was for the run.
        assert wait_for(child) in (3, *(-number for number in numbers[1:]))
        rounds = len((folder / "metrics.jsonl").read_text().splitlines())
        assert (folder / f"checkpoint-{rounds}.json").exists(), "nothing that was done is lost"
        stopped += 1
    record(f"signals-{'-'.join(n.name for n in numbers)}",
           {"what": "stopped by signals, no checkpoint before", "runs": stopped, "lost": 0})


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on(tmp_path: Path) -> None:
    recipes = grid(BASE, {"sgd.lr": [0.03, 0.1], "seed": [0, 1]})
    folders = [tmp_path / "broken" / f"{i}" for i in range(4)]
    sweep(recipes, folders=[tmp_path / "whole" / f"{i}" for i in range(4)])
    generator = random.Random(1)
    for _ in range(40 if LONG else 4):
        child = in_a_child(lambda: sweep(recipes, folders=folders, checkpoint_every=1))
        time.sleep(generator.uniform(0.05, 0.5))
        os.kill(child, signal.SIGKILL)
        wait_for(child)
    sweep(recipes, folders=folders)
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")

"""What a step frees stays with the process: the system need not clear the same pages again."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from askew.engine.freed_memory import keep_freed_memory

COUNT = """
import resource, torch, askew
torch.set_num_threads(1)
recipe = askew.Recipe(population="iid(clients=20)", model="mlp(hidden=[256])", rounds=1)
askew.run(recipe, engine="vectorised", progress=False)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
askew.run(recipe.replace(rounds=5), engine="vectorised", progress=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.fixture
def anew():
    keep_freed_memory.cache_clear()
    yield
    keep_freed_memory.cache_clear()


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_an_allocator_that_the_user_has_set_is_left_alone(anew, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    assert keep_freed_memory() is False


def test_without_glibc_nothing_is_done(anew, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert keep_freed_memory() is False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone is told")
def test_training_asks_the_system_for_less():
    counts = [int(subprocess.run([sys.executable, "-c", COUNT], env={**os.environ, **more}, text=True, check=True,
                                 capture_output=True, timeout=120).stdout) for more in ({}, {"MALLOC_CHECK_": "0"})]
    assert counts[0] < counts[1] / 2, counts

"""On a CPU, the kernels' tests under Triton's interpreter, in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="this is that process")
def test_the_kernels_under_the_interpreter():
    """None may be left out but what says that it needs a GPU: a kernel that the interpreter no longer takes would go untested."""
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    tests = [str(path) for path in sorted(FOLDER.glob("test_*.py")) if path.name not in (Path(__file__).name, "test_for_a_gpu.py")]
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-rs", *tests],
                          env=environment, capture_output=True, text=True, check=False, cwd=FOLDER.parents[1])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    last = done.stdout.strip().splitlines()[-1]
    assert " passed" in last
    assert "skipped" not in last, done.stdout[-2000:]

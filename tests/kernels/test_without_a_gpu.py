"""The kernels' tests without a GPU, in processes of their own: by Triton's interpreter on a CPU, and compiled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
COMPILED = "test_for_a_gpu.py"


def run_in_a_process(tests: list[str], **variables: str) -> None:
    """None is left out but what says that it needs a GPU: a kernel that Triton no longer takes would go untested."""
    pytest.importorskip("triton")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **variables}
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-rs",
                           *(str(FOLDER / name) for name in tests)],
                          env=environment, capture_output=True, text=True, check=False, cwd=FOLDER.parents[1])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    last = done.stdout.strip().splitlines()[-1]
    assert " passed" in last
    assert "skipped" not in last, done.stdout[-2000:]


@pytest.mark.skipif(bool({"TRITON_INTERPRET", "ASKEW_TRITON"} & set(os.environ)), reason="this is that process")
class TestInAProcess:
    @pytest.mark.slow
    def test_the_kernels_under_the_interpreter(self):
        run_in_a_process(sorted(path.name for path in FOLDER.glob("test_*.py")
                                if path.name not in (Path(__file__).name, COMPILED)),
                         TRITON_INTERPRET="1")

    @pytest.mark.slow
    def test_the_kernels_compiled_for_a_gpu(self):
        run_in_a_process([COMPILED], ASKEW_TRITON="1")

    def test_triton_is_not_imported_without_a_gpu(self):
        code = "import sys, askew.engine.layers.client_axis, askew.core.rng; sys.exit('triton' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=False)
        assert done.returncode == 0

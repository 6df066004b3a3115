"""The kernels' tests run natively on a GPU, and on a CPU under Triton's interpreter (TRITON_INTERPRET=1).

The interpreter must be asked for before Triton is imported, which other tests of a process may have done: on a CPU,
`test_without_a_gpu.py` runs these tests in a process of their own.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
CUDA = torch.cuda.is_available() and not INTERPRETED


@pytest.fixture(scope="session")
def device() -> str:
    """Where the kernels run in this process."""
    if CUDA:
        return "cuda"
    if not INTERPRETED:
        pytest.skip("needs a GPU; on a CPU test_without_a_gpu.py runs it under Triton's interpreter")
    pytest.importorskip("triton")
    _mend_products_of_bf16()
    return "cpu"


def _mend_products_of_bf16() -> None:
    """The interpreter keeps bf16 as bare 16-bit numbers, and `tl.dot` multiplies those bits (up to
    Triton 3.9): widen them first."""
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    plain = interpreter.InterpreterBuilder.create_dot

    def wide(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        return interpreter.TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return plain(self, wide(a), wide(b), *rest)

    interpreter.InterpreterBuilder.create_dot = create_dot


@pytest.fixture
def launched(device: str, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each kernel has been launched, by name; under the interpreter only."""
    if device != "cpu":
        pytest.skip("counts launches of the interpreter")
    from triton.runtime import interpreter

    counts: Counter[str] = Counter()
    plain = interpreter.GridExecutor.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        counts[self.fn.__module__.rpartition(".")[2] + "." + self.fn.__name__] += 1
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(interpreter.GridExecutor, "__call__", call)
    return counts


@pytest.fixture(autouse=True)
def full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)

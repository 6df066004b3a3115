"""Kernels are compiled for a GPU's instructions where there is no GPU: the interpreter takes more than the compiler.

There `test_without_a_gpu.py` runs these tests in a process of their own, in which the kernels are made ready for that.
"""

import os

import pytest

pytestmark = pytest.mark.skipif(os.environ.get("ASKEW_TRITON") != "1",
                                reason="test_without_a_gpu.py does this in a process")
LOW, FULL, LONG = "*bf16", "*fp32", "*i64"
# module, kernel, types of its arguments, its constants
KERNELS = [
    ("askew.engine.kernels.norm", "_moments_kernel", [LOW, LONG, FULL, "i32", "i32"],
     {"SHARE": 64, "C": 32, "PARTS": 4, "BM": 128, "BC": 32}),
    ("askew.engine.kernels.norm", "_gradient_sums_kernel", [LOW, LOW, FULL, FULL, FULL, "i32", "i32"],
     {"SHARE": 64, "C": 32, "PARTS": 4, "BM": 128, "BC": 32}),
    ("askew.engine.kernels.norm", "_scaled_kernel", [LOW, FULL, FULL, FULL, LONG, LOW, "i32", "i32"],
     {"C": 32, "BM": 128, "BC": 32}),
    ("askew.engine.kernels.norm", "_scaled_back_kernel", [LOW, LOW, *[FULL] * 5, LONG, LOW, "i32", "i32"],
     {"C": 32, "BM": 128, "BC": 32}),
    ("askew.engine.kernels.recurrent", "_lstm_kernel", [LOW, FULL, LOW, FULL, LOW, *["i32"] * 7],
     {"H": 128, "BLOCK": 512}),
    ("askew.engine.kernels.recurrent", "_lstm_backward_kernel",
     [LOW, FULL, FULL, LOW, FULL, FULL, LOW, FULL, *["i32"] * 10], {"H": 128, "BLOCK": 512}),
    ("askew.engine.kernels.recurrent", "_gru_kernel", [*[LOW] * 5, *["i32"] * 7], {"H": 128, "BLOCK": 512}),
    ("askew.engine.kernels.recurrent", "_gru_backward_kernel", [*[LOW] * 6, *["i32"] * 8], {"H": 128, "BLOCK": 512}),
    ("askew.core.splitmix", "_mix_kernel", [LONG, LONG, "i32"], {"BLOCK": 1024}),
    ("askew.core.splitmix", "_uniform_kernel", [LONG, FULL, "i32"], {"BLOCK": 1024}),
]


@pytest.mark.parametrize(("module", "name", "types", "constants"), KERNELS, ids=[name for _, name, _, _ in KERNELS])
def test_a_kernel_compiles_for_hopper(module, name, types, constants):
    pytest.importorskip("triton")
    import importlib

    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    kernel = getattr(importlib.import_module(module), name)
    places = kernel.arg_names
    assert len(places) == len(types) + len(constants)
    signature = {**dict(zip(places, types, strict=False)), **dict.fromkeys(constants, "constexpr")}
    source = ASTSource(fn=kernel, signature=signature,
                       constexprs={(places.index(key),): value for key, value in constants.items()})
    assert compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4}).asm["cubin"]

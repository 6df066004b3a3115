"""Kernels are compiled for a GPU's instructions where there is no GPU: the interpreter takes more than the compiler does."""

import os

import pytest

pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="nothing is compiled under the interpreter")
LOW, FULL, LONG = "*bf16", "*fp32", "*i64"
# module, kernel, types of its arguments, its constants
KERNELS = [
    ("askew.engine.norm_kernels", "_moments", [LOW, LONG, FULL, "i32", "i32"], {"SHARE": 64, "C": 32, "PARTS": 4, "BM": 128, "BC": 32}),
    ("askew.engine.norm_kernels", "_gradient_sums", [LOW, LOW, FULL, FULL, FULL, "i32", "i32"],
     {"SHARE": 64, "C": 32, "PARTS": 4, "BM": 128, "BC": 32}),
    ("askew.engine.norm_kernels", "_scaled", [LOW, FULL, FULL, FULL, LONG, LOW, "i32", "i32"], {"C": 32, "BM": 128, "BC": 32}),
    ("askew.engine.norm_kernels", "_scaled_back", [LOW, LOW, *[FULL] * 5, LONG, LOW, "i32", "i32"], {"C": 32, "BM": 128, "BC": 32}),
    ("askew.engine.recurrent_kernels", "_lstm", [LOW, FULL, LOW, FULL, LOW, *["i32"] * 7], {"H": 128, "BLOCK": 512}),
    ("askew.engine.recurrent_kernels", "_lstm_backward", [LOW, FULL, FULL, LOW, FULL, FULL, LOW, FULL, *["i32"] * 10],
     {"H": 128, "BLOCK": 512}),
    ("askew.engine.recurrent_kernels", "_gru", [*[LOW] * 5, *["i32"] * 7], {"H": 128, "BLOCK": 512}),
    ("askew.engine.recurrent_kernels", "_gru_backward", [*[LOW] * 6, *["i32"] * 8], {"H": 128, "BLOCK": 512}),
    ("askew.core.rng_kernels", "_mix", [LONG, LONG, "i32"], {"BLOCK": 1024}),
    ("askew.core.rng_kernels", "_uniform", [LONG, FULL, "i32"], {"BLOCK": 1024}),
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
    source = ASTSource(fn=kernel, signature=signature, constexprs={(places.index(key),): value for key, value in constants.items()})
    assert compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4}).asm["cubin"]

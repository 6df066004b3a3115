"""Which tiles are fastest for the convolutions with one set of weights per client: each kernel, size and precision.

    python benchmarks/conv_tiles.py [--precisions bf16,tf32,tf32x3] [--json FILE]

Shows what `engine/kernels/conv.py` takes now beside the best tiles found. Sizes are those of
ResNet-20 (18 clients x 256 images).
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import triton

from askew.engine.kernels import conv as kernels
from askew.runs.environment import describe_environment

# Clients, images, channels, height = width, outputs, taps, taps, padding, padding; the first layer as
# `taps_as_channels` has it.
SHAPES = {
    "3x1, 16 to 16, 32": (18, 256, 16, 32, 16, 3, 1, 1, 0),
    "3x3, 16 to 16, 32": (18, 256, 16, 32, 16, 3, 3, 1, 1),
    "3x3, 32 to 32, 16": (18, 256, 32, 16, 32, 3, 3, 1, 1),
    "3x3, 64 to 64, 8": (18, 256, 64, 8, 64, 3, 3, 1, 1),
}
KINDS = ("forward", "input gradient", "weight gradient")
Tile = tuple[int, int, int, int]  # pixels, inner values, warps, stages


def tiles(kind: str) -> Iterator[Tile]:
    if kind == "weight gradient":
        yield from itertools.product((32, 64, 128), (32, 64, 128), (2, 4, 8), (3,))
    else:
        yield from itertools.product((64, 128, 256), (16, 32, 64), (4, 8), (2, 3, 4))


def taken(kind: str, shape: tuple[int, ...], x: torch.Tensor) -> Tile:
    """What the library takes now."""
    _, _, channels, _, outputs, taps_h, taps_w, _, _ = shape
    inner = taps_h * taps_w * channels
    if kind == "weight gradient":
        block_k, _, block_m, warps = kernels._gradient_tile(x, inner, outputs)
        return block_m, block_k, warps, 3
    return *kernels._product_tile(x, inner, kernels._power(outputs, 16, 128)), 3


def work(kind: str, shape: tuple[int, ...], dtype: torch.dtype, precision: str, tile: Tile) -> Callable[[], None]:
    clients, images, channels, size, outputs, taps_h, taps_w, pad_h, pad_w = shape
    block_m, block_k, warps, stages = tile
    x = torch.randn(clients * images, size, size, channels, device="cuda").to(dtype)
    y = torch.randn(clients * images, size, size, outputs, device="cuda").to(dtype)
    inner, rows = taps_h * taps_w * channels, images * size * size
    if kind != "weight gradient":
        w = torch.randn(clients, inner * outputs, device="cuda").to(dtype)
        block_n = kernels._power(outputs, 16, 128)
        grid = (triton.cdiv(rows, block_m), clients, triton.cdiv(outputs, block_n))
        return lambda: kernels._product_kernel[grid](
            x, w, w, y, rows, pad_h, pad_w, size, size, size, size, channels, outputs, taps_h, taps_w, 1, 1,
            kind == "input gradient", False, precision, block_m, block_n, block_k, num_warps=warps, num_stages=stages)
    block_n = kernels._gradient_tile(x.permute(0, 3, 1, 2), inner, outputs)[1]
    across = triton.cdiv(inner, block_k) * triton.cdiv(outputs, block_n)
    split = kernels._split(clients * across, channels, rows)
    cells, tile_h, tile_w = kernels._tiling(images, size, size, block_m)
    dw = torch.empty(split, clients, inner, outputs, device="cuda")

    def run() -> None:
        kernels._weight_gradient_kernel[(across, clients * split)](
            x, y, dw, images, pad_h, pad_w, clients, triton.cdiv(cells, split), size, size, size, size, channels,
            outputs, taps_h, taps_w, 1, 1, split, precision, block_k, block_n, block_m, tile_h, tile_w, num_warps=warps,
            num_stages=stages)
        dw.sum(dim=0)

    return run


def microseconds(run: Callable[[], None]) -> float:
    run()
    times = []
    for _ in range(3):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        for _ in range(3):
            run()
        after.record()
        after.synchronize()
        times.append(before.elapsed_time(after) / 3 * 1e3)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precisions", default="bf16,tf32,tf32x3")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for precision, (name, shape), kind in itertools.product(options.precisions.split(","), SHAPES.items(), KINDS):
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        torch.backends.cudnn.allow_tf32 = precision != "tf32x3"
        now = taken(kind, shape, torch.empty((1, shape[2], 1, 1), device="cuda", dtype=dtype))
        found: dict[Tile, float] = {}
        for tile in dict.fromkeys([now, *tiles(kind)]):
            try:
                found[tile] = microseconds(work(kind, shape, dtype, "tf32" if precision == "bf16" else precision, tile))
            except (RuntimeError, triton.runtime.errors.OutOfResources):  # does not fit the chip
                continue
        best = sorted(found, key=lambda tile: found[tile])[:5]
        rows.append({"kernel": kind, "shape": name, "precision": precision, "now": [*now, round(found[now])],
                     "best": [[*tile, round(found[tile])] for tile in best]})
        print(rows[-1], flush=True)  # noqa: T201
    if options.json:
        options.json.write_text(json.dumps({"environment": describe_environment("cuda"), "rows": rows}, indent=1)
                                + "\n")


if __name__ == "__main__":
    main()

"""What it costs that freed memory goes back to the system: training on one core with glibc's defaults, and as the
engines set it; and the hash of random streams with new tensors, and in place.

    python benchmarks/freed_memory.py [--repeats 3] [--out results/bench/freed-memory.json]

Each figure is that of a process of its own, both ways in turns; processor time, as other programs hardly change that.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RECIPES = {
    "100 clients, 4,810 weights": {"population": "iid(clients=100)", "model": "mlp(hidden=[64])", "rounds": 20},
    "20 clients, 84,490 weights": {"population": "dirichlet(clients=20, alpha=0.5)", "model": "mlp(hidden=[256, 256])",
                                   "rounds": 10},
    "10 clients, 4,810 weights, gradient noise": {
        "population": "iid(clients=10)", "model": "mlp(hidden=[64])", "rounds": 20,
        "client": ["add_gradient_noise(0.01)", "sgd(lr=0.1)"]},
}
NUMBERS = 144_000  # of the hash: noise for ten clients of three seeds


def measure(name: str) -> dict[str, float]:
    """One recipe in this process, without what starting takes."""
    import torch

    import askew

    torch.set_num_threads(1)
    recipe = askew.Recipe(batch_size=10, **RECIPES[name])
    recipe = recipe.replace(evaluate_every=recipe.rounds)
    askew.run(recipe.replace(rounds=1, evaluate_every=1), engine="vectorised", progress=False)
    before = resource.getrusage(resource.RUSAGE_SELF)
    askew.run(recipe, engine="vectorised", progress=False)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {"user_s": after.ru_utime - before.ru_utime, "system_s": after.ru_stime - before.ru_stime,
            "resident_mb": after.ru_maxrss / 1024}


def hashes() -> dict[str, float]:
    """Microseconds of the hash as it is, and with a new tensor for each of its operations."""
    import torch

    from askew.core import splitmix

    torch.set_num_threads(1)

    def anew(z: torch.Tensor) -> torch.Tensor:
        z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * splitmix._MIX1
        z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * splitmix._MIX2
        return z ^ ((z >> 31) & 0x1FFFFFFFF)

    z = torch.randint(-(2**62), 2**62, (NUMBERS,), generator=torch.Generator().manual_seed(0))
    assert torch.equal(anew(z), splitmix.mix(z))
    times: dict[str, float] = {}
    for name, function in (("new tensors", anew), ("in place", splitmix.mix)) * 2:
        began = time.process_time()
        for _ in range(200):
            function(z)
        times[name] = min(times.get(name, 1e9), 1e6 * (time.process_time() - began) / 200)
    return times


def in_process(*arguments: str, keeps: bool) -> dict[str, float]:
    # A variable of glibc's that changes nothing tells askew to leave the allocator as it is.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **({} if keeps else {"MALLOC_CHECK_": "0"})}
    done = subprocess.run([sys.executable, __file__, *arguments], env=environment, capture_output=True, text=True,
                          check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", choices=RECIPES, help=argparse.SUPPRESS)
    parser.add_argument("--hash", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one or given.hash:
        sys.stdout.write(json.dumps(hashes() if given.hash else measure(given.one)))
        return
    from askew.runs.environment import describe_environment

    result: dict[str, Any] = {"environment": describe_environment("cpu"), "load": os.getloadavg(),
                              "repeats": given.repeats, "training": {}}
    for name in RECIPES:
        ways: dict[str, dict[str, float]] = {}
        for _ in range(given.repeats):
            for way, keeps in (("glibc's defaults", False), ("kept", True)):
                now = in_process("--one", name, keeps=keeps)
                total = now["user_s"] + now["system_s"]
                if way not in ways or total < ways[way]["user_s"] + ways[way]["system_s"]:
                    ways[way] = now
        result["training"][name] = ways
        default, kept = (ways[way]["user_s"] + ways[way]["system_s"] for way in ("glibc's defaults", "kept"))
        sys.stdout.write(f"{name}: {default:.2f} s with glibc's defaults, {kept:.2f} s kept "
                         f"({1 - kept / default:.0%} less)\n")
    result["hash_us"] = in_process("--hash", keeps=False)
    sys.stdout.write(f"hash of {NUMBERS:,} numbers, microseconds: {result['hash_us']}\n")
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

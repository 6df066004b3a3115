"""The long form: thousands of cases for every reader, in processes with little memory, so that a crash is an outcome.

`make fuzz`, or `PYTHONPATH=tests/support python -m fuzzing.long [READER...]`, writes results/reliability/fuzz.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import select
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from fuzzing.reader import GROWTH, SECONDS, Reader, Trial
from fuzzing.readers import READERS

CASES = 10_000
KINDS = ("ok", "refused", "raw", "crashed", "hung")
RESULTS = Path(__file__).parents[3] / "results" / "reliability" / "fuzz.json"


def fuzz(reader: Reader, cases: int) -> dict[str, Any]:
    """What became of so many cases, and those that failed, each with its number and what it said."""
    kinds: Counter[str] = Counter()
    failed: list[dict[str, Any]] = []
    first = 0
    while first < cases:
        for number, kind, says in _until_it_dies(reader.name, first, cases):
            kinds[kind] += 1
            first = number + 1
            if kind not in ("ok", "refused"):
                failed.append({"case": number, "kind": kind, "says": says[:200]})
    return {"cases": cases, **{kind: kinds[kind] for kind in KINDS}, "failed": failed}


def _until_it_dies(name: str, first: int, last: int) -> Any:
    """(case, kind, what it says) of the cases that one process gets through, and of the one that ends it."""
    command = [sys.executable, "-m", "fuzzing.long", "--worker", name, str(first), str(last)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        number = first
        while number < last:
            ready, _, _ = select.select([process.stdout], [], [], 6 * SECONDS if number == first else 2 * SECONDS)
            line = process.stdout.readline() if ready else ""
            if not line:
                process.kill()
                yield number, "crashed" if ready else "hung", f"exit {process.wait()}"
                return
            kind, _, says = line.rstrip("\n").partition(" ")
            yield number, kind, says
            number += 1


def work(name: str, first: int, last: int) -> None:
    """One line per case: its kind, and what it said."""
    reader = next(reader for reader in READERS if reader.name == name)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        files = Path(folder) / "files"
        files.mkdir()
        trial = Trial(reader, files)
        for path in trial.good:
            reader.read(path)  # so that all libraries are loaded
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + 2 * GROWTH, used + 2 * GROWTH))
        for number in range(first, last):
            found = trial.run(number)
            says = " ".join(found.says.split())[:300].encode("ascii", "backslashreplace").decode()
            sys.stdout.write(f"{found.kind} {says}\n")
            sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readers", nargs="*", help="names of readers; default: all")
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--worker", nargs=3, metavar=("READER", "FIRST", "LAST"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        work(asked.worker[0], int(asked.worker[1]), int(asked.worker[2]))
        return
    chosen = [reader for reader in READERS if not asked.readers or reader.name in asked.readers]
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda reader: fuzz(reader, asked.cases), chosen)
        found = dict(zip((reader.name for reader in chosen), results, strict=True))
    for name, result in found.items():
        sys.stdout.write(f"{name}: {', '.join(f'{result[kind]} {kind}' for kind in KINDS)}\n")
        sys.stdout.writelines(f"  case {one['case']}: {one['kind']} {one['says']}\n" for one in result["failed"][:10])
    if not asked.readers:
        write(found, asked.cases)
    sys.exit(any(result["failed"] for result in found.values()))


def write(found: dict[str, Any], cases: int) -> None:
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True,
                            check=False).stdout.strip()
    versions = {name: metadata.version(name) for name in ("numpy", "torch", "pillow", "pyarrow")}
    about = {"command": "make fuzz", "seeds": f"cases 0..{cases - 1}: random.Random(f'{{reader}} {{case}}')",
             "commit": commit, "python": platform.python_version(), "system": platform.system(), "versions": versions,
             "limits": {"seconds": SECONDS, "bytes": GROWTH}}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps({**about, "readers": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

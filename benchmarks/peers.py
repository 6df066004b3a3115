"""How fast is askew beside other federated-learning simulators: the same rounds, checked to give the same weights.

    python benchmarks/peers.py --setup                  once: the peers' own environment in .venv-bench
    python benchmarks/peers.py [--workloads W1,W2,W3] [--rounds 5] [--threads 2] [--contestants ...] [--json FILE]
    python benchmarks/peers.py --show FILE              the tables of an earlier run

All contestants take turns, round by round, within one run, so that a slow moment of the machine hits all of them. The
first three rounds warm up and are checked: each contestant must arrive at the weights of a plain loop in float64.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "peers"))
from contestant import Federation
from lay_out import lay_out
from plain_loop import PlainLoop
from process import LeftOut, Process
from workloads import Workload, workload

from askew.runs.environment import describe_environment

HERE = Path(__file__).parent
ROOT = HERE.parent
VENV = ROOT / ".venv-bench"
# Learning rates. The time of a round does not depend on them; on these data, which are noise, larger ones blow rounding
# errors up until float32 and float64 part ways (W1 at 0.1: a relative difference of 1e-2 after three rounds).
RATES = {"W1": 0.003, "W2": 0.01, "W3": 0.1}
CHECKED = 3  # rounds after which the weights are compared; they are not timed
# Of || w - w_exact || / || w_exact - w_start || after these rounds, where w_exact is computed in float64. float32 gives
# some 1e-6, or a few 1e-4 where rounding tips a ReLU over. Two batches swapped at one client of the cohort give 1e-3 to
# 2e-2, and whatever is more wrong gives more (tests/benchmarks/test_workloads.py).
TOLERANCE = 1e-3
BASE = "askew auto"


@dataclass(frozen=True)
class Entry:
    """A contestant.

    Args:
        script: in benchmarks/peers.
        arguments: of the script.
        processes: among which it divides the threads.
        peer: whether it lives in the peers' environment.
        images_only: whether other inputs make it the same as another contestant.
        usual: whether it takes part unless told otherwise.
    """

    script: str
    arguments: tuple[str, ...] = ()
    processes: int = 1
    peer: bool = True
    images_only: bool = False
    usual: bool = True


CONTESTANTS = {
    "askew auto": Entry("with_askew.py", ("auto",), peer=False),
    "askew sequential": Entry("with_askew.py", ("sequential",), peer=False),
    "askew vectorised": Entry("with_askew.py", ("vectorised",), peer=False),
    "askew parallel": Entry("with_askew.py", ("parallel",), peer=False, usual=False),  # where it is fast, auto takes it
    "plain loop": Entry("plain_loop.py", peer=False),
    "plain loop, channels last": Entry("plain_loop.py", ("--channels-last",), peer=False, images_only=True),
    "pfl": Entry("with_pfl.py"),
    "pfl, 2 processes": Entry("with_pfl.py", ("2",), processes=2),
    "FedLab": Entry("with_fedlab.py"),
    "Flower, 2 workers": Entry("with_flower.py", ("2",), processes=2),
}


def set_up() -> None:
    """Install the peers beside, never into, the environment that runs this; torch as constraints.txt says."""
    python = str(VENV / "bin" / "python")
    constraint = ["-c", str(ROOT / "constraints.txt")]
    install = [python, "-m", "pip", "install", "--quiet", "--prefer-binary"]
    subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    (VENV / ".gitignore").write_text("*\n")
    subprocess.run([*install, *constraint, "torch"], check=True)
    subprocess.run([*install, *constraint, "-r", str(HERE / "requirements-peers.txt")], check=True)
    subprocess.run([*install, "--no-deps", "-r", str(HERE / "requirements-fedlab.txt")], check=True)


def start(entry: Entry, threads: int, log: Path, cache: Path) -> Process:
    python = VENV / "bin" / "python" if entry.peer else Path(sys.executable)
    if not python.exists():
        raise LeftOut(f"{VENV.name} is missing; run 'python benchmarks/peers.py --setup' first")
    if entry.processes > threads:
        raise LeftOut(f"it needs a thread for each of its {entry.processes} processes, and --threads is {threads}")
    command = [str(python), str(HERE / "peers" / entry.script), *entry.arguments]
    return Process(command, threads // entry.processes, log, cache)


def measure(work: Workload, names: list[str], rounds: int, threads: int) -> dict[str, Any]:
    """Let the contestants take turns on one workload."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        federation = lay_out(work, CHECKED + rounds)
        begin = {name: v.detach().clone() for name, v in federation.module.named_parameters()}
        federation.save(here / "federation.pt")
        note(f"{work.name}: {CHECKED} rounds in float64 to compare with")
        exact = exact_weights(federation, CHECKED)
        names = [name for name in names if federation.x.ndim == 4 or not CONTESTANTS[name].images_only]
        del federation
        running: dict[str, Process] = {}
        rows: dict[str, dict[str, Any]] = {}
        left_out: dict[str, str] = {}

        def attempt(name: str, **command: Any) -> dict[str, Any]:
            """One command to one contestant; whoever fails is left out from then on."""
            try:
                return running[name].ask(**command)
            except LeftOut as reason:
                left_out[name] = str(reason)
                running.pop(name).close()
                rows.pop(name, None)
                return {}

        try:
            for position, name in enumerate(names):
                note(f"{work.name}: loading {name}")
                try:
                    running[name] = start(CONTESTANTS[name], threads, here / f"{position}.log", here / "cache")
                except LeftOut as reason:
                    left_out[name] = str(reason)
                    continue
                loaded = attempt(name, do="load", file=str(here / "federation.pt"), threads=running[name].threads)
                if loaded:
                    rows[name] = {"contestant": name, "seconds": [], **loaded}
            for number in range(CHECKED + rounds):
                note(f"{work.name}: round {number + 1} of {CHECKED + rounds}{' (warm-up)' if number < CHECKED else ''}")
                order = list(running)
                turn = number % max(1, len(order))
                for name in order[turn:] + order[:turn]:
                    answer = attempt(name, do="round", round=number)
                    if answer and number >= CHECKED:
                        rows[name]["seconds"].append(answer["seconds"])
                if number == CHECKED - 1:
                    for name in order:
                        answer = attempt(name, do="weights", file=str(here / "weights.pt")) if name in running else {}
                        if answer:
                            rows[name]["difference"] = difference(torch.load(answer["file"]), exact, begin)
                            rows[name]["same_weights"] = rows[name]["difference"] <= TOLERANCE
        finally:
            for process in running.values():
                process.close()
    for row in rows.values():
        summarise(row, rows, work.images_per_round)
    return {"workload": work.name, "about": work.about, "images_per_round": work.images_per_round,
            "rows": list(rows.values()), "left_out": left_out}


def exact_weights(federation: Federation, rounds: int) -> dict[str, Tensor]:
    """What the rounds come to without the rounding of float32."""
    loop = PlainLoop(replace(federation, module=copy.deepcopy(federation.module).double(), x=federation.x.double()))
    for number in range(rounds):
        loop.round(number)
    return loop.weights()


def difference(weights: dict[str, Tensor], exact: dict[str, Tensor], begin: dict[str, Tensor]) -> float:
    """|| w - w_exact || / || w_exact - w_start ||: the distance between two models as a share of the way they came."""

    def distance(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
        return float(torch.stack([(a[name].double() - b[name].double()).square().sum() for name in begin]).sum().sqrt())

    return distance(weights, exact) / distance(exact, begin)


def summarise(row: dict[str, Any], rows: dict[str, dict[str, Any]], images: int) -> None:
    """Median, spread, speed, and how many times as long as askew's own choice of engine it takes."""
    times = row["seconds"]
    median = statistics.median(times)
    row |= {"median_ms": 1e3 * median, "min_ms": 1e3 * min(times), "max_ms": 1e3 * max(times),
            "images_per_s": images / median}
    if BASE in rows:
        row["ratio"] = median / statistics.median(rows[BASE]["seconds"])


def table(result: dict[str, Any]) -> str:
    """One workload's results as text, fastest first."""
    lines = [f"{result['workload']}: {result['about']}",
             f"{'':28}{'ms a round':>12}{'(min-max)':>18}{'images/s':>11}{'time / askew':>14}{'difference':>12}"]
    for row in sorted(result["rows"], key=lambda row: row["median_ms"]):
        spread = f"({row['min_ms']:.0f}-{row['max_ms']:.0f})"
        ratio = f"{row['ratio']:.2f}" if "ratio" in row else "-"
        apart = f"{row['difference']:.1e}{'' if row['same_weights'] else ' !'}"
        speed = f"{row['median_ms']:12.1f}{spread:>18}{row['images_per_s']:11,.0f}"
        name = row["contestant"] + (f" ({row['note']})" if row["note"] else "")
        lines.append(f"{name:28}{speed}{ratio:>14}{apart:>12}")
    lines += [f"{name:28}left out: {reason}" for name, reason in result["left_out"].items()]
    return "\n".join(lines)


def processor() -> str:
    """The processor's name, which `platform` does not know everywhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def note(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", action="store_true", help="install the peers and end")
    parser.add_argument("--workloads", default=",".join(RATES))
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds of each contestant")
    parser.add_argument("--threads", type=int, default=2, help="of each contestant, over all its processes")
    parser.add_argument("--contestants", default=";".join(name for name, entry in CONTESTANTS.items() if entry.usual),
                        help=f"names, separated by semicolons; there are: {'; '.join(CONTESTANTS)}")
    parser.add_argument("--json", type=Path, help="write the results to this file as well")
    parser.add_argument("--show", type=Path, help="print the tables of such a file and end")
    options = parser.parse_args()
    if options.setup:
        set_up()
        return
    if options.show:
        for result in json.loads(options.show.read_text())["workloads"]:
            sys.stdout.write(table(result) + "\n\n")
        return
    names = [name.strip() for name in options.contestants.split(";")]
    for name in names:
        if name not in CONTESTANTS:
            parser.error(f"--contestants: unknown contestant {name!r}; there are {'; '.join(CONTESTANTS)}")
    for name in options.workloads.split(","):
        if name not in RATES:
            parser.error(f"--workloads: unknown workload {name!r}; there are {', '.join(RATES)}")
    for name, value in (("--rounds", options.rounds), ("--threads", options.threads)):
        if value < 1:
            parser.error(f"{name} must be at least 1, got {value}")
    torch.set_num_threads(options.threads)
    environment = describe_environment("cpu", processor=processor(), load_average=os.getloadavg()[0],
                                       instructions=torch.backends.cpu.get_cpu_capability())
    results = []
    for name in options.workloads.split(","):
        work = workload(name, client=[f"sgd(lr={RATES[name]})"])
        results.append(measure(work, names, options.rounds, options.threads))
        sys.stdout.write(table(results[-1]) + "\n\n")
        sys.stdout.flush()
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        about = {"environment": environment, "threads": options.threads, "timed_rounds": options.rounds,
                 "warm_up_rounds": CHECKED, "tolerance": TOLERANCE, "ratio_to": BASE}
        options.json.write_text(json.dumps({**about, "workloads": results}, indent=1) + "\n")
    apart = [f"{r['workload']} {row['contestant']}" for r in results for row in r["rows"] if not row["same_weights"]]
    if apart:
        sys.exit(f"not the same weights as in float64 (tolerance {TOLERANCE}): {', '.join(apart)}")


if __name__ == "__main__":
    main()

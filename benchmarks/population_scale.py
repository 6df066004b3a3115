"""How long a population of 100,000 clients takes, and how much memory: each scheme in a process of its own.

    python benchmarks/population_scale.py [--clients 100000] [--examples 1000000] [--json]
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time

# Scheme -> why these arguments. Archetypes are left out: every device draws from the whole pool for itself, and
# their federations have tens of devices.
SCHEMES = {
    "iid(clients={clients})": "classes spread evenly",
    "iid(clients={clients}, stratified=false)": "at random",
    "shards(clients={clients}, shards_per_client=2)": "McMahan's",
    "shards(clients={clients}, shards_per_client=2, distinct=true)": "two different classes",
    "classes_per_client(clients={clients}, classes=2)": "exactly two",
    "dirichlet(clients={clients}, alpha=0.0)": "one class",
    "dirichlet(clients={clients}, alpha=0.1)": "skewed",
    "dirichlet(clients={clients}, alpha=100.0)": "nearly even",
    "dirichlet_per_class(clients={clients}, alpha=5.0, min_examples=1)": "a smaller alpha leaves clients empty",
    "emd(clients={clients}, emd=1.8)": "10 examples a client permit steps of 0.2",
    "power_law(clients={clients})": "a few hold most",
    "power_law(clients={clients}, classes=2)": "and two classes each",
    "natural()": "a client column",
}


def measure(scheme: str, clients: int, examples: int, classes: int) -> dict[str, float]:
    """Draw one population in this process."""
    import numpy as np

    from askew.core import skew
    from askew.core.dataset import Source
    from askew.partition import draw

    random = np.random.default_rng(0)
    labels = np.arange(examples) % classes
    random.shuffle(labels)
    source = Source(labels, classes, client_ids=random.permutation(np.arange(examples) % clients))
    draw("iid(clients=2)", Source(labels[:100], classes))  # imports and first calls are not what is measured
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    population = draw(scheme, source, seed=0)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    mean = skew.mean_emd(population.counts, population.class_totals)
    return {"seconds": seconds, "measure_seconds": time.perf_counter() - start, "mean_emd": mean,
            "clients": population.num_clients, "used": int(population.sizes.sum()),
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "before_mib": before / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100_000)
    parser.add_argument("--examples", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        sys.stdout.write(json.dumps(measure(options.one, options.clients, options.examples, options.classes)))
        return
    rows = []
    for pattern in SCHEMES:
        scheme = pattern.format(clients=options.clients)
        command = [sys.executable, __file__, "--one", scheme, "--clients", str(options.clients),
                   "--examples", str(options.examples), "--classes", str(options.classes)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{scheme}: {done.stderr.strip().splitlines()[-1]}")
        rows.append({"scheme": scheme, **json.loads(done.stdout)})
        if not options.json:
            row = rows[-1]
            memory = f"{row['peak_mib']:6.0f} MiB peak ({row['before_mib']:.0f} before)"
            sys.stdout.write(f"{row['seconds']:7.2f} s  {memory}  EMD {row['mean_emd']:.3f}  {scheme}\n")
            sys.stdout.flush()
    if options.json:
        import numpy as np

        about = {"clients": options.clients, "examples": options.examples, "classes": options.classes, "seed": 0,
                 "n": 1, "python": platform.python_version(), "numpy": np.__version__, "machine": platform.machine()}
        sys.stdout.write(json.dumps({**about, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()

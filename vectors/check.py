"""How another program checks itself: FedAvg, FedAvgM, SCAFFOLD and FedAdam from the files alone, in plain numpy.

    python vectors/check.py [FOLDER]

Replace `local_training` and the four server functions by your own program's, and keep the comparisons.
"""

import json
import sys
from pathlib import Path

import numpy as np

TOLERANCE = {"rtol": 1e-12, "atol": 1e-12}  # float64; a program in float32 takes 1e-5 and 1e-6
RATE = 0.1


def flat(tensors):
    """A model as one array, in the order of the file's tensors."""
    return np.concatenate([np.asarray(v, dtype=np.float64).ravel() for v in tensors.values()])


def same(where, ours, theirs):
    if not np.allclose(ours, theirs, **TOLERANCE):
        raise SystemExit(f"{where}: {ours} instead of {theirs}")


def local_training(client, w, correction):
    """One client's round of plain SGD; returns the update and the mean gradient."""
    start, gradients = w, []
    for target in client["targets"]:
        gradients.append(flat(client["curvature"]) * (w - flat(target)))
        w = w - RATE * (gradients[-1] + correction)
    return w - start, np.mean(gradients, axis=0)


def fedavg(u, state):
    return u, state


def fedavgm(u, state):
    v = 0.9 * state.get("v", 0) + u
    return u + 0.9 * v, {"v": v}


def fedadam(u, state):
    m = 0.9 * state.get("m", 0) + 0.1 * u
    v = 0.99 * state.get("v", 0.01**2) + 0.01 * u**2
    return 0.1 * m / (np.sqrt(v) + 0.01), {"m": m, "v": v}


def scaffold(u, state):
    return u, state


def check(path, server, weigh_by_examples=True, controlled=False):
    vector = json.loads(path.read_text())
    clients, w, state = vector["clients"], flat(vector["model"]), {}
    c, c_k = np.zeros_like(w), [np.zeros_like(w) for _ in clients]
    for round_ in vector["rounds"]:
        updates, changes = [], []
        for entry in round_["local"]:
            k = entry["client"]
            where = f"{path.name}, round {round_['round']}, client {k}"
            u, gradient = local_training(clients[k], w, c - c_k[k] if controlled else 0.0)
            same(f"{where}, update", u, flat(entry["sent"]["update"]))
            updates.append(u)
            if controlled:
                same(f"{where}, control", gradient - c_k[k], flat(entry["sent"]["control"]))
                changes.append(gradient - c_k[k])
                c_k[k] = gradient
        a = np.array([clients[k]["examples"] if weigh_by_examples else 1.0 for k in round_["participants"]])
        step, state = server(a / a.sum() @ np.array(updates), state)
        if controlled:
            c = c + np.sum(changes, axis=0) / len(clients)
            state_after = round_["server"]["state_after"]
            same(f"{path.name}, round {round_['round']}, c", c, flat(state_after["update_control"]["c"]))
        w = w + step
        same(f"{path.name}, round {round_['round']}, model", w, flat(round_["model_after"]))


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    check(folder / "fedavg.json", fedavg)
    check(folder / "fedavgm.json", fedavgm)
    check(folder / "fedadam.json", fedadam)
    check(folder / "scaffold.json", scaffold, weigh_by_examples=False, controlled=True)
    sys.stdout.write("fedavg, fedavgm, fedadam, scaffold: all numbers agree\n")


if __name__ == "__main__":
    main()

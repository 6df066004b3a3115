"""FedCD's scores over some rounds, with given accuracies (fedcd2020, section 2, eq. (2)-(4)).

How its open points are read is written in askew's `clone_and_delete`, and in docs/vectors.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Scores = dict[int, float]
MILESTONES, WINDOW, NOISE, LATE_ROUND, LATE_SCORE, KEEP = (1, 2), 2, 0.01, 4, 0.4, 2
DEVICES, ROUNDS = 3, 6
# Validation accuracy of each device with each of four models before training; each round adds 0.02.
ACCURACIES = np.array([[0.80, 0.30, 0.60, 0.10], [0.25, 0.75, 0.70, 0.20], [0.50, 0.45, 0.05, 0.85]])


def normalised(scores: Scores) -> Scores:
    total = sum(scores.values())
    return {m: v / total if total > 0 else 1 / len(scores) for m, v in scores.items()}


def deleted(c: Scores, round: int) -> Scores:
    """Eq. (4), worst model first, while a device has more than two; late rounds may leave one."""
    largest, spread = max(c.values()), np.std(list(c.values()))
    kept = dict(c)
    for m in sorted(c, key=lambda m: (c[m], -m)):
        if len(kept) > KEEP and largest - c[m] >= spread:
            del kept[m]
    kept = normalised(kept)
    if round > LATE_ROUND and len(kept) == 2 and min(kept.values()) <= LATE_SCORE:
        kept = {max(kept, key=lambda m: (kept[m], -m)): 1.0}
    return kept


def rounds(random: np.random.Generator) -> list[dict[str, Any]]:
    """Scores, clones and deletions of each round."""
    models, made = [{0: [1.0, []]} for _ in range(DEVICES)], 1  # per device: model -> [score, accuracies]
    result = []
    for round in range(1, ROUNDS + 1):
        before = sorted({m for device in models for m in device})
        accuracies = [{m: round_to(ACCURACIES[d, m] + 0.02 * round) for m in device} for d, device in enumerate(models)]
        windows = [{m: [*past, now[m]][-WINDOW:] for m, (_, past) in device.items()}
                   for device, now in zip(models, accuracies, strict=True)]
        measured = [deleted(normalised({m: float(np.mean(w)) for m, w in window.items()}), round) for window in windows]
        alive = sorted({m for c in measured for m in c})
        scores, clones = measured, []
        if round in MILESTONES:
            clones = [[m, made + m] for m in alive]
            scores = [normalised({**c, **{made + m: 1 - v for m, v in c.items()}}) for c in measured]
            made *= 2
        draws = [[round_to(z) for z in random.normal(size=len(c))] for c in scores]
        sent = [normalised({m: max(v + NOISE * z, 1e-6) for (m, v), z in zip(c.items(), drawn, strict=True)})
                for c, drawn in zip(scores, draws, strict=True)]
        trained = sorted({m for c in scores for m in c})
        result.append({
            "round": round, "accuracies": accuracies, "measured": measured, "scores": scores, "draws": draws,
            "sent": sent,
            "clones": clones, "deleted": [m for m in before if m not in alive],
            "choice": [min(c, key=lambda m: (-c[m], m)) for c in measured],
            "trainers": {m: [d for d, c in enumerate(scores) if m in c] for m in trained}})
        models = [{m: [v, window.get(m, [])] for m, v in c.items()} for c, window in zip(scores, windows, strict=True)]
    return result


def round_to(value: float) -> float:
    return round(float(value), 3)

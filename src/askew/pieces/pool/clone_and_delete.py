"""FedCD: many global models that are cloned at milestones, scored by each device, and deleted where they do badly.

References:
    fedcd2020, section 2 and algorithm 1, eq. (1)-(4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from askew.core import rng
from askew.core.errors import AskewError
from askew.core.pool import Changes, Pool, PoolState
from askew.core.registry import piece

Scores = dict[int, float]
LEAST_SCORE = 1e-6  # of what devices send: a model that all score 0 is averaged evenly instead of divided by 0


@piece("pool")
def clone_and_delete(milestones: Sequence[int] = (5, 15, 25, 30), window: int = 3, score_noise: float = 0.01,
                     late_round: int = 20, late_score: float = 0.3, keep_at_least: int = 2) -> Pool:
    """Every device keeps the global models that suit its data, and trains those.

    After each round, device i scores each model m it keeps by its validation accuracies a (eq. (2)-(3)):

        s_m = mean of the last `window` accuracies,   c_m = s_m / sum over its models of s

    It then deletes models with max(c) - c_m >= std(c) (eq. (4)); after round `late_round` a device with two models
    also drops the worse if its score is at most `late_score`; the server forgets a model that no device keeps. At a
    milestone every live model m is cloned as M + m, M being the number of models ever made, which thus doubles;
    devices that keep m also get the clone, with score 1 - c_m, and scores are normalised again.

    Where the paper leaves open or contradicts itself:
      - With two models eq. (4) always holds for the worse one, yet the text says that a device keeps at least two.
        Eq. (4) is therefore applied, worst model first (of equals the youngest), only while a device has more than
        `keep_at_least`. Models that all score the same fulfil it too (0 >= 0), so that a device on which every model
        is perfect keeps two as well.
      - Before `window` rounds have passed, the mean is over those there are; a clone's window starts empty, so that
        its 1 - c_m counts for one round.
      - At the first milestone c = 1, so that clones start with score 0. The scores a device sends carry noise
        ("with some randomization"; std 0.01 in the authors' notebook), are cut off just above 0 and normalised: it is this
        noise that makes the first clones differ.
      - "Best model" is judged by the scores that accuracies gave, not by those of clones that nobody has tried yet.

    Args:
        milestones: rounds after which every live model is cloned.
        window: rounds over which accuracies are averaged.
        score_noise: standard deviation of the noise on the scores that devices send to the server.
        late_round: from the round after this one, two models may become one.
        late_score: the score at which they do.
        keep_at_least: models that eq. (4) leaves a device.

    Example:
        Scores (0.5, 0.3, 0.2): std 0.125, differences 0, 0.2, 0.3: the last goes, the second stays since a device
        keeps two. Normalised: (0.625, 0.375).
    """
    if window < 1 or keep_at_least < 1:
        raise AskewError(f"clone_and_delete: window and keep_at_least must be at least 1, got {window} and {keep_at_least}")
    if score_noise < 0:
        raise AskewError(f"clone_and_delete: score_noise must not be negative, got {score_noise}")
    if any(at < 1 for at in milestones):
        raise AskewError(f"clone_and_delete: milestones are rounds from 1 on, got {list(milestones)}")

    def init(num_clients: int) -> PoolState:
        return {"made": 1, "scores": [{0: 1.0} for _ in range(num_clients)], "sent": [{0: 1.0} for _ in range(num_clients)],
                "measured": [{0: 1.0} for _ in range(num_clients)], "history": [{0: []} for _ in range(num_clients)]}

    def trainers(state: PoolState, clients: Sequence[int]) -> Mapping[int, Sequence[int]]:
        models = sorted({m for i in clients for m in state["scores"][i]})
        return {m: [i for i in clients if m in state["scores"][i]] for m in models}

    def scores(state: PoolState, model: int, clients: Sequence[int]) -> Sequence[float]:
        return [state["sent"][i][model] for i in clients]

    def after_round(state: PoolState, accuracies: Sequence[Mapping[int, float]], round: int, key: Tensor) -> tuple[PoolState, Changes]:
        before = {m for mine in state["scores"] for m in mine}
        history = [{m: (past[m] + [now[m]])[-window:] for m in past} for past, now in zip(state["history"], accuracies, strict=True)]
        measured = [prune(normalised({m: float(np.mean(a)) for m, a in past.items()}), round) for past in history]
        kept = {m for mine in measured for m in mine}
        made, clones = state["made"], []
        new_scores = [dict(mine) for mine in measured]
        if round in milestones:
            clones = [(m, made + m) for m in sorted(kept)]
            new_scores = [normalised({**mine, **{made + m: 1.0 - c for m, c in mine.items()}}) for mine in measured]
            made *= 2
        history = [{m: past.get(m, []) for m in mine} for past, mine in zip(history, new_scores, strict=True)]
        sent = [randomised(mine, rng.fold(key, i)) for i, mine in enumerate(new_scores)]
        new = {"made": made, "scores": new_scores, "sent": sent, "measured": measured, "history": history}
        return new, Changes(clones, sorted(before - kept))

    def prune(c: Scores, round: int) -> Scores:
        best, spread = max(c.values()), float(np.std(list(c.values())))
        for m in sorted(c, key=lambda m: (c[m], -m)):
            if len(c) > keep_at_least and best - c[m] >= spread:
                c = {other: v for other, v in c.items() if other != m}
        c = normalised(c)  # the late rule speaks of shares of two models
        if round > late_round and len(c) == 2 and min(c.values()) <= late_score:
            top = min(c, key=lambda m: (-c[m], m))
            c = {top: 1.0}
        return c

    def randomised(c: Scores, key: Tensor) -> Scores:
        noise = rng.normal(key, len(c)).tolist()
        return normalised({m: max(v + score_noise * z, LEAST_SCORE) for (m, v), z in zip(c.items(), noise, strict=True)})

    def choice(state: PoolState) -> Sequence[int]:
        return [min(mine, key=lambda m: (-mine[m], m)) for mine in state["measured"]]

    def metrics(state: PoolState, groups: Sequence[int] | None) -> Mapping[str, Any]:
        chosen = choice(state)
        result: dict[str, Any] = {
            "active_models": len({m for mine in state["scores"] for m in mine}),
            "kept_models": sum(len(mine) for mine in state["scores"]),
            "most_kept_by_a_device": max(len(mine) for mine in state["scores"]),
            "score_std": float(np.mean([np.std(list(mine.values())) for mine in state["scores"]])),
            "choice": list(chosen),
        }
        if groups is not None:
            votes = {g: Counter(m for m, mine in zip(chosen, groups, strict=True) if mine == g) for g in sorted(set(groups))}
            result["group_choice"] = [min(v, key=lambda m: (-v[m], m)) for v in votes.values()]
        return result

    return Pool(init, trainers, scores, after_round, choice, keeps=lambda state: [sorted(mine) for mine in state["scores"]],
                metrics=metrics, needs_validation=True)


def normalised(c: Mapping[int, float]) -> Scores:
    """Scores that sum to 1; all equal where all are 0."""
    total = sum(c.values())
    return {m: v / total if total > 0 else 1.0 / len(c) for m, v in c.items()}

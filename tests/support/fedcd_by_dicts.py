"""FedCD's rules over one dict of models for each device: slow, plain, and what the arrays are held to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from torch import Tensor

from askew.core import rng
from askew.core.pool import Changes, Pool, PoolState
from askew.pieces.pool.clone_and_delete import LEAST_SCORE

Scores = dict[int, float]
Accuracies = Sequence[Mapping[int, float]]


def by_dicts(milestones: Sequence[int] = (5, 15, 25, 30), window: int = 3, score_noise: float = 0.01,
             late_round: int = 20, late_score: float = 0.3, keep_at_least: int = 2) -> SimpleNamespace:
    """`clone_and_delete` with the same arguments; accuracies are a dict of models for each device."""

    def init(num_clients: int) -> PoolState:
        ones: list[Scores] = [{0: 1.0} for _ in range(num_clients)]
        return {"made": 1, "scores": ones, "sent": ones, "measured": ones, "history": [{0: []} for _ in ones]}

    def trainers(state: PoolState, clients: Sequence[int]) -> Mapping[int, Sequence[int]]:
        models = sorted({m for i in clients for m in state["scores"][i]})
        return {m: [i for i in clients if m in state["scores"][i]] for m in models}

    def scores(state: PoolState, model: int, clients: Sequence[int]) -> Sequence[float]:
        return [state["sent"][i][model] for i in clients]

    def after_round(state: PoolState, accuracies: Accuracies, round: int, key: Tensor) -> tuple[PoolState, Changes]:
        before = {m for mine in state["scores"] for m in mine}
        history = [{m: (past[m] + [now[m]])[-window:] for m in past}
                   for past, now in zip(state["history"], accuracies, strict=True)]
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
        noisy = {m: v + score_noise * z for (m, v), z in zip(c.items(), noise, strict=True)}
        return normalised({m: max(v, LEAST_SCORE) for m, v in noisy.items()})

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
            votes = {g: Counter(m for m, mine in zip(chosen, groups, strict=True) if mine == g)
                     for g in sorted(set(groups))}
            result["group_choice"] = [min(v, key=lambda m: (-v[m], m)) for v in votes.values()]
        return result

    return SimpleNamespace(init=init, trainers=trainers, scores=scores, after_round=after_round, choice=choice,
                           metrics=metrics, keeps=lambda state: [sorted(mine) for mine in state["scores"]])


def normalised(c: Mapping[int, float]) -> Scores:
    """Scores that sum to 1; all equal where all are 0."""
    total = 0.0
    for v in c.values():  # `sum` rounds in another way from Python 3.12 on
        total += v
    return {m: v / total if total > 0 else 1.0 / len(c) for m, v in c.items()}


def accuracies_for(pool: Pool, state: PoolState, accuracies: Accuracies) -> np.ndarray:
    """Accuracies of one dict for each device, as the pool takes them."""
    models, kept = pool.keeps(state)
    assert [sorted(mine) for mine in accuracies] == kept_by(pool, state)
    result = np.full(kept.shape, 0.123)  # of models that a device does not keep: must not matter
    for row, mine in zip(result, accuracies, strict=True):
        for m, a in mine.items():
            row[list(models).index(m)] = a
    return result


def kept_by(pool: Pool, state: PoolState) -> list[list[int]]:
    """The models of each device."""
    models, kept = pool.keeps(state)
    return [[m for m, mine in zip(models, row, strict=True) if mine] for row in kept.tolist()]


def as_dicts(state: PoolState) -> dict[str, Any]:
    """The state of `clone_and_delete` as `by_dicts` has it, which is also how older checkpoints hold it."""
    models, kept = state["models"], state["kept"].tolist()

    def rows(name: str) -> list[Scores]:
        return [{m: v for m, v, mine in zip(models, row, keeps, strict=True) if mine}
                for row, keeps in zip(state[name].tolist(), kept, strict=True)]

    windows = state["history"].shape[2]
    history = [{m: past[windows - n :]
                for m, past, n, mine in zip(models, row, state["seen"], keeps, strict=True) if mine}
               for row, keeps in zip(state["history"].tolist(), kept, strict=True)]
    measured = [{m: v for m, v in mine.items() if v != -np.inf} for mine in rows("measured")]
    return {"made": state["made"], "scores": rows("scores"), "sent": rows("sent"), "measured": measured,
            "history": history}


def in_dicts(pool: Pool) -> SimpleNamespace:
    """`clone_and_delete` behind the interface of `by_dicts`."""

    def after_round(state: PoolState, accuracies: Accuracies, round: int, key: Tensor) -> tuple[PoolState, Changes]:
        state = pool.restore(state)
        new, changes = pool.after_round(state, accuracies_for(pool, state, accuracies), round, key)
        return as_dicts(new), changes

    return SimpleNamespace(
        init=lambda clients: as_dicts(pool.init(clients)), after_round=after_round,
        trainers=lambda state, clients: pool.trainers(pool.restore(state), clients),
        scores=lambda state, model, clients: pool.scores(pool.restore(state), model, clients),
        choice=lambda state: pool.choice(pool.restore(state)),
        keeps=lambda state: kept_by(pool, pool.restore(state)),
        metrics=lambda state, groups: pool.metrics(pool.restore(state), None if groups is None else np.asarray(groups)))

"""FedCD: many global models that are cloned at milestones, scored by each device, and deleted where they do badly.

References:
    fedcd2020, section 2 and algorithm 1, eq. (1)-(4).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askew.core import rng
from askew.core.errors import AskewError
from askew.core.pool import MANY_CLIENTS, Changes, Pool, PoolState
from askew.core.registry import piece

MOST_MILESTONES = 62  # numbers of models double with each, and must fit 64 bits
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
        ("with some randomization"; std 0.01 in the authors' notebook), are cut off just above 0 and normalised: it is
        this noise that makes the first clones differ.
      - "Best model" is judged by the scores that accuracies gave, not by those of clones that nobody has tried yet.

    Scores lie in arrays [clients, models] of the models that live, so that 100,000 clients cost no loop over them; sums
    run from the oldest model to the youngest. A round's record names each client's `choice` for up to 10,000 clients.

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
        raise AskewError("clone_and_delete: window and keep_at_least must be at least 1, "
                         f"got {window} and {keep_at_least}")
    if score_noise < 0:
        raise AskewError(f"clone_and_delete: score_noise must not be negative, got {score_noise}")
    if any(at < 1 for at in milestones):
        raise AskewError(f"clone_and_delete: milestones are rounds from 1 on, got {list(milestones)}")
    if len(set(milestones)) > MOST_MILESTONES:
        raise AskewError(f"clone_and_delete: at most {MOST_MILESTONES} milestones, each of which doubles the number of "
                         f"models; got {len(set(milestones))}")

    def init(num_clients: int) -> PoolState:
        kept, ones = np.ones((num_clients, 1), bool), np.ones((num_clients, 1))
        return stored(1, [0], kept, ones, ones, ones, np.zeros((num_clients, 1, window)), [0])

    def after_round(state: PoolState, accuracies: np.ndarray, round: int, key: Tensor) -> tuple[PoolState, Changes]:
        kept, made = state["kept"].numpy(), state["made"]
        seen = [min(n + 1, window) for n in state["seen"]]
        latest = np.where(kept, accuracies, 0.0)
        history = np.concatenate([state["history"].numpy()[:, :, 1:], latest[:, :, None]], axis=2)
        means = np.stack([history[:, m, window - n :].mean(axis=1) for m, n in enumerate(seen)], axis=1)
        kept, c = prune(kept, normalised(means, kept), keep_at_least, late_score if round > late_round else -math.inf)
        alive = np.flatnonzero(kept.any(axis=0))
        models, seen = [state["models"][m] for m in alive], [seen[m] for m in alive]
        kept, c, history = (np.take(v, alive, axis=1) for v in (kept, c, history))
        measured, clones = np.where(kept, c, -np.inf), []
        if round in milestones:
            clones = [(m, made + m) for m in models]
            c = normalised(np.hstack([c, 1.0 - c]), np.hstack([kept, kept]))
            measured = np.hstack([measured, np.full_like(measured, -np.inf)])
            models, seen, made = models + [child for _, child in clones], seen + [0] * len(seen), 2 * made
            kept, history = np.hstack([kept, kept]), np.hstack([history, np.zeros_like(history)])
        new = stored(made, models, kept, c, randomised(c, kept, key), measured, history, seen)
        return new, Changes(clones, [m for m in state["models"] if m not in models])

    def randomised(c: np.ndarray, kept: np.ndarray, key: Tensor) -> np.ndarray:
        noise = np.zeros_like(c)
        for count, who, at in by_count(kept):
            noise[at] = rng.normal(rng.fold(key, torch.from_numpy(np.flatnonzero(who))), count).flatten().numpy()
        return normalised(np.maximum(c + score_noise * noise, LEAST_SCORE), kept)

    return Pool(init, trainers, scores, after_round, choice, keeps, metrics, needs_validation=True,
                restore=lambda state: restored(state, window))


def trainers(state: PoolState, clients: Sequence[int]) -> Mapping[int, Sequence[int]]:
    who = np.asarray(clients, np.int64)
    kept = zip(state["models"], state["kept"].numpy()[who].T, strict=True)
    return {m: who[users].tolist() for m, users in kept if users.any()}


def scores(state: PoolState, model: int, clients: Sequence[int]) -> Sequence[float]:
    sent: list[float] = state["sent"][list(clients), state["models"].index(model)].tolist()
    return sent


def choice(state: PoolState) -> Sequence[int]:
    chosen: list[int] = np.asarray(state["models"])[state["measured"].numpy().argmax(axis=1)].tolist()
    return chosen


def metrics(state: PoolState, groups: np.ndarray | None) -> Mapping[str, Any]:
    kept, chosen = state["kept"].numpy(), np.asarray(choice(state))
    result: dict[str, Any] = {
        "active_models": len(state["models"]),
        "kept_models": int(kept.sum()),
        "most_kept_by_a_device": int(kept.sum(axis=1).max()),
        "score_std": float(np.mean(spreads(state["scores"].numpy(), kept))),
    }
    if len(chosen) <= MANY_CLIENTS:
        result["choice"] = chosen.tolist()
    if groups is not None:
        # Models are numbered upwards: of equally many votes, the first is the oldest.
        votes = [np.unique(chosen[groups == g], return_counts=True) for g in np.unique(groups)]
        result["group_choice"] = [int(models[counts.argmax()]) for models, counts in votes]
    return result


def keeps(state: PoolState) -> tuple[Sequence[int], np.ndarray]:
    return state["models"], state["kept"].numpy()


def stored(made: int, models: list[int], kept: np.ndarray, scores: np.ndarray, sent: np.ndarray, measured: np.ndarray,
           history: np.ndarray, seen: list[int]) -> PoolState:
    """The state, as a checkpoint holds it.

    Args:
        made: models ever made.
        models: numbers of those that live, upwards: the columns of what follows.
        kept: [clients, models] whether a device keeps a model. Where not, its scores are 0.
        scores: by which the device goes.
        sent: the same with noise, as the server knows them.
        measured: those that accuracies gave; -inf where there is none.
        history: [clients, models, window] accuracies, the last one last.
        seen: how many of these count, by model: all devices that keep it got it in the same round.
    """
    arrays = {"kept": kept, "scores": scores, "sent": sent, "measured": measured, "history": history}
    tensors = {name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in arrays.items()}
    return {"made": made, "models": models, "seen": seen, **tensors}


def restored(state: PoolState, window: int) -> PoolState:
    """The state from a checkpoint; older versions held a dict of models for each device."""
    if "models" in state:
        return {name: v.cpu() if isinstance(v, Tensor) else v for name, v in state.items()}
    models = sorted({m for of_device in state["scores"] for m in of_device})
    at = {m: i for i, m in enumerate(models)}

    def matrix(rows: Sequence[Mapping[int, float]], missing: float) -> np.ndarray:
        result = np.full((len(rows), len(models)), missing)
        for row, values in zip(result, rows, strict=True):
            row[[at[m] for m in values]] = list(values.values())
        return result

    scores = matrix(state["scores"], np.nan)
    history, seen = np.zeros((*scores.shape, window)), [0] * len(models)
    for client, pasts in enumerate(state["history"]):
        for m, past in pasts.items():
            seen[at[m]] = len(past)
            history[client, at[m], window - len(past) :] = past
    return stored(state["made"], models, ~np.isnan(scores), np.nan_to_num(scores), matrix(state["sent"], 0.0),
                  matrix(state["measured"], -np.inf), history, seen)


def prune(kept: np.ndarray, c: np.ndarray, keep_at_least: int, late_score: float) -> tuple[np.ndarray, np.ndarray]:
    """Which models stay with which device, and their scores, normalised again.

    Args:
        late_score: at which the worse of two models goes; -inf before the late rounds.
    """
    best = np.where(kept, c, -np.inf).max(axis=1)
    bad = kept & (best[:, None] - c >= spreads(c, kept)[:, None])
    dropped = np.minimum(bad.sum(axis=1), np.maximum(kept.sum(axis=1) - keep_at_least, 0))
    some = np.flatnonzero(dropped)
    # Worst first, of equals the youngest: a stable order of the models from the youngest on.
    order = kept.shape[1] - 1 - np.argsort(np.where(kept, c, np.inf)[some, ::-1], axis=1, kind="stable")
    going = np.zeros(order.shape, bool)
    np.put_along_axis(going, order, np.arange(kept.shape[1]) < dropped[some, None], axis=1)
    kept = kept.copy()
    kept[some] &= ~going
    c = normalised(c, kept)  # the late rule speaks of shares of two models
    late = (kept.sum(axis=1) == 2) & (np.where(kept, c, np.inf).min(axis=1) <= late_score)
    top = np.where(kept, c, -np.inf).argmax(axis=1)
    kept[late] = top[late, None] == np.arange(kept.shape[1])
    return kept, np.where(late[:, None], kept, c)


def by_count(kept: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Devices that keep equally many models: their number, who they are, and which scores of the matrix are theirs.

    What depends on how many there are (the order of numpy's sums, which draw is whose) is as for one device alone.
    """
    counts = kept.sum(axis=1)
    for count in np.unique(counts):
        who = counts == count
        yield int(count), who, kept & who[:, None]


def spreads(c: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The standard deviation of each device's scores."""
    result = np.zeros(len(c))
    for count, who, at in by_count(kept):
        result[who] = c[at].reshape(-1, count).std(axis=1)
    return result


def normalised(c: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Scores that sum to 1 for each device; all equal where all are 0; 0 for models that it does not keep."""
    total = np.zeros(len(c))
    for column in np.where(kept, c, 0.0).T:  # from the oldest model on: a sum in another order has other bits
        total += column
    some = (total > 0)[:, None]  # not where an accuracy is NaN
    shares = np.divide(c, total[:, None], out=np.zeros_like(c), where=kept & some)
    return np.where(some, shares, kept / kept.sum(axis=1, keepdims=True))

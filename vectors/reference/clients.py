"""Local training, from the papers' equations. Each function returns a `Local`: what a client keeps, does and sends.

`step` returns what each piece of the chain makes of the gradient, in order; the last one is the update of the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from reference.federation import START, TENSORS, Vector

After = list[tuple[str, Vector]]
Memory = dict[str, dict[str, Any]]  # by piece


@dataclass
class At:
    """Where a client is in its round; `state` and `memory` are changed as it goes on."""

    w: Vector
    start: Vector
    round: int
    step: int
    steps: int
    shared: dict[str, Vector]
    memory: Memory
    state: dict[str, Any] = field(default_factory=dict)
    draws: Vector | None = None  # random numbers of this step or upload


@dataclass(frozen=True)
class Local:
    """The rules of a method's clients.

    Args:
        step: (gradient, where the client is) -> what each piece makes of it.
        memory: what a client remembers before its first round.
        enter: (the server's model, memory) -> the model that the round begins with.
        end: (the update, where the client is) -> what is sent beside or instead of it; may change the memory.
        draws_per_step, draws_per_upload: "normal" or "uniform", where random numbers are used.
    """

    step: Callable[[Vector, At], After]
    memory: Callable[[], Memory] = dict
    enter: Callable[[Vector, Memory], Vector] = lambda w, memory: w
    end: Callable[[Vector, At], dict[str, Vector]] = lambda u, at: {"update": u}
    draws_per_step: str | None = None
    draws_per_upload: str | None = None


def zeros() -> Vector:
    return np.zeros_like(START)


def sgd(lr: float, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False, keep: bool = False,
        decay: float = 1.0) -> Local:
    """g <- g + weight_decay w;  v <- momentum v + g;  w <- w - lr v, or - lr (g + momentum v) in Nesterov's form."""

    def step(g: Vector, at: At) -> After:
        return [("sgd", sgd_update(g, at, lr * decay**at.round, momentum, weight_decay, nesterov, keep))]

    def end(u: Vector, at: At) -> dict[str, Vector]:
        if keep:
            at.memory["sgd"] = {"v": at.state["v"]}
        return {"update": u}

    return Local(step, (lambda: {"sgd": {"v": zeros()}}) if keep else dict, end=end)


def sgd_update(g: Vector, at: At, rate: float, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False,
               keep: bool = False) -> Vector:
    g = g + weight_decay * at.w
    before = at.state.get("v", at.memory["sgd"]["v"] if keep else zeros())
    at.state["v"] = v = momentum * before + g
    return -rate * (g + momentum * v if nesterov else v)


def scaled_by_server(lr: float) -> Local:
    """SGD whose steps are multiplied by the factor that the server sent."""

    def step(g: Vector, at: At) -> After:
        return [("sgd", -lr * g), ("scale_by_server", -lr * g * at.shared["factor"])]

    return Local(step)


def fedprox(lr: float, mu: float) -> Local:
    """Sahu et al. 2018: the gradient of f_k(w) + mu/2 ||w - w_t||^2."""

    def step(g: Vector, at: At) -> After:
        g = g + mu * (at.w - at.start)
        return [("add_proximal", g), ("sgd", -lr * g)]

    return Local(step)


def scaffold(lr: float, printed: bool = False, momentum: float = 0.0) -> Local:
    """Karimireddy et al. 2020, algorithm 1: y <- y - lr (g(y) - c_k + c).

    c_k by option II as printed, or the mean of the round's gradients.
    """

    def step(g: Vector, at: At) -> After:
        at.state["sum"] = at.state.get("sum", zeros()) + g
        corrected = g - at.memory["correct_drift"]["c"] + at.shared["control"]
        return [("correct_drift", corrected), ("sgd", sgd_update(corrected, at, lr, momentum))]

    def end(u: Vector, at: At) -> dict[str, Vector]:
        c_k, c = at.memory["correct_drift"]["c"], at.shared["control"]
        new = c_k - c + (at.start - (at.start + u)) / (at.steps * lr) if printed else at.state["sum"] / at.steps
        at.memory["correct_drift"] = {"c": new}
        return {"update": u, "control": new - c_k}

    return Local(step, lambda: {"correct_drift": {"c": zeros()}}, end=end)


def feddyn(lr: float, alpha: float) -> Local:
    """Acar et al. 2021, algorithm 1: the gradient of f_k(w) - <h_k, w> + alpha/2 ||w - w_t||^2.

    After the round  h_k <- h_k - alpha (w_k - w_t).
    """

    def step(g: Vector, at: At) -> After:
        g = g - at.memory["add_dynamic_regulariser"]["h"] + alpha * (at.w - at.start)
        return [("add_dynamic_regulariser", g), ("sgd", -lr * g)]

    def end(u: Vector, at: At) -> dict[str, Vector]:
        at.memory["add_dynamic_regulariser"] = {"h": at.memory["add_dynamic_regulariser"]["h"] - alpha * u}
        return {"update": u}

    return Local(step, lambda: {"add_dynamic_regulariser": {"h": zeros()}}, end=end)


def projected(lr: float, radius: float, noise: float, around_start: bool = False) -> Local:
    """ozdayi2020, section 3.2: noise on the gradient, a step, back onto the ball (around the origin or the start)."""

    def step(g: Vector, at: At) -> After:
        noisy = g + noise * at.draws if noise else g
        u = -lr * noisy
        centre = at.start if around_start else zeros()
        away = at.w + u - centre
        landed = centre + away * min(1.0, radius / np.linalg.norm(away))
        return [*([("add_gradient_noise", noisy)] if noise else []), ("sgd", u), ("project_to_ball", landed - at.w)]

    return Local(step, draws_per_step="normal" if noise else None)


def clipped_gradients(lr: float, length: float) -> Local:
    """Pascanu et al. 2013, with torch's 1e-6 below the fraction."""

    def step(g: Vector, at: At) -> After:
        g = g * min(1.0, length / (np.linalg.norm(g) + 1e-6))
        return [("clip_gradient", g), ("sgd", -lr * g)]

    return Local(step)


def adam(lr: float, beta1: float, beta2: float, epsilon: float, keep: bool) -> Local:
    """Kingma and Ba 2015, algorithm 1."""

    def fresh() -> dict[str, Any]:
        return {"m": zeros(), "v": zeros(), "t": 0.0}

    def step(g: Vector, at: At) -> After:
        before = at.state.get("adam") or (at.memory["adam"] if keep else fresh())
        t, m = before["t"] + 1, beta1 * before["m"] + (1 - beta1) * g
        v = beta2 * before["v"] + (1 - beta2) * g**2
        at.state["adam"] = {"m": m, "v": v, "t": t}
        return [("adam", -lr * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + epsilon))]

    def end(u: Vector, at: At) -> dict[str, Vector]:
        if keep:
            at.memory["adam"] = at.state["adam"]
        return {"update": u}

    return Local(step, (lambda: {"adam": fresh()}) if keep else dict, end=end)


def clipped_updates(lr: float, length: float) -> Local:
    """McMahan et al. 2018, FlatClip: what is sent is no longer than `length`."""

    def end(u: Vector, at: At) -> dict[str, Vector]:
        return {"update": u * min(1.0, length / np.linalg.norm(u))}

    return Local(sgd(lr).step, end=end)


def stay_local(lr: float, tensor: str) -> Local:
    """Arivazhagan et al. 2019, Li et al. 2021: one tensor is each client's own and is not sent."""
    part = TENSORS[tensor]

    def enter(w: Vector, memory: Memory) -> Vector:
        w = w.copy()
        w[part] = memory["stay_local"][tensor]
        return w

    def end(u: Vector, at: At) -> dict[str, Vector]:
        at.memory["stay_local"] = {tensor: (at.start + u)[part]}
        u = u.copy()
        u[part] = 0.0
        return {"update": u}

    return Local(sgd(lr).step, lambda: {"stay_local": {tensor: START[part]}}, enter, end)


def quantised(lr: float, bits: int) -> Local:
    """The model that is sent lies on 2^bits - 1 evenly spaced values from -max|w| to max|w|, tensor by tensor."""

    def end(u: Vector, at: At) -> dict[str, Vector]:
        return {"update": to_nearest(at.start + u, bits) - at.start}

    return Local(sgd(lr).step, end=end)


def to_nearest(w: Vector, bits: int) -> Vector:
    result = w.copy()
    for part in TENSORS.values():
        width = np.abs(w[part]).max() / (2 ** (bits - 1) - 1)
        result[part] = width * np.round(w[part] / width)
    return result


def quantised_at_random(lr: float, bits: int) -> Local:
    """Zhou et al. 2016, as in fedcd2020's notebook: 2^bits values from -max|w| to max|w|, rounded at random.

    Up with the probability of what is left over. Only tensors of two axes are rounded: here `body`, which the file
    gives the shape [1, 3].
    """

    def end(u: Vector, at: At) -> dict[str, Vector]:
        w, levels, part = at.start + u, 2**bits - 1, TENSORS["body"]
        s = np.abs(w[part]).max()
        x = levels * (w[part] / (2 * s) + 0.5)
        up = at.draws[part] < x - np.floor(x)
        w[part] = 2 * s * ((np.floor(x) + up) / levels - 0.5)
        return {"update": w - at.start}

    return Local(sgd(lr).step, end=end, draws_per_upload="uniform")

"""The server's half of each method, from the papers' equations.

Every function takes what came in (`In`) and returns an `Out`: what each piece makes of the update, in order, and
the state behind. States are by piece and letter, as in the papers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from reference.clients import After, to_nearest
from reference.federation import RATE, SERVER, START, TENSORS, Vector

State = dict[str, dict[str, Any]]  # by piece


@dataclass(frozen=True)
class In:
    """One round, seen from the server.

    Args:
        w: the model.
        updates: one row per client of the round.
        sent: what else they sent, one row per client.
        examples, steps, scores: of each.
        clients: of the federation, N.
        state: before the round.
        draws: random numbers of this round, where the method uses some.
        losses: each client's mean over its steps.
    """

    w: Vector
    updates: Vector
    sent: dict[str, Vector]
    examples: Vector
    steps: Vector
    scores: Vector
    clients: int
    state: State
    draws: Vector | None = None
    losses: Vector = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class Out:
    """What the server made of a round.

    Args:
        after: what each piece makes of the update; the last is what the model moves by.
        weights: how much each client counts.
        state: after the round.
        statistics: of the clients' messages.
    """

    after: After
    weights: Vector
    state: State = field(default_factory=dict)
    statistics: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Server:
    """The rules of a method's server.

    Args:
        update: one round.
        state: before the first.
        broadcast: state -> what goes out beside the model.
        evaluated: (model, state) -> the model that is judged.
        draws: "normal", where random numbers are used.
    """

    update: Callable[[In], Out]
    state: Callable[[], State] = dict
    broadcast: Callable[[State], dict[str, Vector]] = lambda state: {}
    evaluated: Callable[[Vector, State], Vector] = lambda w, state: w
    draws: str | None = None


def mean(given: In, by: str = "examples") -> tuple[Vector, Vector]:
    """sum_k a_k u_k, and a."""
    a = {"examples": given.examples, "uniform": np.ones(len(given.updates)), "score": given.scores}[by]
    a = a / a.sum()
    return a @ given.updates, a


def average(by: str = "examples") -> Server:
    """McMahan et al. 2017, algorithm 1."""

    def update(given: In) -> Out:
        u, a = mean(given, by)
        return Out([("mean", u)], a)

    return Server(update)


def scaled(lr: float) -> Server:
    def update(given: In) -> Out:
        u, a = mean(given)
        return Out([("mean", u), ("scale", lr * u)], a)

    return Server(update)


def zeros(piece: str, letter: str) -> Callable[[], State]:
    return lambda: {piece: {letter: np.zeros_like(START)}}


def momentum(beta: float, nesterov: bool) -> Server:
    """v <- beta v + u;  plain: v (ozdayi2020, eq. (2)); Nesterov: u + beta v (hsu2019, section 4.2)."""

    def update(given: In) -> Out:
        u, a = mean(given)
        v = beta * given.state["momentum"]["v"] + u
        return Out([("mean", u), ("momentum", u + beta * v if nesterov else v)], a, {"momentum": {"v": v}})

    return Server(update, zeros("momentum", "v"))


def norm_norm(beta: float, gamma: float | None = None, per_tensor: bool = False) -> Server:
    """fednnnn2020, eq. (8): u beta E / N; then, with gamma, eq. (12)-(13). The plain average is judged."""
    def update(given: In) -> Out:
        u, a = mean(given)
        parts = list(TENSORS.values()) if per_tensor else [slice(0, len(u))]
        lengths = [(float(a @ np.linalg.norm(given.updates[:, part], axis=1)), float(np.linalg.norm(u[part])))
                   for part in parts]
        rescaled = u.copy()
        for part, (e, n) in zip(parts, lengths, strict=True):
            rescaled[part] = beta * e / n * u[part]
        after, state = [("mean", u), ("rescale_to_mean_norm", rescaled)], {"evaluate_average": {"average": given.w + u}}
        if gamma is not None:
            v = gamma * given.state["momentum"]["v"] + rescaled
            after, state = [*after, ("momentum", v)], {"momentum": {"v": v}, **state}
        return Out([*after, ("evaluate_average", after[-1][1])], a, state,
                   {"mean_norm": [e for e, _ in lengths], "norm_of_mean": [n for _, n in lengths]})

    def first() -> State:
        before = {"momentum": {"v": np.zeros_like(START)}} if gamma is not None else {}
        return {**before, "evaluate_average": {"average": START}}

    return Server(update, first, evaluated=lambda w, state: state["evaluate_average"]["average"])


def sign_agreement(theta: float, literal: bool = False) -> Server:
    """ozdayi2020, eq. (4): only where |sum_k sgn(u_k)| >= theta (as printed: without the absolute value)."""

    def update(given: In) -> Out:
        u, a = mean(given)
        signs = np.sign(given.updates).sum(axis=0)
        masked = u * ((signs if literal else np.abs(signs)) >= theta)
        return Out([("mean", u), ("mask_by_sign_agreement", masked)], a, {}, {"sign_sum": signs})

    return Server(update)


def trained(w: Vector) -> Vector:
    """One epoch of plain SGD over the server's batches, in their order."""
    for step in range(len(SERVER.targets)):
        w = w - RATE * SERVER.gradient(w, step)
    return w


def server_training() -> Server:
    """ozdayi2020, section 3.1: the server goes on training the average."""

    def update(given: In) -> Out:
        u, a = mean(given)
        return Out([("mean", u), ("train_on_server", trained(given.w + u) - given.w)], a)

    return Server(update)


def combination(theta: float, beta: float) -> Server:
    """ozdayi2020, section 4.5: sign agreement, momentum, training at the server."""

    def update(given: In) -> Out:
        masked = sign_agreement(theta).update(given)
        v = beta * given.state["momentum"]["v"] + masked.after[-1][1]
        after = [*masked.after, ("momentum", v), ("train_on_server", trained(given.w + v) - given.w)]
        return Out(after, masked.weights, {"momentum": {"v": v}}, masked.statistics)

    return Server(update, zeros("momentum", "v"))


def control() -> Server:
    """Karimireddy et al. 2020, algorithm 1, lines 16-17: c <- c + |S| / N times the mean change of the c_k."""

    def update(given: In) -> Out:
        u, a = mean(given, "uniform")
        change = given.sent["control"].mean(axis=0)
        c = given.state["update_control"]["c"] + len(given.updates) / given.clients * change
        return Out([("mean", u), ("update_control", u)], a, {"update_control": {"c": c}}, {"mean_control": change})

    return Server(update, zeros("update_control", "c"), lambda state: {"control": state["update_control"]["c"]})


def nova(m: float) -> Server:
    """Wang et al. 2020, eq. (6): (sum_k p_k a_k) sum_k p_k u_k / a_k, a_k the sum of the weights of k's gradients."""

    def update(given: In) -> Out:
        p = given.examples / given.examples.sum()
        walk = np.array([sum((1 - m ** (s - j)) / (1 - m) for j in range(int(s))) for s in given.steps])
        direction, length = (p / walk) @ given.updates, float(p @ walk)
        return Out([("mean_per_step", length * direction)], p, {}, {"mean_per_step": direction, "mean_walk": length})

    return Server(update)


def dynamic(alpha: float) -> Server:
    """Acar et al. 2021, algorithm 1: h <- h - alpha/N sum_S (w_k - w_t);  w <- mean of the w_k - h / alpha."""

    def update(given: In) -> Out:
        u, a = mean(given, "uniform")
        h = given.state["correct_dynamically"]["h"] - alpha / given.clients * given.updates.sum(axis=0)
        return Out([("mean", u), ("correct_dynamically", u - h / alpha)], a, {"correct_dynamically": {"h": h}})

    return Server(update, zeros("correct_dynamically", "h"))


def adaptive(kind: str, lr: float, beta1: float, beta2: float, tau: float) -> Server:
    """Reddi et al. 2021, algorithm 2: FedAdam, FedYogi, FedAdagrad; v starts at tau^2, without Adam's correction."""

    def update(given: In) -> Out:
        u, a = mean(given)
        m = beta1 * given.state[kind]["m"] + (1 - beta1) * u
        v = given.state[kind]["v"]
        v = {"adam": beta2 * v + (1 - beta2) * u**2, "yogi": v - (1 - beta2) * u**2 * np.sign(v - u**2),
             "adagrad": v + u**2}[kind]
        return Out([("mean", u), (kind, lr * m / (np.sqrt(v) + tau))], a, {kind: {"m": m, "v": v}})

    return Server(update, lambda: {kind: {"m": np.zeros_like(START), "v": np.full_like(START, tau**2)}})


def extrapolated(epsilon: float) -> Server:
    """Jhunjhunwala et al. 2023, eq. (2): rate max(1, mean ||u_k||^2 / (2 (||u||^2 + epsilon)))."""

    def update(given: In) -> Out:
        u, a = mean(given, "uniform")
        squares = float((given.updates**2).sum(axis=1).mean())
        rate = max(1.0, squares / (2 * (float(u @ u) + epsilon)))
        return Out([("mean", u), ("extrapolate", rate * u)], a, {}, {"mean_squared_norm": squares})

    return Server(update)


def median() -> Server:
    """Yin et al. 2018, definition 1."""

    def update(given: In) -> Out:
        return Out([("median", np.median(given.updates, axis=0))], given.examples / given.examples.sum())

    return Server(update)


def trimmed_mean(share: float) -> Server:
    """Yin et al. 2018, definition 2."""

    def update(given: In) -> Out:
        cut = int(share * len(given.updates))
        kept = np.sort(given.updates, axis=0)[cut : len(given.updates) - cut]
        return Out([("trimmed_mean", kept.mean(axis=0))], given.examples / given.examples.sum())

    return Server(update)


def noisy(multiplier: float, length: float) -> Server:
    """McMahan et al. 2018, algorithm 1: noise of standard deviation z S / |S| on the mean."""

    def update(given: In) -> Out:
        u, a = mean(given, "uniform")
        return Out([("mean", u), ("add_noise", u + multiplier * length / len(given.updates) * given.draws)], a)

    return Server(update, draws="normal")


def noisy_update(std: float) -> Server:
    """Noise of that standard deviation on the mean."""

    def update(given: In) -> Out:
        u, a = mean(given)
        return Out([("mean", u), ("add_update_noise", u + std * given.draws)], a)

    return Server(update, draws="normal")


def plateau(patience: int, factor: float, threshold: float) -> Server:
    """torch.optim.lr_scheduler.ReduceLROnPlateau, on the clients' mean local loss; `best` is there from round 1 on."""

    def update(given: In) -> Out:
        u, a = mean(given)
        state, loss = given.state["plateau"], float(given.losses.mean())
        better = "best" not in state or loss < state["best"] * (1 - threshold)
        bad = 0 if better else state["bad"] + 1
        falls = bad > patience
        after = {"best": loss if better else state["best"], "bad": 0 if falls else bad,
                 "factor": state["factor"] * (factor if falls else 1.0)}
        return Out([("mean", u), ("plateau", u)], a, {"plateau": after}, {"mean_loss": loss})

    return Server(update, lambda: {"plateau": {"bad": 0, "factor": 1.0}},
                  lambda state: {"factor": state["plateau"]["factor"]})


def quantised(bits: int) -> Server:
    def update(given: In) -> Out:
        u, a = mean(given)
        return Out([("mean", u), ("quantize", to_nearest(given.w + u, bits) - given.w)], a)

    return Server(update)

"""Three clients whose losses are quadratic, so that every gradient is a formula anyone can compute by hand.

Client k's batch in local step j has the loss  1/2 sum_i a_ki (w_i - t_kji)^2, with curvatures a_k and targets t_kj; its
gradient is a_k (w - t_kj), element by element. Here a model is one array of four numbers; files name its tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Vector = np.ndarray
TENSORS = {"body": slice(0, 3), "head": slice(3, 4)}
RATE = 0.1
START = np.array([0.5, -0.25, 1.0, 0.75])
PARTICIPANTS: Sequence[Sequence[int]] = ([0, 1, 2], [0, 2], [1, 2])  # one row per round


@dataclass(frozen=True)
class Client:
    """One client, or the server's own examples.

    Args:
        examples: how many it has.
        curvature: a_k.
        targets: t_k, one row per local step.
        score: what it gives the model (FedCD).
    """

    examples: int
    curvature: Vector
    targets: Vector
    score: float = 1.0

    def gradient(self, w: Vector, step: int) -> Vector:
        return self.curvature * (w - self.targets[step])

    def loss(self, w: Vector, step: int) -> float:
        return float(0.5 * (self.curvature * (w - self.targets[step]) ** 2).sum())

    def as_json(self) -> dict[str, Any]:
        return {"examples": self.examples, "score": self.score, "curvature": named(self.curvature),
                "targets": [named(t) for t in self.targets]}


CLIENTS = (
    Client(10, np.array([1.0, 2.0, 0.5, 1.0]), np.array([[1.0, -1.0, 2.0, 0.5]]), 0.2),
    Client(20, np.array([2.0, 1.0, 1.0, 0.5]), np.array([[-1.0, 0.5, 1.5, 1.0], [-2.0, 1.0, 0.25, 2.0]]), 0.5),
    Client(30, np.array([0.5, 1.5, 1.0, 2.0]),
           np.array([[2.0, 2.0, -1.0, -0.5], [1.0, 3.0, -2.0, 0.25], [3.0, 1.0, 0.5, -1.0]]), 0.9),
)
SERVER = Client(4, np.array([1.0, 1.0, 2.0, 0.5]), np.array([[0.25, 0.5, 0.75, 1.0], [-0.5, 0.25, 1.25, 0.5]]))


def named(v: Vector) -> dict[str, list[float]]:
    """By tensor, as files have it."""
    return {name: v[part].tolist() for name, part in TENSORS.items()}


def as_json(value: Any) -> Any:
    """Arrays of four numbers become tensors by name; mappings and lists are gone through; numbers stay."""
    if isinstance(value, np.ndarray):
        return named(value) if value.shape == START.shape else value.tolist()
    if isinstance(value, Mapping):
        return {name: as_json(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value

"""One global model that every client trains: all methods but FedCD."""

from __future__ import annotations

import numpy as np

from askew.core.pool import Changes, Pool
from askew.core.registry import piece


@piece("pool")
def single_model() -> Pool:
    """The pool of one model."""
    return Pool(
        init=lambda num_clients: {"num_clients": num_clients},
        trainers=lambda state, clients: {0: clients},
        scores=lambda state, model, clients: [1.0] * len(clients),
        after_round=lambda state, accuracies, round, key: (state, Changes()),
        choice=lambda state: np.zeros(state["num_clients"], np.int64),  # a million clients in a millisecond
        keeps=lambda state: ([0], np.ones((state["num_clients"], 1), bool)),
        metrics=lambda state, groups: {},
    )

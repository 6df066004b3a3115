"""Numbers that are no longer finite: the run breaks off, and the message says whose they are and what helps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from askew.core import registry
from askew.core.client_piece import OnGradient
from askew.core.cohort import LONGEST, Cohort
from askew.core.errors import DivergedError
from askew.engine.task import Task
from askew.rounds.mishaps import spoils


def check_updates(task: Task, round: int, senders: Mapping[int, Sequence[int]], lengths: Sequence[Tensor]) -> None:
    """Every client's update must be finite.

    Args:
        round: counted from 1.
        senders: model -> the clients that sent updates of it.
        lengths: of these updates, model by model.
    """
    for (number, clients), values in zip(senders.items(), lengths, strict=True):
        bad = [client for client, length in zip(clients, values.tolist(), strict=True) if not length <= LONGEST]
        if bad:
            shown = ", ".join(map(str, bad[:5])) + (" ..." if len(bad) > 5 else "")
            many, which = "s" if len(bad) > 1 else "", f" (model {number})" if len(senders) > 1 else ""
            raise DivergedError(f"round {round}: the update of client{many} {shown} is not finite{which}; "
                                f"{_remedy(task)}")


def check_models(task: Task, round: int, largest: Mapping[int, Tensor], cohorts: Mapping[int, Cohort]) -> None:
    """Finite updates can still add up, in the server chain, to a model that is not.

    Args:
        largest: weight of each model.
        cohorts: of which each was made, where there are any.
    """
    for number, weight in largest.items():
        if not weight.isfinite():
            total = float(cohorts[number].total) if number in cohorts else 1.0
            if not total or not math.isfinite(total):
                raise DivergedError(f"round {round}: the clients' weights add up to {total:g}, so that they have no "
                                    f"mean; mend `weigh` of {task.server.aggregator}, or choose another aggregator")
            raise DivergedError(f"round {round}: the server's update makes model {number} infinite; "
                                f"{_remedy(task)}, or let the server take smaller steps")


def check_loss(task: Task, round: int, loss: float) -> None:
    if not math.isfinite(loss):
        raise DivergedError(f"round {round}: the loss on the test data is {loss}; {_remedy(task)}")


def _remedy(task: Task) -> str:
    if spoils(task) and not task.guards:
        guard = f"{registry.names('guard')[0]}()"
        return f"clients send nonsense: add a guard that leaves such updates out (guard = '{guard}')"
    rate = next((f"{spec.name}.lr is {spec.args['lr']}" for spec in task.recipe.client if "lr" in spec.args), None)
    clips = any(isinstance(p, OnGradient) for p in task.client.pieces)
    return ("lower the learning rate" + (f" ({rate})" if rate else "")
            + ("" if clips else ", or clip gradients (clip_gradient(10) before sgd)"))

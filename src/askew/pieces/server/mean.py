"""The weighted mean of the clients' updates: the aggregation of FedAvg.

References:
    McMahan et al. 2017, algorithm 1; ozdayi2020, eq. (1); fednnnn2020, eq. (3); fedcd2020, eq. (1).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from askew.core.client_piece import Plan
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.server_piece import Aggregator, ServerContext
from askew.core.statistic import Senders
from askew.core.tensors import Params, Tree


@piece("server")
def mean(weights: Literal["examples", "uniform", "score"] = "examples") -> Aggregator:
    """sum_k a_k u_k, where a_k is proportional to what `weights` names.

    Args:
        weights: "examples" weighs a client by its number of examples n_k; "uniform" gives all the same weight, for a
            server that does not know the sizes (fednnnn2020, section 5.1); "score" weighs by the score that the
            client gives the model (fedcd2020, eq. (1); the paper prints the denominator's sum over models, read
            here as over devices, so that the weights sum to 1).

    Example:
        Updates 1 and 4 of clients with 10 and 20 examples: "examples" gives (10 * 1 + 20 * 4) / 30 = 3.

        >>> server_update(mean(), [(1,), (4,)], examples=[10, 20])
        tensor([3.])
    """

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        return ctx.cohort.mean, state

    def weigh(senders: Senders) -> Tensor:
        return {"examples": senders.examples, "uniform": torch.ones_like(senders.examples),
                "score": senders.scores}[weights]

    def check(plan: Plan) -> None:
        if weights == "score" and not plan.scored:
            raise AskewError("server: mean(weights='score') needs a pool in which clients score models, such as "
                             "clone_and_delete(); use 'examples' or 'uniform'")

    return Aggregator(update, weigh=weigh, check=check)

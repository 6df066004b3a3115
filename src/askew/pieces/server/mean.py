"""The weighted mean of the clients' updates: the aggregation of FedAvg.

References:
    McMahan et al. 2017, algorithm 1; ozdayi2020, eq. (1); fednnnn2020, eq. (3); fedcd2020, eq. (1).
"""

from __future__ import annotations

from typing import Literal

import torch

from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.transform import Context, Params, Plan, State, Transform


@piece("server")
def mean(weights: Literal["examples", "uniform", "score"] = "examples") -> Transform:
    """sum_k a_k u_k, where a_k is proportional to what `weights` names.

    Args:
        weights: "examples" weighs a client by its number of examples n_k; "uniform" gives all the same weight, for a
            server that does not know the sizes (fednnnn2020, section 5.1); "score" weighs by the score that the
            client gives the model (fedcd2020, eq. (1); the paper prints the denominator's sum over models, read
            here as over devices, so that the weights sum to 1).

    Example:
        Updates 1 and 4 of clients with 10 and 20 examples: "examples" gives (10 * 1 + 20 * 4) / 30 = 3.

        >>> server_update(mean(), [(1,), (4,)], weights=mean().weigh(torch.tensor([10, 20]), None))
        tensor([3.])
    """

    def update(u: Params, state: State, ctx: Context) -> tuple[Params, State]:
        assert ctx.cohort is not None, "mean is a server piece"
        return ctx.cohort.mean, state

    weigh = {"examples": lambda examples, score: examples, "uniform": lambda examples, score: torch.ones_like(examples),
             "score": lambda examples, score: score}[weights]

    def check(plan: Plan) -> None:
        if weights == "score" and not plan.scored:
            raise AskewError("server: mean(weights='score') needs a pool in which clients score models, such as "
                             "clone_and_delete(); use 'examples' or 'uniform'")

    return Transform(update, acts_on="source", weigh=weigh, check=check)

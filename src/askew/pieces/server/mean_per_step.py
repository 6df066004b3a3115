"""FedNova: clients that take more steps do not pull the model to themselves.

References:
    Wang et al. 2020, "Tackling the Objective Inconsistency Problem in Heterogeneous Federated
    Optimization", eq. (6) and table 1.
"""

from __future__ import annotations

from askew.core.bounds import Decay
from askew.core.client_piece import Optimiser, Plan
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.server_piece import Aggregator, ServerContext
from askew.core.tensors import Params, Tree
from askew.pieces.statistic.mean_per_step import MeanPerStep


@piece("server")
def mean_per_step(momentum: Decay = 0.0) -> Aggregator:
    """u = (sum_k p_k a_k) sum_k p_k u_k / a_k: the mean direction per local step, as far as clients walk on average.

    p_k is client k's share of the examples, a_k the number of its steps (with client momentum m, the sum of the
    weights that its gradients have in its walk: `MeanPerStep`). Where all take as many steps, it is FedAvg. The
    walk is that of momentum that starts afresh in each round, in its plain form; proximal terms, which shorten
    it (table 1), are not counted.

    Args:
        momentum: of the clients' optimiser, where it has one.

    Example:
        Updates 2 and 9 of equally large clients after 2 and 3 steps: per step 1 and 3, mean 2; mean walk 2.5; update 5
        (FedAvg: 5.5).

        >>> server_update(mean_per_step(), [(2,), (9,)], steps=[2, 3])
        tensor([5.])
    """
    statistic = MeanPerStep(momentum)

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        direction, walk = ctx.cohort[statistic]
        return {name: (walk.to(v.device) * v).to(ctx.params[name].dtype) for name, v in direction.items()}, state

    def check(plan: Plan) -> None:
        for p in plan.client:
            if isinstance(p, Optimiser) and p.momentum is None:
                raise AskewError("server: mean_per_step counts the steps of SGD with plain momentum that starts afresh "
                                 f"in each round, not those of {p}; use another optimiser, or mean()")
            if isinstance(p, Optimiser) and p.momentum != momentum:
                raise AskewError(f"server: mean_per_step(momentum={momentum}) beside clients whose momentum is "
                                 f"{p.momentum} ({p}); give both the same")

    return Aggregator(update, needs=[statistic], check=check)

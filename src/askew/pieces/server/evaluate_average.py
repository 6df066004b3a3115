"""Evaluate the plain average of the clients' models, whatever model training goes on from.

References:
    fednnnn2020, section 4.1: the normalised model "is only good as a foundation of learning".
"""

from __future__ import annotations

from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.transform import Context, Params, Plan, State, Transform, add


@piece("server")
def evaluate_average() -> Transform:
    """Leave the update alone; the model to evaluate becomes w + mean update of the last round.

    Example:
        w = 1, mean update 2, rescaled to 6: training goes on from 7, the evaluated model is 3.

        >>> ctx = server_context([(2,)], w=[1])
        >>> evaluate_average().update({"w": torch.tensor([6.0])}, ctx.params, ctx)
        ({'w': tensor([6.])}, {'w': tensor([3.])})
    """

    def check(plan: Plan) -> None:
        if "train_on_server" in plan.before:
            raise AskewError("server: evaluate_average would judge the average without the server's training; "
                             "use one of evaluate_average and train_on_server")

    def update(u: Params, state: State, ctx: Context) -> tuple[Params, State]:
        assert ctx.cohort is not None, "evaluate_average is a server piece"
        return u, add(ctx.params, ctx.cohort.mean)

    return Transform(update, init=lambda params: params, view=lambda params, average: average, check=check)

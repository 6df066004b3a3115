"""Server-side training: fine-tune the aggregated model on a small balanced set that the server has.

References:
    ozdayi2020, section 3.1 and table 2.
"""

from __future__ import annotations

from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.transform import Context, Params, Plan, State, Transform, add, subtract


@piece("server")
def train_on_server(epochs: int = 1) -> Transform:
    """u <- T(w + u) - w, where T trains for some epochs on the server's examples.

    T uses the clients' optimiser (rate, momentum, weight decay) and batch size, without their other pieces. The
    server's examples are what `hold_out` in the recipe's population keeps back.

    Args:
        epochs: passes over the server's examples in each round.

    Example:
        Training that makes every weight ten times as large: w = 1 and a mean update of 2 give 10 (1 + 2) - 1 = 29.

        >>> ctx = server_context([(2,)], w=[1], train=lambda params, epochs: {"w": 10 * params["w"]})
        >>> train_on_server().update(ctx.cohort.mean, (), ctx)[0]
        {'w': tensor([29.])}
    """
    if epochs < 1:
        raise AskewError(f"train_on_server: epochs must be at least 1, got {epochs}")

    def check(plan: Plan) -> None:
        if plan.server_examples == 0:
            raise AskewError("server: train_on_server needs examples at the server; write population = '... + hold_out(0.05)', say")
        if "evaluate_average" in plan.before:
            raise AskewError("server: evaluate_average would judge the average without the server's training; "
                             "use one of evaluate_average and train_on_server")

    def update(u: Params, state: State, ctx: Context) -> tuple[Params, State]:
        assert ctx.train is not None, "train_on_server is a server piece"
        return subtract(ctx.train(add(ctx.params, u), epochs), ctx.params), state

    return Transform(update, check=check)

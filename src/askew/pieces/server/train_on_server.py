"""Server-side training: fine-tune the aggregated model on a small balanced set that the server has.

References:
    ozdayi2020, section 3.1 and table 2.
"""

from __future__ import annotations

from askew.core.bounds import Count
from askew.core.client_piece import Plan
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import Params, Tree, add, subtract


@piece("server")
def train_on_server(epochs: Count = 1) -> ServerPiece:
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
    def check(plan: Plan) -> None:
        if plan.server_examples == 0:
            raise AskewError("server: train_on_server needs examples at the server; "
                             "write population = '... + hold_out(0.05)', say")

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        return subtract(ctx.train(add(ctx.params, u), epochs), ctx.params), state

    return ServerPiece(update, trains=True, check=check)

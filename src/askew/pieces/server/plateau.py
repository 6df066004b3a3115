"""A rate that falls when the clients' loss no longer does.

References:
    torch.optim.lr_scheduler.ReduceLROnPlateau, which programs and notebooks of ozdayi2020's authors use.
"""

from __future__ import annotations

from typing import Annotated

import torch

from askew.core.bounds import Bounds, Decay
from askew.core.client_piece import Plan
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import Params, Tree, times
from askew.pieces.statistic.mean_loss import MeanLoss

_LOSS = MeanLoss()


@piece("server")
def plateau(patience: Annotated[int, Bounds(0)] = 15, factor: Decay = 0.1, threshold: Decay = 1e-4,
            server: bool = False) -> ServerPiece:
    """Watch a loss l; after more than `patience` rounds in a row without a better one, the rates fall by `factor`.

        l < best (1 - threshold):   best <- l,  bad <- 0                 else:  bad <- bad + 1
        bad > patience:             f <- factor f,  bad <- 0

    f is 1 at first and goes out with the model as "factor": `scale_by_server()` behind a client's optimiser multiplies
    its steps by it. The rule is torch's with threshold_mode "rel" and cooldown 0, without its floors (min_lr, eps).

    Departure: l is the mean local training loss that the clients report (`train_loss` of the records). The notebooks
    of ozdayi2020's authors watch the loss on the test data, which a server does not have.

    Args:
        patience: rounds in a row without a better loss that are borne.
        factor: of each fall.
        threshold: by what share a loss must be below the best one to be better.
        server: multiply the server's update by f, too (the f with which this round began).

    Example:
        A loss that stays at 0, no patience: round 1 is the best, round 2 no better, round 3 has a tenth of the rate.

        >>> server_update(plateau(patience=0, server=True), [(1,)], [(1,)], [(1,)])
        tensor([0.1000])
    """

    def init(params: Params) -> Tree:
        one = next(iter(params.values())).new_ones(())
        return {"best": torch.full_like(one, torch.inf, dtype=torch.float64),
                "bad": torch.zeros_like(one, dtype=torch.int64), "factor": one}

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        # Departure from the authors' notebooks: the clients' training loss, not the test data's.
        loss, best, f = ctx.cohort[_LOSS], state["best"], state["factor"]
        better = loss < best * (1 - threshold)
        bad = torch.where(better, 0, state["bad"] + 1)
        falls = bad > patience
        return times(u, f) if server else u, {
            "best": torch.where(better, loss, best), "bad": torch.where(falls, 0, bad),
            "factor": torch.where(falls, factor * f, f)}

    def check(plan: Plan) -> None:
        if not server and not any("factor" in p.wants for p in plan.client):
            raise AskewError("plateau: no client follows it; add scale_by_server() behind the optimiser, or say "
                             "plateau(server=True)")

    return ServerPiece(update, init, needs=[_LOSS], broadcast=lambda state: {"factor": state["factor"]},
                       sends=["factor"], watches=not server, check=check)

"""SCAFFOLD's server: the mean of all clients' control variates.

References:
    Karimireddy et al. 2020, "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", algorithm 1, line 17.
"""

from __future__ import annotations

from askew.core.registry import piece
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import Params, Tree, zeros_like
from askew.pieces.statistic.mean_of import MeanOf

_CHANGE = MeanOf("control")


@piece("server")
def update_control() -> ServerPiece:
    """c <- c + (|S| / N) (1 / |S|) sum over S of (c_k' - c_k); the update stays as it is.

    S are the clients of the round, N all of the federation. c goes out with the model as "control".

    Example:
        Two of four clients send changes 2 and 4: c = 0 + (2 / 4) * 3 = 1.5.

        >>> sent = {"control": {"w": torch.tensor([[2.0], [4.0]])}}
        >>> ctx = server_context([(0,), (0,)], needs=[MeanOf("control")], sent=sent, clients=4)
        >>> update_control().update({}, {"w": torch.zeros(1)}, ctx)[1]
        {'w': tensor([1.5000])}
    """

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        share, change = len(ctx.cohort) / ctx.clients, ctx.cohort[_CHANGE]
        return u, {name: c + share * change[name] for name, c in state.items()}

    return ServerPiece(update, zeros_like, needs=[_CHANGE], broadcast=lambda control: {"control": control},
                       sends=["control"], wants=["control"], watches=True)

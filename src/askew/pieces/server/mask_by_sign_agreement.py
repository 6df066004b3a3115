"""Sign agreement: move only where enough clients pull the same way.

References:
    ozdayi2020, section 3.4 and eq. (4).
"""

from __future__ import annotations

from askew.core.bounds import NonNegative
from askew.core.client_piece import Plan
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.server_piece import ServerContext, ServerPiece
from askew.core.tensors import Params, Tree
from askew.pieces.statistic.sign_sum import SignSum


@piece("server")
def mask_by_sign_agreement(theta: NonNegative, literal: bool = False) -> ServerPiece:
    """Set the update to 0 in each coordinate where |sum_k sgn(u_k)| < theta.

    The paper prints the condition without the absolute value, which would also drop every coordinate in which all
    clients agree on a *negative* step; `literal=True` gives that reading.

    Args:
        theta: how large the sum of signs must be, from 0 (keep all) to the number of clients (unanimous).
        literal: read eq. (4) as printed, without the absolute value.

    Example:
        Two clients, theta 2: updates (1, 1, -1) and (2, -1, -3) have sign sums (2, 0, -2); the first and third
        coordinate stay (literally read, only the first).

        >>> server_update(mask_by_sign_agreement(2.0), [(1, 1, -1), (2, -1, -3)])
        tensor([ 1.5000,  0.0000, -2.0000])
    """
    def check(plan: Plan) -> None:
        if any(isinstance(p, ServerPiece) and p.trains for p in plan.before):
            raise AskewError("server: after training at the server the update is no longer the clients'; "
                             "put mask_by_sign_agreement before it")
        if theta > plan.cohort_size:
            raise AskewError(f"server: mask_by_sign_agreement: theta = {theta} is above the {plan.cohort_size} clients "
                             f"of a round, so that nothing would ever move; use at most {plan.cohort_size}")

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        signs = ctx.cohort[SignSum()]
        agreed = {name: (signs[name] if literal else signs[name].abs()) >= theta for name in u}
        # theta = 0 keeps everything; literally read it would still drop negative sums, which eq. (4) then asks for.
        return {name: v * agreed[name] for name, v in u.items()}, state

    return ServerPiece(update, needs=[SignSum()], check=check)

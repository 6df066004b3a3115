"""Sign agreement: move only where enough clients pull the same way.

References:
    ozdayi2020, section 3.4 and eq. (4).
"""

from __future__ import annotations

from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.transform import Context, Params, Plan, State, Transform


@piece("server")
def mask_by_sign_agreement(theta: float, literal: bool = False) -> Transform:
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
    if isinstance(theta, float | int) and theta < 0:
        raise AskewError(f"mask_by_sign_agreement: theta must not be negative, got {theta}")

    def check(plan: Plan) -> None:
        if "train_on_server" in plan.before:
            raise AskewError("server: after train_on_server the update is no longer the clients'; "
                             "put mask_by_sign_agreement before it")
        if isinstance(theta, float | int) and theta > plan.cohort_size:
            raise AskewError(f"server: mask_by_sign_agreement: theta = {theta} is above the {plan.cohort_size} clients "
                             f"of a round, so that nothing would ever move; use at most {plan.cohort_size}")

    def update(u: Params, state: State, ctx: Context) -> tuple[Params, State]:
        assert ctx.cohort is not None, "mask_by_sign_agreement is a server piece"
        signs = ctx.cohort.sign_sum
        agreed = {name: (signs[name] if literal else signs[name].abs()) >= theta for name in u}
        # theta = 0 keeps everything; literally read it would still drop negative sums, which eq. (4) then asks for.
        return {name: v * agreed[name] for name, v in u.items()}, state

    return Transform(update, needs=frozenset({"signs"}), check=check)

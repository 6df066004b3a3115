"""The proximal term of FedProx: stay near the model that the round began with.

References:
    Sahu et al. 2018 (FedProx); fednnnn2020, eq. (7).
"""

from __future__ import annotations

from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.core.transform import Context, Params, State, Transform


@piece("client")
def add_proximal(mu: float) -> Transform:
    """gradient <- gradient + mu (w - w_t): the gradient of  loss + mu/2 ||w - w_t||^2.

    The gradient is added itself. Adding the term to the loss from detached weights, as one public version does,
    changes the loss that is shown and nothing else.

    Args:
        mu: strength; 0 is FedAvg.

    Example:
        mu 0.5, w_t = 1, w = 3, gradient 2: 2 + 0.5 (3 - 1) = 3.

        >>> client_update(add_proximal(0.5), [2.0], w=[3.0], start=[1.0])
        tensor([3.])
    """
    if isinstance(mu, float | int) and mu < 0:
        raise AskewError(f"add_proximal: mu must not be negative, got {mu}")

    def update(u: Params, state: State, ctx: Context) -> tuple[Params, State]:
        return {name: g + mu * (ctx.params[name] - ctx.start[name]) for name, g in u.items()}, state

    return Transform(update, acts_on="raw", elementwise=True)

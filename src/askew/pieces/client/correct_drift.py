"""SCAFFOLD's client: steps that are corrected by how this client's gradients differ from everyone's.

References:
    Karimireddy et al. 2020, "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", algorithm 1, option II.
"""

from __future__ import annotations

from askew.core.client_piece import ClientContext, Message, OnGradient
from askew.core.registry import piece
from askew.core.schedule import PositiveRate, value_at
from askew.core.tensors import ModelState, Params, Tree, subtract, zeros_like


@piece("client")
def correct_drift(lr: PositiveRate | None = None) -> OnGradient:
    """gradient <- gradient - c_k + c, where c_k is this client's control variate and c the server's.

        c_k' = (1 / steps) sum of the client's gradients of this round               (default)
        c_k' = c_k - c + (w_start - w_end) / (steps lr)                              (lr given: option II as printed)

    The client sends c_k' - c_k as "control". Both forms are the same number for plain SGD, whose steps are lr times the
    corrected gradient. They differ where the optimiser is not plain: with momentum 0.9 the printed form takes the
    gradients for up to ten times as long as they are, and SCAFFOLD breaks down (see docs/methods/scaffold.md).

    Args:
        lr: the optimiser's rate, or its schedule, for the form that is printed; None measures the gradients themselves.

    Example:
        c_k = 0 and c = 0 in the first round, one step with gradient 2: c_k' = 2.

        >>> client_update(correct_drift(), [2.0], w=[0.0], shared={"control": {"w": torch.tensor([0.5])}})
        tensor([2.5000])
    """

    def keep(model: ModelState) -> Tree:
        return zeros_like(model.params)

    def begin(kept: Tree, ctx: ClientContext) -> Tree:
        return {"control": kept, "sum": zeros_like(ctx.params)}

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        everyone, ours = ctx.shared["control"], state["control"]
        total = {name: state["sum"][name] + g for name, g in u.items()}
        return {name: g - ours[name] + everyone[name] for name, g in u.items()}, {"control": ours, "sum": total}

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        if lr is None:
            new = {name: total / ctx.steps for name, total in state["sum"].items()}
        else:
            everyone, rate = ctx.shared["control"], value_at(lr, ctx.round)
            new = {name: kept[name] - everyone[name] - u / (ctx.steps * rate) for name, u in message["update"].items()}
        return {**message, "control": subtract(new, kept)}, new

    return OnGradient(update, keep, begin=begin, end=end, sends=["control"], wants=["control"])

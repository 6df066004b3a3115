"""Gradients that are too long are shortened: training without normalisation layers can explode otherwise.

References:
    Pascanu, Mikolov and Bengio 2013, On the difficulty of training recurrent neural networks, algorithm 1. ozdayi2020
    does not mention it; a related program of its authors
    (TinfoilHat0/Defending-Against-Backdoors-with-Robust-Learning-Rate) clips to 10, "to prevent exploding gradients".
"""

from __future__ import annotations

from askew.core.bounds import Positive
from askew.core.client_piece import ClientContext, OnGradient
from askew.core.registry import piece
from askew.core.tensors import Params, Tree, norm


@piece("client")
def clip_gradient(length: Positive) -> OnGradient:
    """gradient <- gradient * min(1, length / (||gradient|| + 1e-6)), the norm over all weights together.

    The same maths as `torch.nn.utils.clip_grad_norm_`.

    Args:
        length: the longest gradient that stays as it is; infinity leaves all as they are.

    Example:
        length 5, gradient (6, 8) with norm 10: it becomes (3, 4).

        >>> client_update(clip_gradient(5.0), [6.0, 8.0], w=[0.0, 0.0])
        tensor([3.0000, 4.0000])
    """

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        shrink = (length / (norm(u) + 1e-6)).clamp(max=1.0)
        return {name: g * shrink for name, g in u.items()}, state

    return OnGradient(update)

"""Client chains whose step is w <- (1 + b) w + a g, such as plain SGD and weight decay: found out by trying.

Such a step can be taken in the weights' own memory, in one or two passes instead of three or four.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from askew.core.client_piece import ClientChain, ClientContext, ClientPiece, Optimiser
from askew.core.compat import tree_leaves
from askew.core.tensors import ModelState, Params
from askew.engine.traits import MAKING, Operations, traits_of

# Operations that, on gradient, weights and numbers, make nothing but sums and multiples, or products that show.
_AFFINE = MAKING | {"add", "sub", "rsub", "mul", "div", "neg", "add_", "sub_", "mul_", "div_", "neg_", "_foreach_add",
                    "_foreach_sub", "_foreach_mul", "_foreach_div", "_foreach_neg", "_foreach_add_", "_foreach_sub_",
                    "_foreach_mul_", "_foreach_div_", "_foreach_neg_"}
Shapes = tuple[tuple[str, tuple[int, ...]], ...]


@functools.lru_cache(maxsize=64)
def coefficients(chain: ClientChain, round: int, shapes: Shapes) -> dict[str, tuple[float, float]] | None:
    """Tensor -> (a, b) where every update of a round is a g + b w, at any step and client; else None.

    Args:
        shapes: names and shapes of the model: a piece may look at both.

    Example:
        >>> from askew.pieces.client.sgd import sgd
        >>> coefficients(ClientChain([sgd(lr=0.5, weight_decay=0.25)]), 0, (("w", (3, 2)),))
        {'w': (-0.5, -0.125)}
    """
    alone = _optimiser_alone(chain, shapes)
    if alone is None:
        return None
    model = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes}

    def update(g: Params, w: Params) -> Params:
        # The context holds nothing else: a piece that reads its step or client fails here, and is not taken.
        ctx = ClientContext(w, w, round, None, None, None, None, {})  # type: ignore[arg-type]
        state = alone.begin(alone.keep(ModelState(w)), ctx)
        if tree_leaves(state):
            raise ValueError("it has a state")
        return alone.update(g, state, ctx)[0]

    try:
        ones = {name: torch.ones_like(v) for name, v in model.items()}
        g, w = ({name: _values(v, seed) for name, v in model.items()} for seed in (1, 2))
        with torch.no_grad(), Operations() as done:
            of_g, of_w = update(ones, model), update(model, ones)
            mixed = update(g, w)
    except Exception:  # it wants more than gradient and weights
        return None
    if not done.names <= _AFFINE:  # what clips or rounds may look affine on a few numbers
        return None
    result = {name: (float(of_g[name].flatten()[0]), float(of_w[name].flatten()[0]))
              for name, v in model.items() if v.numel()}
    straight = all(torch.allclose(mixed[name], a * g[name] + b * w[name], rtol=1e-12, atol=1e-12)
                   for name, (a, b) in result.items())
    return result if straight and len(result) == len(model) else None


@functools.lru_cache(maxsize=64)
def _optimiser_alone(chain: ClientChain, shapes: Shapes) -> ClientChain | None:
    """The one piece that acts on gradients, where it can be affine in any round: looked at once, not in each."""
    stepping = [p for p in chain.pieces if p.update is not ClientPiece.update]
    if len(stepping) != 1 or not isinstance(stepping[0], Optimiser):
        return None
    alone = ClientChain(stepping)
    traits = traits_of(alone, {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes})
    return alone if traits.elementwise and traits.at_steps <= {"round", "params"} else None


def _values(like: Tensor, seed: int) -> Tensor:
    return torch.randn(like.shape, dtype=like.dtype, generator=torch.Generator().manual_seed(seed))

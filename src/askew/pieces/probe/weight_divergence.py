"""How far the federation's weights are from those of a centralised twin.

References:
    zhao2018: Zhao et al. 2018, Federated Learning with Non-IID Data, section 3, eq. (1), figures 2 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from askew.core.probe import Probe, ProbeContext, Round
from askew.core.registry import piece
from askew.core.tensors import ModelState, subtract
from askew.pieces.probe.layer_groups import group_norms, group_parameters, with_whole
from askew.pieces.probe.numbers import to_numbers


@piece("probe")
def weight_divergence(per: Literal["layer", "tensor", "group"] = "layer") -> Probe:
    r"""The distance between the global model and its centralised twin, relative to the twin's length.

    $$\text{weight divergence} = \|w^{\mathrm{FedAvg}} - w^{\mathrm{SGD}}\| / \|w^{\mathrm{SGD}}\|$$

    The twin starts from the same weights. In each round it trains on the pooled examples of the round's K clients, as
    many epochs, at the same learning rate, in batches of K B (zhao2018, section 2.1), which makes as many steps as a
    client of average size takes. It goes on over the rounds; the federation never sees it. It uses the clients'
    optimiser alone, without proximal terms, projections or anything at the server: what these do shows in the number.

    The twin sees as many examples as the round's clients together, in fewer and larger steps: up to twice the time.

    Args:
        per: what the parts are: "layer" takes weight and bias of a layer together, "tensor" each alone, "group" all
            convolutions and all linear layers.

    Returns:
        A probe of `weight_divergence` for the whole model and the same with a part's name behind:
        `weight_divergence conv1`. The federation's weights are those that training goes on from, also where another
        model is evaluated. None where the twin's weights are all 0, or where the twin diverges. For a cloned model
        the twin starts from the clone.

    Example:
        w = (3, 4), the twin's (0, 4): 3 / 4 = 0.75.
    """

    def read(ctx: ProbeContext, round: Round, state: Any, gathered: Any) -> tuple[Mapping[str, Any], Any]:
        twin = round.before if state is None else ModelState(state["params"], state["buffers"])
        # Examples that several clients hold (zhao2018's shared set) count as often as they were trained on.
        examples = np.concatenate([ctx.population.train[client] for client in round.clients])
        # Batch size 0 is all at once, for the twin too. Rates decay by rounds completed, one fewer than the number.
        twin = ctx.train(twin, examples, ctx.batch_size * len(round.clients), round.number - 1)
        parts = with_whole(group_parameters(ctx.module, twin.params, per), twin.params)
        apart = group_norms(subtract(round.after.params, twin.params), parts)
        length = group_norms(twin.params, parts)
        values = {f"weight_divergence{part}": apart[part] / length[part] for part in parts}
        return to_numbers(values), {"params": twin.params, "buffers": twin.buffers}

    return Probe(read)

"""Do the clients' updates cancel out? The length of the mean update against the mean length of the updates.

References:
    fednnnn2020: Nagura, Bian and Sato 2020, FedNNNN, section 3.1 ("norm-based weight divergence analysis"),
    eq. (4)-(6), figures 3 and 4; eq. (24)-(25), figures 8 and 9 and those of the appendix for the split into
    convolutional and fully connected layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor

from askew.core.probe import Probe, ProbeContext, Round
from askew.core.registry import piece
from askew.core.tensors import Params, subtract
from askew.pieces.probe.layer_groups import group_norms, group_parameters, with_whole
from askew.pieces.probe.numbers import to_numbers


@piece("probe")
def update_norms(per: Literal["group", "layer"] = "group") -> Probe:
    r"""N, E and the server's step in each round, for the whole model and for parts of it.

    For clients k with weights $a_k$ (as the server averages them) and updates $u_k$ (as they reached the server):

    $$N = \|\sum_k a_k u_k\|, \quad E = \sum_k a_k \|u_k\|, \quad N \le E$$

    N / E is 1 where all clients pull in one direction, and near 0 where they cancel each other out.

    The paper has two N. Eq. (4) is the length of the *mean* update; eq. (24), which figures 8 and 9 plot, that of the
    step the server *takes*, $\|w_{t+1} - w_t\|$, after normalisation and momentum. They are the same under FedAvg. Here
    the first is `N`, the second `server_step`, and the integral of section 3.1,
    $\mathcal{N} = \sum_{\tau \le t} \|w_{\tau+1} - w_\tau\|$, is `integral_N`.

    Args:
        per: what the parts are: "group" for "conv" and "fc" (`group_parameters` says what is which), "layer" for each
            layer alone.

    Returns:
        A probe of `N`, `E`, `N/E`, `server_step`, `integral_N`, and the same with a part's name behind: `N conv`.
        N/E is None where no client moved. The integral of a cloned model starts when the clone is made.

    Example:
        Equal weights, updates (3, 4) and (3, -4): N = |(3, 0)| = 3, E = 5, N/E = 0.6.
    """

    def read(ctx: ProbeContext, round: Round, state: Params, gathered: Any) -> tuple[Mapping[str, Any], Params]:
        before = round.before.params
        parts = with_whole(group_parameters(ctx.module, before, per), before)
        steps = group_norms(subtract(round.after.params, before), parts)
        integrals = {part: state[part] + step if part in state else step for part, step in steps.items()}
        values: dict[str, Tensor] = {}
        for part, names in parts.items():
            n, e = round.cohort.norm_of_mean(names), round.cohort.mean_norm(names)
            values |= {f"N{part}": n, f"E{part}": e, f"N/E{part}": n / e, f"server_step{part}": steps[part],
                       f"integral_N{part}": integrals[part]}
        return to_numbers(values), integrals

    return Probe(read, init=lambda ctx: {})

"""In how many coordinates do the clients pull in different directions?

References:
    ozdayi2020: Ozdayi, Kantarcioglu and Iyer 2020, section 3.4 and eq. (4), whose remedy is `mask_by_sign_agreement`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from askew.core.errors import AskewError
from askew.core.probe import Probe, ProbeContext, Round
from askew.core.registry import piece
from askew.pieces.probe.layer_groups import group_parameters, with_whole
from askew.pieces.probe.numbers import to_numbers
from askew.pieces.statistic.sign_sum import SignSum


@piece("probe")
def sign_cancellation(theta: float | None = None, per: Literal["group", "layer"] = "group") -> Probe:
    r"""Shares of the coordinates by how the signs $s = \sum_k \mathrm{sgn}(u_k)$ of the clients' updates add up.

    A coordinate that no client moves (a weight of a pixel that is always black) has s = 0 too, without any
    disagreement: `unmoved` tells how many there may be.

    Args:
        theta: agreement means |s| >= theta; None asks for unanimity, |s| = number of clients.
        per: what the parts are: "group" for "conv" and "fc", "layer" for each layer alone.

    Returns:
        A probe of the shares, for the whole model and with a part's name behind (`no_sign_agreement conv`):
        `no_sign_agreement`, |s| < theta, what `mask_by_sign_agreement(theta)` would hold still; `signs_cancel`, s = 0;
        `unmoved`, s = 0 and the mean update exactly 0.

    Example:
        Updates (1, 1, -1, 0) and (2, -1, -3, 0): s = (2, 0, -2, 0), mean (1.5, 0, -2, 0). Without agreement 2 of 4,
        cancelled 2 of 4, unmoved 2 of 4 (the second because 1 - 1 = 0 exactly, which real updates hardly do).
    """
    if theta is not None and not theta > 0:
        raise AskewError(f"sign_cancellation: theta must be positive, got {theta}; leave it out to ask for unanimity")

    def init(ctx: ProbeContext) -> None:
        clients = ctx.population.num_clients
        if theta is not None and theta > clients:
            raise AskewError(f"sign_cancellation: theta = {theta} is above the {clients} clients of the federation, so "
                             f"that none could ever agree; use at most {clients}")

    def read(ctx: ProbeContext, round: Round, state: Any, gathered: Any) -> tuple[Mapping[str, Any], Any]:
        threshold = len(round.cohort) if theta is None else theta
        signs, mean = round.cohort[SignSum()], round.cohort.mean
        counts = {name: torch.stack([(s.abs() < threshold).sum(), (s == 0).sum(), ((s == 0) & (mean[name] == 0)).sum()])
                  for name, s in signs.items()}
        values: dict[str, Tensor] = {}
        for part, names in with_whole(group_parameters(ctx.module, signs, per), signs).items():
            size = sum(signs[name].numel() for name in names)
            shares = torch.stack([counts[name] for name in names]).sum(dim=0, dtype=torch.float64) / size
            for what, share in zip(("no_sign_agreement", "signs_cancel", "unmoved"), shares, strict=True):
                values[what + part] = share
        return to_numbers(values), state

    return Probe(read, init, needs=[SignSum()])

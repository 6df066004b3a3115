"""On how many inputs do the clients' models contradict each other?

References:
    ozdayi2020: Ozdayi, Kantarcioglu and Iyer 2020, section 3.1 and figure 1: two models conflict where they assign
    different classes to one input. The paper has no measure of it; the shares below are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from askew.core import rng
from askew.core.errors import AskewError
from askew.core.probe import Probe, ProbeContext, Round
from askew.core.registry import piece
from askew.core.tensors import ModelState
from askew.pieces.probe.numbers import to_numbers


@piece("probe")
def hypothesis_conflicts(inputs: int = 500) -> Probe:
    r"""Shares of held-out inputs on which the clients' trained models disagree.

    Each model votes for a class on each input as it arrives; only the votes are kept. With $v_c$ of K votes for c:

    $$\text{any} = [\max_c v_c < K], \quad \text{pair} = 1 - \sum_c \frac{v_c (v_c - 1)}{K (K - 1)}$$

    averaged over the inputs. The second is the mean over all pairs of clients of the share on which the two differ, and
    can be compared between cohorts of different sizes; the first grows with K.

    Args:
        inputs: how many of the test examples to ask about, drawn once and the same in every run; all where there are
            fewer.

    Returns:
        A probe of `conflicts_any` and `conflicts_pair`, both from 0 (one client alone included) to 1.

    Example:
        Three models say (a, a, b) on one input and (a, a, a) on another: any = 1/2; pair = (2/3 + 0) / 2 = 1/3.
    """
    if inputs < 1:
        raise AskewError(f"hypothesis_conflicts: inputs must be at least 1, got {inputs}")

    def init(ctx: ProbeContext) -> None:
        if ctx.data.targets != "classes":
            raise AskewError(f"hypothesis_conflicts: models vote for classes, and {ctx.data.name} has "
                             f"{ctx.data.targets}; leave this probe out")

    def observe(ctx: ProbeContext, model: ModelState, gathered: dict[str, Tensor] | None) -> dict[str, Tensor]:
        classes = ctx.data.num_classes
        if gathered is None:
            x = _held_out(ctx, inputs)
            gathered = {"x": x, "votes": torch.zeros(len(x), classes, dtype=torch.int64, device=x.device)}
        votes = F.one_hot(ctx.predict(model, gathered["x"]), classes)
        return {"x": gathered["x"], "votes": gathered["votes"] + votes}

    def read(ctx: ProbeContext, round: Round, state: Any, gathered: dict[str, Tensor]) -> tuple[Mapping[str, Any], Any]:
        votes, clients = gathered["votes"], len(round.cohort)
        agreeing = (votes * (votes - 1)).sum(dim=1).to(torch.float64)
        pairs = clients * (clients - 1)
        pair = 1 - agreeing / pairs if pairs else torch.zeros_like(agreeing)  # nobody to contradict a single client
        any_ = (votes.max(dim=1).values < clients).to(torch.float64)
        return to_numbers({"conflicts_any": any_.mean(), "conflicts_pair": pair.mean()}), state

    def merge(a: dict[str, Tensor], b: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"x": a["x"], "votes": a["votes"] + b["votes"]}

    return Probe(read, init, observe=observe, merge=merge)


def _held_out(ctx: ProbeContext, inputs: int) -> Tensor:
    x = ctx.data.test.x
    # A constant key, not the run's seed: runs with different seeds are asked about the same inputs.
    order = rng.permutation(rng.key(0, "hypothesis conflicts"), len(x))
    return x[order[:inputs].to(x.device)]

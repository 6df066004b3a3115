"""Clients of different speeds, and a server that does not wait for ever.

References:
    Bonawitz et al. 2019, "Towards Federated Learning at Scale: System Design", section 2.2: reports that come after the
    reporting window are ignored. Nishio and Yonetani 2019, "Client Selection for Federated Learning with Heterogeneous
    Resources in Mobile Edge": rounds with a deadline.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from askew.core import rng
from askew.core.adversity import Adversity, AdversityContext
from askew.core.bounds import NonNegative, Positive
from askew.core.registry import piece


@piece("adversity")
def straggle(deadline: Positive = math.inf, speed: Positive = 100.0, spread: NonNegative = 0.5) -> Adversity:
    """Client k takes t_k = E n_k / s_k seconds for n_k examples and E epochs; with t_k > deadline it is left out.

    Its speed s_k = speed exp(spread z_k) is log-normal, with z_k ~ N(0, 1) drawn once per client: who is slow stays
    slow, and those with many examples are late more often. `simulated_seconds` in the record is how long the server
    waits: for the slowest client that no adversity before this one has taken out, but not beyond the deadline. Only
    training takes time.

    Args:
        deadline: in seconds; `inf` waits for all, and only measures.
        speed: examples per second, median over the clients.
        spread: standard deviation of the speed's logarithm; 0 makes all equally fast.

    Example:
        100 examples per second, two epochs: 50, 100 and 200 examples take 1, 2 and 4 s. With a deadline of 3 s the
        third is late, and the round takes 3 s.

        >>> ctx = adversity_context(3, examples=[50, 100, 200], epochs=2)
        >>> slow = straggle(deadline=3.0, spread=0.0)
        >>> slow.struck(ctx), slow.measure(ctx, torch.tensor([False, False, False]))
        (tensor([False, False,  True]), {'simulated_seconds': 3.0})
        >>> slow.measure(ctx, torch.tensor([False, False, True]))
        {'simulated_seconds': 2.0}
    """

    def seconds(ctx: AdversityContext) -> Tensor:
        z = rng.normal(rng.fold(ctx.lasting_key, ctx.clients), 1)[:, 0].double()
        return ctx.epochs * ctx.examples / (speed * torch.exp(spread * z))

    def measure(ctx: AdversityContext, gone: Tensor) -> Mapping[str, float]:
        waited = seconds(ctx).clamp(max=deadline)[~gone]
        return {"simulated_seconds": float(waited.max()) if len(waited) else 0.0}

    return Adversity(lambda ctx: seconds(ctx) > deadline, reason="late", measure=measure)

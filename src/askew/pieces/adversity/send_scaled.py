"""Clients whose updates are far too long, by a fault or on purpose.

References:
    Bagdasaryan et al. 2020, "How to Backdoor Federated Learning" (model replacement): an attacker scales its update so
    that the mean becomes the model it wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from askew.core.adversity import Adversity, Who
from askew.core.bounds import Share
from askew.core.client_piece import Message
from askew.core.registry import piece


@piece("adversity")
def send_scaled(factor: float = 1e6, share: Share = 1.0, clients: Sequence[int] | None = None,
                lasting: bool = False) -> Adversity:
    """u_k <- factor u_k; what else the client sends stays as it is.

    Args:
        factor: also negative.
        share: the chance that a client does so in a round, drawn anew in each.
        clients: only these do; default: any.
        lasting: `share` is that of the clients, drawn once: they do so in every round.

    Example:
        >>> send_scaled(factor=100.0).spoil({"update": {"w": torch.tensor([[1.0, -2.0]])}})
        {'update': {'w': tensor([[ 100., -200.]])}}
    """
    who = Who(share, clients, lasting=lasting)

    def spoil(message: Message) -> Message:
        return {**message, "update": {name: factor * v for name, v in message["update"].items()}}

    return Adversity(who, spoil=spoil, check=partial(who.check, "send_scaled"))

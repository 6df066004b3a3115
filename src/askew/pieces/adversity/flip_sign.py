"""Clients that send the opposite of what they have learnt: as long as the others' updates, so that no guard sees it.

References:
    Karimireddy, He and Jaggi 2021, "Learning from History for Byzantine Robust Optimization" (bit flipping).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from askew.core.adversity import Adversity, Who
from askew.core.bounds import Share
from askew.core.client_piece import Message
from askew.core.registry import piece


@piece("adversity")
def flip_sign(share: Share = 1.0, clients: Sequence[int] | None = None, lasting: bool = False) -> Adversity:
    """u_k <- -u_k; what else the client sends stays as it is.

    A guard on lengths lets it pass; the median and the trimmed mean are made for it.

    Args:
        share: the chance that a client does so in a round, drawn anew in each.
        clients: only these do; default: any.
        lasting: `share` is that of the clients, drawn once: they do so in every round.

    Example:
        >>> flip_sign().spoil({"update": {"w": torch.tensor([[1.0, -2.0]])}})
        {'update': {'w': tensor([[-1.,  2.]])}}
    """
    who = Who(share, clients, lasting=lasting)

    def spoil(message: Message) -> Message:
        return {**message, "update": {name: -v for name, v in message["update"].items()}}

    return Adversity(who, spoil=spoil, check=partial(who.check, "flip_sign"))

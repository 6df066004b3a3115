"""Clients whose training has broken: all that they send is NaN."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from askew.core.adversity import Adversity, Who
from askew.core.bounds import Share
from askew.core.client_piece import Message
from askew.core.compat import tree_map
from askew.core.registry import piece


@piece("adversity")
def send_nan(share: Share = 1.0, clients: Sequence[int] | None = None, lasting: bool = False) -> Adversity:
    """Every number of the message (update, buffers, what pieces add) is NaN; whole numbers, such as counters, stay.

    Without a guard the first such message ends the run.

    Args:
        share: the chance that a client does so in a round, drawn anew in each.
        clients: only these do; default: any.
        lasting: `share` is that of the clients, drawn once: they do so in every round.

    Example:
        >>> send_nan().spoil({"update": {"w": torch.tensor([[1.0, 2.0]])}})
        {'update': {'w': tensor([[nan, nan]])}}
    """
    who = Who(share, clients, lasting=lasting)

    def broken(v: Tensor) -> Tensor:
        return torch.full_like(v, torch.nan) if v.is_floating_point() else v

    def spoil(message: Message) -> Message:
        return {name: tree_map(broken, tree) for name, tree in message.items()}

    return Adversity(who, spoil=spoil, check=partial(who.check, "send_nan"))

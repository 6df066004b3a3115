"""Clients that begin a round and do not end it.

References:
    Bonawitz et al. 2019, "Towards Federated Learning at Scale: System Design", section 9: 6% to 10% of the devices of a
    round drop out in the field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from askew.core.adversity import Adversity, Who
from askew.core.bounds import Share
from askew.core.registry import piece


@piece("adversity")
def drop_out(share: Share | Sequence[float] = 0.1, groups: Mapping[int, float] | None = None) -> Adversity:
    """Client k of a round fails with chance p_k, drawn anew in each round, before it sends anything.

    It has been sent the model (its bytes count), is not in the round's mean, and remembers what it did before. A
    round in which all fail leaves the model as it is.

    Args:
        share: p, for all clients; or a list, one for each client.
        groups: archetype -> p of its clients, in place of `share`.

    Example:
        Clients 0 and 2 always fail, client 1 never does.

        >>> drop_out(share=[1.0, 0.0, 1.0]).struck(adversity_context(3))
        tensor([ True, False,  True])
    """
    who = Who(share, groups=groups)
    return Adversity(who, reason="dropped_out", check=partial(who.check, "drop_out"))

"""The network's own first weights."""

from __future__ import annotations

from askew.core.registry import piece
from askew.core.start import Start


@piece("start")
def random() -> Start:
    """The network's own random initialisation, drawn from the recipe's seed."""
    return Start(lambda ctx: ctx.fresh)

"""Rates that change from round to round, one schedule per file."""

from askew.pieces.schedule.cosine import cosine
from askew.pieces.schedule.decay import decay
from askew.pieces.schedule.drops import drops
from askew.pieces.schedule.linear_warm_up import linear_warm_up

__all__ = ["cosine", "decay", "drops", "linear_warm_up"]

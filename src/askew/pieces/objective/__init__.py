"""Objectives: what the clients minimise, and what a model is judged by. One piece per file."""

from askew.pieces.objective.binary_cross_entropy import binary_cross_entropy
from askew.pieces.objective.cross_entropy import cross_entropy
from askew.pieces.objective.mean_squared_error import mean_squared_error
from askew.pieces.objective.next_token import next_token

__all__ = ["binary_cross_entropy", "cross_entropy", "mean_squared_error", "next_token"]

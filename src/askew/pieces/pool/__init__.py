"""Pools: which global models exist and who trains which."""

from askew.pieces.pool.clone_and_delete import clone_and_delete
from askew.pieces.pool.single_model import single_model

__all__ = ["clone_and_delete", "single_model"]

"""Pools: which global models exist and who trains which."""

from askew.pool.clone_and_delete import clone_and_delete
from askew.pool.single_model import single_model

__all__ = ["clone_and_delete", "single_model"]

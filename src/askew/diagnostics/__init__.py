"""Measures, one a file: of a federation before it trains (`skew`), and probes of each round while it does."""

from askew.diagnostics.hypothesis_conflicts import hypothesis_conflicts
from askew.diagnostics.sign_cancellation import sign_cancellation
from askew.diagnostics.update_norms import update_norms
from askew.diagnostics.weight_divergence import weight_divergence

__all__ = ["hypothesis_conflicts", "sign_cancellation", "update_norms", "weight_divergence"]

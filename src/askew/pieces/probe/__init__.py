"""Measures, one per file: of a federation before it trains (`skew`), and probes of each round while it does."""

from askew.pieces.probe.accuracy_on_devices_of import accuracy_on_devices_of
from askew.pieces.probe.hypothesis_conflicts import hypothesis_conflicts
from askew.pieces.probe.sign_cancellation import sign_cancellation
from askew.pieces.probe.update_norms import update_norms
from askew.pieces.probe.weight_divergence import weight_divergence

__all__ = ["accuracy_on_devices_of", "hypothesis_conflicts", "sign_cancellation", "update_norms", "weight_divergence"]

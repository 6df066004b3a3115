"""Adversities, one per file: what goes wrong with clients in a simulation."""

from askew.pieces.adversity.drop_out import drop_out
from askew.pieces.adversity.flip_labels import flip_labels
from askew.pieces.adversity.flip_sign import flip_sign
from askew.pieces.adversity.send_nan import send_nan
from askew.pieces.adversity.send_scaled import send_scaled
from askew.pieces.adversity.straggle import straggle

__all__ = ["drop_out", "flip_labels", "flip_sign", "send_nan", "send_scaled", "straggle"]

"""Client pieces: what happens in a client's round, and to what it sends. One piece a file."""

from askew.pieces.client.adam import adam
from askew.pieces.client.add_dynamic_regulariser import add_dynamic_regulariser
from askew.pieces.client.add_gradient_noise import add_gradient_noise
from askew.pieces.client.add_proximal import add_proximal
from askew.pieces.client.clip_gradient import clip_gradient
from askew.pieces.client.clip_update import clip_update
from askew.pieces.client.correct_drift import correct_drift
from askew.pieces.client.project_to_ball import project_to_ball
from askew.pieces.client.quantize import quantize
from askew.pieces.client.quantize_at_random import quantize_at_random
from askew.pieces.client.scale_by_server import scale_by_server
from askew.pieces.client.sgd import sgd
from askew.pieces.client.stay_local import stay_local

__all__ = ["adam", "add_dynamic_regulariser", "add_gradient_noise", "add_proximal", "clip_gradient", "clip_update",
           "correct_drift", "project_to_ball", "quantize", "quantize_at_random", "scale_by_server", "sgd", "stay_local"]

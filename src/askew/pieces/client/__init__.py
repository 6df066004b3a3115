"""Client pieces: a client's local step, and what it does to its upload. One piece a file."""

from askew.pieces.client.add_gradient_noise import add_gradient_noise
from askew.pieces.client.add_proximal import add_proximal
from askew.pieces.client.clip_gradient import clip_gradient
from askew.pieces.client.project_to_ball import project_to_ball
from askew.pieces.client.quantize import quantize
from askew.pieces.client.quantize_at_random import quantize_at_random
from askew.pieces.client.sgd import sgd

__all__ = ["add_gradient_noise", "add_proximal", "clip_gradient", "project_to_ball", "quantize", "quantize_at_random", "sgd"]

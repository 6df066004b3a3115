"""Server pieces: what happens between the clients' updates and the next global model. One piece a file."""

from askew.pieces.server.evaluate_average import evaluate_average
from askew.pieces.server.mask_by_sign_agreement import mask_by_sign_agreement
from askew.pieces.server.mean import mean
from askew.pieces.server.momentum import momentum
from askew.pieces.server.quantize import quantize
from askew.pieces.server.rescale_to_mean_norm import rescale_to_mean_norm
from askew.pieces.server.scale import scale
from askew.pieces.server.train_on_server import train_on_server

__all__ = ["evaluate_average", "mask_by_sign_agreement", "mean", "momentum", "quantize", "rescale_to_mean_norm",
           "scale", "train_on_server"]

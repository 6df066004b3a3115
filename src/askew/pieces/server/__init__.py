"""Server pieces: what happens between the clients' updates and the next global model. One piece a file."""

from askew.pieces.server.adagrad import adagrad
from askew.pieces.server.adam import adam
from askew.pieces.server.add_noise import add_noise
from askew.pieces.server.add_update_noise import add_update_noise
from askew.pieces.server.correct_dynamically import correct_dynamically
from askew.pieces.server.evaluate_average import evaluate_average
from askew.pieces.server.extrapolate import extrapolate
from askew.pieces.server.mask_by_sign_agreement import mask_by_sign_agreement
from askew.pieces.server.mean import mean
from askew.pieces.server.mean_per_step import mean_per_step
from askew.pieces.server.median import median
from askew.pieces.server.momentum import momentum
from askew.pieces.server.plateau import plateau
from askew.pieces.server.quantize import quantize
from askew.pieces.server.rescale_to_mean_norm import rescale_to_mean_norm
from askew.pieces.server.scale import scale
from askew.pieces.server.train_on_server import train_on_server
from askew.pieces.server.trimmed_mean import trimmed_mean
from askew.pieces.server.update_control import update_control
from askew.pieces.server.yogi import yogi

__all__ = ["adagrad", "adam", "add_noise", "add_update_noise", "correct_dynamically", "evaluate_average", "extrapolate",
           "mask_by_sign_agreement", "mean", "mean_per_step", "median", "momentum", "plateau", "quantize",
           "rescale_to_mean_norm", "scale", "train_on_server", "trimmed_mean", "update_control", "yogi"]

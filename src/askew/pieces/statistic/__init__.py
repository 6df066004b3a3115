"""What the server may ask of a round's clients beyond their mean and norms. One statistic a file."""

from askew.pieces.statistic.everything import Everything
from askew.pieces.statistic.mean_loss import MeanLoss
from askew.pieces.statistic.mean_of import MeanOf
from askew.pieces.statistic.mean_per_step import MeanPerStep
from askew.pieces.statistic.sign_sum import SignSum

__all__ = ["Everything", "MeanLoss", "MeanOf", "MeanPerStep", "SignSum"]

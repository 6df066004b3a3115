"""The keyword-spotting network of "Hello Edge", which zhao2018 trains on ten words of Speech Commands."""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

from torch import nn

from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.models.checks import require_image

# size -> (channels of conv1, channels of conv2, width of the linear layer), from the authors' training commands.
_SIZES = {"small": (28, 30, 16), "medium": (64, 48, 16), "large": (60, 76, 58)}


@piece("model")
def hello_edge_cnn(
    input_shape: tuple[int, ...],
    num_classes: int,
    size: Literal["small", "medium", "large"] = "small",
    batch_norm: bool = True,
    dropout: float = 0.0,
) -> nn.Module:
    """Two unpadded 10x4 convolutions over (time, coefficient), a narrow linear layer, FC 128, the classes.

    [1, 50, 10] becomes [28, 41, 7], then, with stride 2 in time, [30, 16, 4] = 1,920 values. Parameters of "small"
    with ten words: conv1 40*1*28 + 28 = 1,148, bn1 2*28 = 56, conv2 40*28*30 + 30 = 33,630, bn2 2*30 = 60,
    linear 1920*16 + 16 = 30,736, fc1 16*128 + 128 = 2,176, bn3 2*128 = 256, fc2 128*10 + 10 = 1,290; sum 69,352.
    "medium" has 178,666, "large" 476,476.

    Args:
        input_shape: [1, frames, coefficients], at least 19 frames and 7 coefficients; [1, 50, 10] in zhao2018.
        num_classes: number of words (logits).
        size: the authors' CNN1, CNN2, CNN3. zhao2018 does not say which it took; the default is the smallest.
        batch_norm: BatchNorm after both convolutions and FC 128, as in the authors' code. zhao2018 does not mention
            it. Clients that see one word each normalise by that word's statistics, and their average stays at chance,
            so our recipes of zhao2018 leave it out.
        dropout: probability to drop a value after each ReLU; 0: no such layers. The authors' code has them but trains
            with a keep probability of 1, and zhao2018 mentions none.

    Returns:
        `nn.Sequential` of conv1, bn1, relu1, conv2, bn2, relu2, flatten, linear, fc1, bn3, relu3, fc2.

    Example:
        >>> sum(p.numel() for p in hello_edge_cnn((1, 50, 10), 10).parameters())
        69352

    References:
        Zhang, Suda, Lai and Chandra 2017, Hello Edge: Keyword Spotting on Microcontrollers; layers from the function
        `create_cnn_model` and sizes from `train_commands.txt` of ARM-software/ML-KWS-for-MCU (small: 28 10 4 1 1
        30 10 4 2 1 16 128; medium: 64 10 4 1 1 48 10 4 2 1 16 128; large: 60 10 4 1 1 76 10 4 2 1 58 128).
        Used by Zhao et al. 2018, Federated Learning with Non-IID Data, section 2.
    """
    channels, frames, coefficients = require_image("hello_edge_cnn", input_shape, num_classes, min_size=(19, 7))
    if not 0.0 <= dropout < 1.0:
        raise AskewError(f"hello_edge_cnn: dropout must be at least 0 and below 1, not {dropout}; write dropout=0.5")
    first, second, narrow = _SIZES[size]
    # Of (time, coefficient), an unpadded 10x4 kernel leaves (t - 9, c - 3); conv2 then takes every second t.
    rows, columns = (frames - 9 - 10) // 2 + 1, coefficients - 3 - 3
    layers: OrderedDict[str, nn.Module] = OrderedDict()

    def finish(number: int, norm: nn.Module) -> None:
        if batch_norm:
            layers[f"bn{number}"] = norm
        layers[f"relu{number}"] = nn.ReLU()
        if dropout > 0.0:
            layers[f"dropout{number}"] = nn.Dropout(dropout)

    # Departure: the authors draw most weights from a normal distribution of standard deviation 0.01 and start biases
    # at 0; here both start as torch has them, which also suits the network without BatchNorm. BatchNorm's momentum and
    # epsilon are torch's defaults as well.
    layers["conv1"] = nn.Conv2d(channels, first, (10, 4))
    finish(1, nn.BatchNorm2d(first))
    layers["conv2"] = nn.Conv2d(first, second, (10, 4), stride=(2, 1))
    finish(2, nn.BatchNorm2d(second))
    layers["flatten"] = nn.Flatten()
    # No activation follows: linear and fc1 are one matrix of rank 16 (58 if large), which takes fewer weights.
    layers["linear"] = nn.Linear(second * rows * columns, narrow)
    layers["fc1"] = nn.Linear(narrow, 128)
    finish(3, nn.BatchNorm1d(128))
    layers["fc2"] = nn.Linear(128, num_classes)
    return nn.Sequential(layers)

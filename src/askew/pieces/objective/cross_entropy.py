"""One class per example: the objective of classification.

References:
    Good 1952, "Rational Decisions" (the logarithmic score); Szegedy et al. 2016, "Rethinking the Inception
    Architecture", section 7 (label smoothing).
"""

from __future__ import annotations

from functools import partial

import torch.nn.functional as F
from torch import Tensor

from askew.core.bounds import Decay
from askew.core.objective import Objective
from askew.core.registry import piece


@piece("objective")
def cross_entropy(label_smoothing: Decay = 0.0) -> Objective:
    r"""$-\sum_c q_c \log p_c$ with $p = \mathrm{softmax}(o)$ and $q_c = (1 - s) [c = y] + s / C$.

    Args:
        label_smoothing: s, the weight that is spread over all C classes; 0 leaves $-\log p_y$. It
            counts in the recorded loss, too.

    Returns:
        An objective for outputs [B, C] and classes [B], judged by `accuracy`: whether the largest output is the class.

    Example:
        Outputs (0, log 3) are p = (1/4, 3/4): the loss of class 1 is -log(3/4) = 0.2877, and it would be chosen.

        >>> output, target = torch.tensor([[0.0, torch.tensor(3.0).log()]]), torch.tensor([1])
        >>> cross_entropy().losses(output, target), cross_entropy().measures(output, target)["accuracy"]
        (tensor([0.2877]), tensor([True]))
    """

    def measures(output: Tensor, target: Tensor) -> dict[str, Tensor]:
        return {"accuracy": output.argmax(dim=1) == target}

    return Objective(
        losses=partial(F.cross_entropy, reduction="none", label_smoothing=label_smoothing), measures=measures,
        headline="accuracy", higher_is_better=True, is_share=True, targets="classes",
        output_shape=lambda target, outputs: (outputs,), mean=partial(F.cross_entropy, label_smoothing=label_smoothing),
    )

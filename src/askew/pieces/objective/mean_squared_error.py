"""Numbers as targets: regression.

References:
    Gauss 1809, "Theoria motus" (least squares).
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from askew.core.objective import Objective
from askew.core.registry import piece


@piece("objective")
def mean_squared_error() -> Objective:
    r"""$\frac{1}{d} \sum_{j=1}^{d} (o_j - y_j)^2$, the mean over an example's d numbers.

    Returns:
        An objective for outputs [B, d] and numbers [B, d], judged by `mean_squared_error`, where less is
        better; beside it `mean_absolute_error`, in the unit of the targets. Scale targets to about 1
        before, or lower the learning rate.

    Example:
        Outputs (1, 5) for targets (0, 3): (1 + 4) / 2 = 2.5; apart by (1 + 2) / 2 = 1.5.

        >>> output, target = torch.tensor([[1.0, 5.0]]), torch.tensor([[0.0, 3.0]])
        >>> objective = mean_squared_error()
        >>> objective.losses(output, target), objective.measures(output, target)["mean_absolute_error"]
        (tensor([2.5000]), tensor([1.5000]))
    """

    def losses(output: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(output, target.to(output.dtype), reduction="none").mean(dim=1)

    def measures(output: Tensor, target: Tensor) -> dict[str, Tensor]:
        return {"mean_squared_error": losses(output, target),
                "mean_absolute_error": (output - target).abs().mean(dim=1)}

    return Objective(losses, measures, headline="mean_squared_error", targets="numbers",
                     output_shape=lambda target, outputs: target)

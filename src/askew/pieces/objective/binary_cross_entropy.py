"""Several labels per example, each there or not.

References:
    Tsoumakas and Katakis 2007, "Multi-Label Classification: An Overview", section 4 (Hamming loss, exact match).
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from askew.core.objective import Objective
from askew.core.registry import piece


@piece("objective")
def binary_cross_entropy() -> Objective:
    r"""$-\frac{1}{L} \sum_{l=1}^{L} y_l \log p_l + (1 - y_l) \log (1 - p_l)$ with $p_l = 1 / (1 + e^{-o_l})$.

    Judged by `label_accuracy`, the share of an example's labels that are right ($o_l > 0$ says that l is
    there): it moves with every label that is learnt, whatever L is. `exact_match`, whether all are right,
    stands beside it; it is 0 for long where labels are many. Where labels are rare, both are high for a model
    that never names one: look at the loss, too.

    Returns:
        An objective for outputs [B, L] and labels [B, L] of 0 and 1.

    Example:
        Outputs (0, log 3) are p = (1/2, 3/4); of labels (1, 0) the loss is (log 2 + log 4) / 2 = 1.5 log 2 = 1.0397.
        The first is not named (p is not above 1/2), the second is: none is right.

        >>> output, target = torch.tensor([[0.0, torch.tensor(3.0).log()]]), torch.tensor([[1.0, 0.0]])
        >>> objective = binary_cross_entropy()
        >>> objective.losses(output, target), objective.measures(output, target)["label_accuracy"]
        (tensor([1.0397]), tensor([0.]))
    """

    def losses(output: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(output, target.to(output.dtype), reduction="none").mean(dim=1)

    def measures(output: Tensor, target: Tensor) -> dict[str, Tensor]:
        right = (output > 0) == (target > 0.5)
        return {"label_accuracy": right.float().mean(dim=1), "exact_match": right.all(dim=1)}

    return Objective(losses, measures, headline="label_accuracy", higher_is_better=True, is_share=True,
                     targets="labels", output_shape=lambda target, outputs: target)

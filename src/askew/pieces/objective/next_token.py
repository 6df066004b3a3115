"""The next token at every place of a sequence: language models.

References:
    McMahan et al. 2017, section 3 (next-character and next-word models); Reddi et al. 2021, "Adaptive Federated
    Optimization", appendix C.3 (Stack Overflow next-word prediction).
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from askew.core.objective import Objective
from askew.core.registry import piece
from askew.core.targets import PADDING


@piece("objective")
def next_token(ignore: int = PADDING) -> Objective:
    r"""$-\frac{1}{T'} \sum_{t : y_t \ne \text{ignore}} \log p_t(y_t)$ with $p_t = \mathrm{softmax}(o_t)$.

    The mean is taken over the T' places of an example that count, then over examples: a short sequence weighs as much
    as a long one (torch's `cross_entropy` over all places of a batch weighs places alike instead). An example with no
    such place has a loss of 0.

    Args:
        ignore: the token of places that do not count, such as padding; -100 is torch's own.

    Returns:
        An objective for outputs [B, T, V] (place before vocabulary, as a linear layer behind a recurrent or
        attention layer gives them) and tokens [B, T], judged by `token_accuracy`: the share of places that
        count at which the largest output is the token. The targets are the inputs moved on by one place; the
        data say so, nothing is moved here.

    Example:
        Over two tokens, outputs (0, 0) and (0, log 3): token 1 has -log(1/2) = 0.6931 and
        -log(3/4) = 0.2877, in the mean 0.4904. Of two equal outputs the first is taken: one of two is right.
        With the second place as padding, 0.6931.

        >>> output = torch.tensor([[[0.0, 0.0], [0.0, torch.tensor(3.0).log()]]])
        >>> next_token().losses(output, torch.tensor([[1, 1]])), next_token().losses(output, torch.tensor([[1, -100]]))
        (tensor([0.4904]), tensor([0.6931]))
        >>> next_token().measures(output, torch.tensor([[1, 1]]))["token_accuracy"]
        tensor([0.5000])
    """

    def mean(values: Tensor, target: Tensor) -> Tensor:
        return values.sum(dim=1) / (target != ignore).sum(dim=1).clamp_min(1)

    def losses(output: Tensor, target: Tensor) -> Tensor:
        each = F.cross_entropy(output.flatten(0, 1), target.flatten(), reduction="none", ignore_index=ignore)
        return mean(each.view(target.shape), target)

    def measures(output: Tensor, target: Tensor) -> dict[str, Tensor]:
        right = (output.argmax(dim=2) == target) & (target != ignore)
        return {"token_accuracy": mean(right.float(), target)}

    return Objective(losses, measures, headline="token_accuracy", higher_is_better=True, is_share=True,
                     targets="tokens", output_shape=lambda target, outputs: (*target, outputs))

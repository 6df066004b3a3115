"""A bag of words: the smallest network for text, the mean of its words' vectors."""

from __future__ import annotations

from collections import OrderedDict
from typing import Annotated

import torch
from torch import Tensor, nn

from askew.core.bounds import Bounds
from askew.core.columns import PADDING, UNKNOWN
from askew.core.errors import AskewError
from askew.core.registry import piece
from askew.models.checks import require_classes


class MeanOfWords(nn.Module):
    """Numbers of words [B, places] -> the mean of their vectors [B, width]; places without a word do not count."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(vocabulary, width)

    def forward(self, x: Tensor) -> Tensor:
        numbers = x.long()
        known = (numbers >= 0) & (numbers < self.vectors.num_embeddings)
        numbers = torch.where(known, numbers, UNKNOWN)
        mask = (numbers != PADDING)[..., None].to(self.vectors.weight.dtype)
        return (self.vectors(numbers) * mask).sum(dim=1) / mask.sum(dim=1).clamp_min(1.0)


@piece("model")
def bag_of_words(input_shape: tuple[int, ...], num_classes: int,
                 vocabulary: Annotated[int, Bounds(3, 10_000_000)] = 1000,
                 width: Annotated[int, Bounds(1, 100_000)] = 32) -> nn.Module:
    """The mean of the words' vectors, then Linear to the classes: vocabulary * width + (width + 1) num_classes
    parameters.

    Args:
        input_shape: (places,): numbers of words, 0 where there is none, as `table(text=...)` makes them.
        num_classes: number of outputs.
        vocabulary: numbers of words that are told apart; those beyond count as unknown (1).
        width: of a word's vector.

    Returns:
        `nn.Sequential` of words, fc1; weights drawn from torch's global generator.

    Example:
        >>> sum(p.numel() for p in bag_of_words((64,), 2).parameters())
        32066

    References:
        Joulin et al. 2017, "Bag of Tricks for Efficient Text Classification" (fastText), without its n-grams.
    """
    require_classes("bag_of_words", num_classes)
    if len(input_shape) != 1:
        raise AskewError(f"bag_of_words needs inputs [places], numbers of words, not {list(input_shape)}; use mlp for "
                         "other shapes")
    return nn.Sequential(OrderedDict(words=MeanOfWords(vocabulary, width), fc1=nn.Linear(width, num_classes)))

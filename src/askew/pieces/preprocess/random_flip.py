"""Images mirrored at random."""

from __future__ import annotations

from torch import Tensor

from askew.core.preprocess import Preprocess
from askew.core.registry import piece
from askew.pieces.preprocess.drawn import flip, images_only


@piece("preprocess")
def random_flip() -> Preprocess:
    """Mirror left to right with probability 1/2. Evaluation: the image itself."""

    def apply(x: Tensor, keys: Tensor | None) -> Tensor:
        return x if keys is None else flip(x, keys)

    return Preprocess(apply, images_only("random_flip"), random=True)

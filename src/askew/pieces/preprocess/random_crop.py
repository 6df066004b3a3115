"""Images cut at a random place."""

from __future__ import annotations

import torch
from torch import Tensor

from askew.core.errors import AskewError
from askew.core.preprocess import Preprocess
from askew.core.registry import piece
from askew.pieces.preprocess.drawn import crop, images_only


@piece("preprocess")
def random_crop(padding: int = 4) -> Preprocess:
    """Pad each side with zeros, then cut an image of the first size at a random place. Evaluation: the image itself.

    Args:
        padding: pixels on each side; the image moves by at most that much each way, all (2 padding + 1)^2 places
            equally likely.
    """
    if padding < 0:
        raise AskewError(f"random_crop: padding must be at least 0, not {padding}")

    def apply(x: Tensor, keys: Tensor | None) -> Tensor:
        if keys is None or padding == 0:
            return x
        if padding > max(x.shape[-2:]):
            raise AskewError(f"random_crop: padding={padding} is more than the images of {x.shape[-2]} x {x.shape[-1]} "
                             "pixels; most crops would be empty")
        padded = torch.nn.functional.pad(x, (padding, padding, padding, padding))
        return crop(padded, x.shape[-2], x.shape[-1], keys)

    return Preprocess(apply, images_only("random_crop"), random=True)

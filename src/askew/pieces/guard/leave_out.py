"""Updates that are not finite, or far longer than the others, are left out.

References:
    Sun et al. 2019, "Can You Really Backdoor Federated Learning?" (a threshold on the norm of updates; here what is
    beyond it is left out, not shortened, and the threshold follows the cohort).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from torch import Tensor

from askew.core.bounds import Bounds
from askew.core.cohort import LONGEST
from askew.core.guard import Guard
from askew.core.registry import piece


@piece("guard")
def leave_out(times: Annotated[float, Bounds(1)] = 10.0) -> Guard:
    """Leave client k out if what it sent is not finite, or if ||u_k|| > times median_j ||u_j||.

    The median is over the clients of the round whose updates are finite: it says what is usual as long as fewer than
    half of them send nonsense. Of two clients it is half-way between them, so that nothing can be far beyond it:
    guards want cohorts of three and more. An update counts as not finite, too, if its square is beyond the range of
    float32. Where the median is 0 (most clients send nothing), nothing is too long.

    Args:
        times: how many times as long as usual an update may be; `inf` leaves out what is not finite, and nothing else.

    Example:
        Lengths 1, 2, 3, 100 and one that is not finite: the median of the four is 2.5, and 100 > 10 * 2.5.

        >>> leave_out(times=10).refuses(torch.tensor([1.0, 2.0, 3.0, 100.0, torch.nan]))["too_long"]
        tensor([False, False, False,  True, False])
        >>> leave_out(times=10).refuses(torch.tensor([1.0, 2.0, 3.0, 100.0, torch.nan]))["not_finite"]
        tensor([False, False, False, False,  True])
    """

    def refuses(lengths: Tensor) -> Mapping[str, Tensor]:
        finite = lengths <= LONGEST
        usual = lengths[finite].quantile(0.5) if finite.any() else lengths.new_zeros(())
        return {"not_finite": ~finite, "too_long": finite & (usual > 0) & (lengths > times * usual)}

    return Guard(refuses)

"""What the noise of `dp_fedavg` promises each client: (epsilon, delta), by the accountant of Google's `dp-accounting`.

The promise is to clients, not to single examples: whoever sees all models of a run can hardly tell whether one client's
data have been replaced by another's.
"""

from __future__ import annotations

import importlib
import math
from typing import Annotated, Any

from askew.core.arguments import checked
from askew.core.bounds import Bounds, Count, NonNegative
from askew.core.errors import AskewError

_CLIENTS = 10**9  # the accountant takes the fraction as so many of so many clients; only their ratio counts


@checked
def epsilon(noise: NonNegative, fraction: Annotated[float, Bounds(0, 1, open_low=True)], rounds: Count,
            delta: Annotated[float, Bounds(0, 1, open_low=True, open_high=True)]) -> float:
    """The epsilon for which `rounds` rounds of `dp_fedavg(noise=noise)` are (epsilon, delta)-differentially private.

    Assumed is what askew does: each round draws a set of fixed size without replacement, whoever took part before, and
    all count the same. Neighbours are two federations of the same size in which one client has other data (replace-one;
    with sets of fixed size one cannot add or remove a client). Replacing a client moves the mean by up to two lengths
    of `clip_update`, so that the accountant is given half of `noise`.

    McMahan et al. 2018 draw each client by itself (Poisson sampling), with adding or removing a client as neighbours:
    at the same noise their epsilon is smaller, and does not hold for sets of fixed size.

    The bound is Theorem 27 of Wang, Balle and Kasiviswanathan 2019, "Subsampled Renyi Differential Privacy and
    Analytical Moments Accountant"; the true loss may be smaller. It says nothing of BatchNorm statistics, which are
    sent as they are, nor of what other runs on the same data have shown.

    Args:
        noise: z: the noise in units of `length`, as `dp_fedavg` and `add_noise` take it.
        fraction: of the clients that train in a round; in a small federation what it comes to, such as 3 / 10.
        rounds: so many models are shown.
        delta: the chance with which the promise may fail; well below 1 / clients.

    Returns:
        epsilon; infinite without noise.

    Example:
        askew.privacy.epsilon(noise=1.0, fraction=0.01, rounds=100, delta=1e-5)
    """
    if noise == 0:
        return float("inf")
    events, accounting = _library("dp_accounting"), _library("dp_accounting.rdp")
    release = events.GaussianDpEvent(noise / 2)  # sensitivity: two lengths
    if fraction < 1:
        release = events.SampledWithoutReplacementDpEvent(_CLIENTS, math.ceil(fraction * _CLIENTS), release)
    accountant = accounting.RdpAccountant(neighboring_relation=events.NeighboringRelation.REPLACE_ONE)
    return float(accountant.compose(release, rounds).get_epsilon(delta))


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise AskewError("askew.privacy needs dp-accounting: pip install 'askew[privacy]'") from None

"""Inputs that are noisier at one client than at another: feature skew alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np

from askew.core.bounds import Bounds, Count
from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.core.population import Population
from askew.core.population_spec import Combinator
from askew.core.registry import piece


@piece("combinator")
def feature_noise(level: Annotated[float, Bounds(0, np.inf, open_low=True)],
                  clients: Count | None = None) -> Combinator:
    r"""Gaussian noise on every client's inputs, from none at the first to `level` at the last.

    $$x \leftarrow x + \epsilon, \qquad \epsilon \sim \mathcal{N}(0, \sigma_k^2), \qquad
      \sigma_k = \frac{k}{K - 1}\, \text{level}, \quad k = 0 \dots K - 1$$

    Inputs are as networks see them before `preprocess`: bytes divided by 255. The noise of an example is drawn once, by
    (seed, example); NIID-Bench draws it anew each time that it reads the example. There every test image is judged with
    each client's noise; here each has the noise of one client, in turn (of its owner, where it has one). The server's
    examples have none.

    Args:
        level: standard deviation at the last client (NIID-Bench's `noise`, which its README calls a variance; its code
            multiplies by it).
        clients: whose levels there are, where the federation has another number of clients (training in one place):
            then each example has the level of one of them, in turn.

    Example:
        >>> askew.partition.draw("iid(clients=3) + feature_noise(0.1)", Source(np.arange(30) % 10, 10)).noise.tolist()
        [0.0, 0.05, 0.1]

    References:
        Li et al. 2022, "Federated Learning on Non-IID Data Silos: An Experimental Study", section 4.2; `experiments.py`
        of its code, NIID-Bench.
    """
    return Combinator(change=lambda population, source, seed: _noisy(population, source, level, clients))


def _noisy(population: Population, source: Source, level: float, clients: int | None) -> Population:
    if source.targets == "tokens":
        raise AskewError("feature_noise: these data are tokens, to which no noise can be added; leave it out")
    number = clients or population.num_clients
    if number < 2:
        raise AskewError("feature_noise: one client has no other to differ from; ask for at least two clients, or say "
                         "clients=10")
    return replace(population, noise=np.arange(number) * level / (number - 1),
                   noise_mixed=number != population.num_clients)

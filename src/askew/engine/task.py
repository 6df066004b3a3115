"""A recipe made concrete: data on the device, a drawn population, a network, composed pieces.

`askew.engine.build` makes one, `askew.engine.checks` checks it; what is done with it are functions in the files that
say how: drawing clients (`sample`), training (`local`, and the engines), judging (`evaluate`), starting (`start`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn

from askew.core.adversity import Adversity
from askew.core.client_piece import ClientChain
from askew.core.dataset import Dataset, Examples
from askew.core.guard import Guard
from askew.core.objective import Objective
from askew.core.pool import Pool
from askew.core.population import Population
from askew.core.preprocess import Preprocess
from askew.core.probe import Probe
from askew.core.recipe import Recipe
from askew.core.server_piece import ServerChain
from askew.core.tensors import ModelState
from askew.engine.batched import Network, batched_network
from askew.engine.layers.fast import for_evaluation
from askew.engine.rewrite import pool_before_relu, rewritten


@dataclass(frozen=True)
class Task:
    """Everything a round needs: values alone, and what follows from them.

    Args:
        module: the network; its own weights are scratch space, the state of a run lives in `ModelState`s.
        fresh: the weights that the network was built with.
        client: the clients' pieces.
        server: the server's.
        prepare: preprocessing as one function.
        objective: what is minimised, and what a model is judged by.
        examples: what clients' indices point into: the training examples, and behind them copies with wrong labels.
        adversities: what goes wrong with clients.
        guards: which updates the server leaves out.
        axes: layer's name -> the axis on which its examples lie, where that is not the first.
        steps: of preprocessing, of which `prepare` is made.
        drawn: the population as it was before clients mislabelled anything; default: the same.
        built_from: what the network was built from, where the recipe names it: equal ones give one structure.
    """

    recipe: Recipe
    data: Dataset
    population: Population
    module: nn.Module
    fresh: ModelState
    client: ClientChain
    server: ServerChain
    pool: Pool
    probes: tuple[Probe, ...]
    prepare: Preprocess
    objective: Objective
    device: torch.device
    examples: Examples
    adversities: tuple[Adversity, ...] = ()
    guards: tuple[Guard, ...] = ()
    axes: Mapping[str, int] = field(default_factory=dict)
    steps: tuple[Preprocess, ...] = ()
    drawn: Population | None = None
    built_from: Hashable = None

    @property
    def num_clients(self) -> int:
        return self.population.num_clients

    @property
    def cohort_size(self) -> int:
        return cohort_size(self.recipe.fraction, self.num_clients)

    @property
    def personal(self) -> bool:
        """Whether devices use models of their own: they choose among several, or keep tensors for themselves."""
        return self.pool.needs_validation or self.client.enters

    @cached_property
    def client_names(self) -> list[str]:
        """The clients' names, or their numbers as words."""
        return (self.drawn or self.population).names(self.data)

    @cached_property
    def client_indices(self) -> Tensor:
        """All clients' training indices end to end, on the device."""
        return torch.from_numpy(self.population.train.indices).to(self.device)

    @property
    def frozen(self) -> dict[str, Tensor]:
        """Weights that the network has and does not train."""
        return {name: p.detach() for name, p in self.module.named_parameters() if not p.requires_grad}

    def indices_of(self, client: int) -> Tensor:
        low, high = self.population.train.offsets[client : client + 2]
        return self.client_indices[int(low) : int(high)]

    @cached_property
    def batched(self) -> tuple[Network, str]:
        """The network for many clients at once, and how it was made; tried once, however many engines ask for it.

        Raises:
            CannotBatch: where it cannot be had.
        """
        last = len(self.data.train) - 1
        example = self.prepare.apply(self.data.train.x[[i * last // 9 for i in range(10)]], None)  # data may be sorted
        return batched_network(rewritten(self.module, pool_before_relu, example[:3]), example, self.axes,
                               self.built_from)

    @cached_property
    def judged(self) -> nn.Module:
        """The network as it is evaluated: made when it is first asked for, when a start has set what is frozen."""
        if self.device.type != "cuda":
            return self.module
        return for_evaluation(self.module, self.prepare.apply(self.data.train.x[:3], None))


def cohort_size(fraction: float, num_clients: int) -> int:
    """m = max(C K, 1), rounded."""
    return max(1, round(fraction * num_clients))

"""Federated averaging as one writes it by hand: a loop over clients, `torch.optim.SGD`, a running sum of the weights.

    python plain_loop.py [--channels-last]
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from contestant import Federation, serve
from torch import Tensor


class PlainLoop:
    """The loop.

    Args:
        federation: the workload.
        channels_last: convolution weights and images in channels-last order, the one tuning that pays on CPUs.
    """

    note = ""

    def __init__(self, federation: Federation, channels_last: bool = False) -> None:
        self.federation = federation
        self.layout = torch.channels_last if channels_last and federation.x.ndim == 4 else torch.contiguous_format
        self.module = federation.module.to(memory_format=self.layout).train()
        self.model = {name: v.detach().clone() for name, v in self.module.state_dict().items()}

    def round(self, number: int) -> None:
        total = {name: torch.zeros_like(v) for name, v in self.model.items()}
        for position in range(self.federation.cohort):
            x, y = self.federation.examples_of(number, position)
            for name, v in self._train(x, y).items():
                total[name] += v
        self.model = {name: v / self.federation.cohort for name, v in total.items()}

    def _train(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        self.module.load_state_dict(self.model)
        optimiser = torch.optim.SGD(self.module.parameters(), lr=self.federation.lr)
        size = self.federation.batch_size
        for inputs, labels in zip(x.contiguous(memory_format=self.layout).split(size), y.split(size), strict=True):
            optimiser.zero_grad()
            F.cross_entropy(self.module(inputs), labels).backward()
            optimiser.step()
        return self.module.state_dict()

    def weights(self) -> dict[str, Tensor]:
        return self.model


if __name__ == "__main__":
    tuned = "--channels-last" in sys.argv[1:]

    def make(file: Path) -> PlainLoop:
        return PlainLoop(Federation.load(file), tuned)

    serve(make, [])

"""pfl-research: `FederatedAveraging` on its simulated backend, in one process or in several.

    python with_pfl.py [PROCESSES]
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from contestant import Federation, serve, take_over_stdout
from torch import Tensor, nn


class Network(nn.Module):
    """The network with the two methods that pfl asks for."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.module(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        return {}  # nothing is evaluated: what is timed is training


class Pfl:
    """One `FederatedAveraging` run that is continued round by round."""

    note = ""

    def __init__(self, federation: Federation) -> None:
        # pfl joins its process group when it is imported, so that has to wait until the environment names the group.
        from pfl.aggregate.simulate import SimulatedBackend
        from pfl.algorithm.base import NNAlgorithmParams
        from pfl.algorithm.federated_averaging import FederatedAveraging
        from pfl.data.dataset import Dataset
        from pfl.data.federated_dataset import FederatedDataset
        from pfl.hyperparam import NNTrainHyperParams
        from pfl.model.pytorch import PyTorchModel

        self.network = Network(federation.module).train()
        self.model = PyTorchModel(self.network, local_optimizer_create=torch.optim.SGD,
                                  central_optimizer=torch.optim.SGD(self.network.parameters(), lr=1.0))
        places = list(itertools.product(range(len(federation.clients)), range(federation.cohort)))  # who comes when
        users = iter(places)
        data = FederatedDataset(lambda place: Dataset(federation.examples_of(*place)), user_sampler=lambda: next(users))
        self.backend = SimulatedBackend(training_data=data, val_data=data)
        self.algorithm = FederatedAveraging()
        self.training = NNTrainHyperParams(local_batch_size=federation.batch_size, local_num_epochs=1,
                                           local_learning_rate=federation.lr)
        self.params = lambda rounds: NNAlgorithmParams(central_num_iterations=rounds, evaluation_frequency=sys.maxsize,
                                                       train_cohort_size=federation.cohort, val_cohort_size=0)

    def round(self, number: int) -> None:
        # A second call of `run` goes on where the first one stopped.
        self.algorithm.run(self.params(number + 1), self.backend, self.model, self.training,
                           send_metrics_to_platform=False)

    def weights(self) -> dict[str, Tensor]:
        return dict(self.network.module.named_parameters())


def start_others(count: int) -> list[subprocess.Popen]:
    """Start processes 1 ... count-1 of the group and say, as torchrun would, where it meets."""
    if count == 1 or "RANK" in os.environ:
        return []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {"TORCHELASTIC_RUN_ID": "benchmark", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                   "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "RANK": "0", "LOCAL_RANK": "0"}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(1, count)]
    return [subprocess.Popen([sys.executable, *sys.argv], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                             env={**os.environ, **mine}) for mine in ranks]


def passed_on(others: list[subprocess.Popen]) -> Iterator[str]:
    """The commands, which the other processes of the group get too, save for writing the weights."""
    for line in sys.stdin:
        for other in others if json.loads(line)["do"] != "weights" else []:
            assert other.stdin is not None
            other.stdin.write(line)
            other.stdin.flush()
        yield line
    for other in others:
        other.communicate()  # the end of its input


def make(file: Path) -> Pfl:
    return Pfl(Federation.load(file))


if __name__ == "__main__":
    lines = take_over_stdout()
    serve(make, ["pfl"], lines, passed_on(start_others(int(sys.argv[1]) if len(sys.argv) > 1 else 1)))

"""A round small enough to follow with pencil and paper."""

from collections import OrderedDict

import pytest
import torch
from torch import nn

from askew.core.cohort import Cohort
from askew.core.dataset import Dataset, Examples
from askew.core.population import Ownership, Population
from askew.core.probe import ProbeContext, Round
from askew.core.statistic import Senders
from askew.core.tensors import ModelState
from askew.pieces.statistic import SignSum


class Pencil:
    """A network of four weights, two in a convolution, two in a linear layer; one row (c0, c1, f0, f1) is a model."""

    def __init__(self):
        self.module = nn.Sequential(OrderedDict(
            conv=nn.Conv1d(1, 1, 2, bias=False), flatten=nn.Flatten(), fc=nn.Linear(1, 2, bias=False)))
        x, y = torch.tensor([[[3.0, 0.0]], [[0.0, 1.0]], [[1.0, 1.0]], [[2.0, 5.0]]]), torch.tensor([0, 1, 0, 1])
        data = Dataset("pencil", Examples(x, y), Examples(x, y), ("a", "b"))
        population = Population.of(Ownership.of([[0], [1, 2], [3]]), y.numpy(), 2)
        self.ctx = ProbeContext(self.module, data, population, batch_size=5,
                               train=self.train, predict=self.predict)
        self.trained_on = []

    @staticmethod
    def tensors(rows):
        rows = torch.tensor(rows, dtype=torch.float32)
        return {"conv.weight": rows[..., None, None, :2], "fc.weight": rows[..., 2:, None]}

    def model(self, row):
        return ModelState(self.tensors(row))

    def round(self, updates, *, weights=None, before=(0, 0, 0, 0), after=(0, 0, 0, 0), number=1):
        cohort = Cohort(self.tensors(before), [SignSum()])
        clients = list(range(len(updates)))
        ones = torch.ones(len(updates))
        cohort.add({"update": self.tensors(updates)}, Senders(clients, *[ones] * 4),
                   torch.tensor(weights or ones.tolist()))
        return Round(number, self.model(before), self.model(after), cohort, clients)

    def train(self, model, indices, batch_size, round):
        """Adds 1 to every weight and buffer, and remembers what it was asked."""
        self.trained_on.append((sorted(indices.tolist()), batch_size, round))
        return ModelState(*({name: v + 1 for name, v in part.items()} for part in (model.params, model.buffers)))

    def predict(self, model, x):
        with torch.no_grad():
            return torch.func.functional_call(self.module, model.params, (x,)).argmax(dim=1)


@pytest.fixture
def pencil():
    return Pencil()

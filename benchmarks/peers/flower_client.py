"""The client side of the Flower contestant: a module, so that Ray's workers import it once and keep the data."""

from __future__ import annotations

import functools
from pathlib import Path

import torch
import torch.nn.functional as F
from contestant import Federation
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@functools.cache
def loaded(file: str) -> Federation:
    return Federation.load(Path(file))


@app.train()
def train(message: Message, context: Context) -> Message:
    """One client's local training, as in Flower's PyTorch quickstart."""
    config = message.content["config"]
    federation = loaded(str(config["file"]))
    x, y = federation.examples_of(int(config["round"]), int(config["position"]))
    module = federation.module.train()
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.SGD(module.parameters(), lr=federation.lr)
    size = federation.batch_size
    for inputs, labels in zip(x.split(size), y.split(size), strict=True):
        optimiser.zero_grad()
        F.cross_entropy(module(inputs), labels).backward()
        optimiser.step()
    metrics = MetricRecord({"num-examples": len(y)})
    return Message(RecordDict({"arrays": ArrayRecord(module.state_dict()), "metrics": metrics}), reply_to=message)

"""The networks of the field on a GPU: all clients at once against the plain loop over clients that one writes by hand.

    python benchmarks/networks.py [--networks resnet_gn,vit,...] [--precision bf16] [--json FILE]

Data are made up at random: what is measured is speed. Both sides train the same clients from the same weights;
`plain_s` and `round_s` are seconds of a round in one process, one after the other.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))
from gpu import centralised_step, seconds_of_a_round
from in_turn import add_options, my_turn
from workloads import Workload

from askew.core.dataset import Dataset, Examples
from askew.core.recipe import Recipe
from askew.engine.build import build_task
from askew.engine.task import Task
from askew.engine.vectorised import Vectorised
from askew.rounds.simulation import Simulation
from askew.runs.environment import describe_environment

LR = 0.01


class Block(nn.Module):
    """Two 3x3 convolutions with GroupNorm, and the input beside them."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.GroupNorm(groups, outputs)
        self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.GroupNorm(groups, outputs)
        self.beside = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(groups, outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.beside(x))


def resnet_gn() -> nn.Module:
    """Three blocks of 32, 64 and 128 channels."""
    return nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.GroupNorm(8, 32), nn.ReLU(), Block(32, 32, 1, 8),
                         Block(32, 64, 2, 8), Block(64, 128, 2, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(128, 10))


def resnet18_gn() -> nn.Module:
    """ResNet-18 for 32x32 images, as the FedOpt, FedDyn and SCAFFOLD papers use it."""
    blocks, channels = [], 64
    for wide, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Block(channels, wide, stride, 32), Block(wide, wide, 1, 32)]
        channels = wide
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.GroupNorm(32, 64), nn.ReLU(), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class ViT(nn.Module):
    """Patches of 4x4, width 64, two layers, a class token."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 64, 4, 4)
        self.token, self.positions = nn.Parameter(torch.zeros(1, 1, 64)), nn.Parameter(torch.randn(1, 65, 64) * 0.02)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, activation="gelu", batch_first=True,
                                           norm_first=True)
        self.encoder, self.out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        return self.out(self.encoder(x)[:, 0])


class CharLSTM(nn.Module):
    """LEAF's network for Shakespeare: two levels of 128 on characters."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.out = (nn.Embedding(80, 8), nn.LSTM(8, 128, 2, batch_first=True),
                                               nn.Linear(128, 80))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(self.embedding(x))[0][:, -1])


def dropout_cnn() -> nn.Module:
    """pfl-research's CIFAR-10 network with its dropout."""
    return nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Dropout(0.25), nn.Flatten(), nn.Linear(64 * 14 * 14, 128), nn.ReLU(), nn.Dropout(0.5),
                         nn.Linear(128, 10))


@dataclass(frozen=True)
class Case:
    """A network and its federation."""

    make: Any
    clients: int = 50
    examples: int = 200
    batch: int = 20
    epochs: int = 1
    tokens: bool = False


CASES = {"resnet_gn": Case(resnet_gn), "vit": Case(ViT), "lstm": Case(CharLSTM, tokens=True),
         "dropout_cnn": Case(dropout_cnn), "resnet18_gn": Case(resnet18_gn, 10, 500, 50, 5)}


def workload(name: str) -> tuple[Workload, nn.Module]:
    case = CASES[name]
    generator = torch.Generator().manual_seed(0)
    count, classes = case.clients * case.examples, 80 if case.tokens else 10
    x = (torch.randint(0, 80, (count, 40), generator=generator) if case.tokens
         else torch.randint(0, 256, (count, 3, 32, 32), generator=generator, dtype=torch.uint8))
    y = torch.arange(count) % classes
    data = Dataset(name, Examples(x, y), Examples(x[:100], y[:100]), tuple(map(str, range(classes))))
    recipe = Recipe(population=f"iid(clients={case.clients})", batch_size=case.batch, epochs=case.epochs,
                    client=f"sgd(lr={LR})", rounds=10**9, evaluate_every=10**9)
    torch.manual_seed(0)
    return Workload(name, "", recipe, data), case.make()


def plain_loop(module: nn.Module, task: Task, precision: str, clients: int | None = None) -> float:
    """Seconds of a round as one writes it: loops over clients and batches, `torch.optim.SGD`, a sum of weights."""
    start = {name: v.clone() for name, v in module.state_dict().items()}
    x, y, batch = task.data.train.x, task.data.train.y, task.recipe.batch_size
    count = clients or task.num_clients
    torch.cuda.synchronize()
    began = time.perf_counter()
    total = {name: torch.zeros_like(v, dtype=torch.float32) for name, v in start.items()}
    for client in range(count):
        module.load_state_dict(start)
        optimiser = torch.optim.SGD(module.parameters(), lr=LR)
        indices = task.indices_of(client)
        for _ in range(task.recipe.epochs):
            for part in indices[torch.randperm(len(indices), device=indices.device)].split(batch):
                inputs = task.prepare.apply(x[part], None)
                optimiser.zero_grad()
                with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
                    loss = F.cross_entropy(module(inputs), y[part])
                loss.backward()
                optimiser.step()
        for name, v in module.state_dict().items():
            total[name] += v
    torch.cuda.synchronize()
    return (time.perf_counter() - began) * task.num_clients / count


def begun(name: str, precision: str, compiled: bool) -> tuple[Simulation, float]:
    """A simulation that has compiled all it needs, and the seconds of its first round."""
    work, model = workload(name)
    task = build_task(work.recipe, data=work.data, model=model, device="cuda")
    began = time.perf_counter()
    simulation = Simulation(task, Vectorised(task, precision=precision, compiled=compiled))
    simulation.advance()
    torch.cuda.synchronize()
    return simulation, time.perf_counter() - began


def measured(simulation: Simulation, rounds: int) -> dict[str, Any]:
    seconds, task = seconds_of_a_round(simulation, rounds), simulation.task
    return {"round_s": round(seconds, 5), "images_per_s": round(len(task.data.train) * task.recipe.epochs / seconds)}


def compare(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Ours, compiled and not, against the plain loop; for ResNet-18 also against one model."""
    simulations = {compiled: begun(name, options.precision, compiled) for compiled in (False, True)}
    work, model = workload(name)
    # The network as it is, with torch's own dropout.
    task, plainly = simulations[False][0].task, copy.deepcopy(model).to("cuda")
    one = centralised_step(work, options.precision, "cuda", model) if name == "resnet18_gn" else None
    rows = []
    with my_turn(options.meet, options.parties):
        plain_loop(plainly, task, options.precision, 1)
        plain = statistics.median(plain_loop(plainly, task, options.precision, min(10, task.num_clients))
                                  for _ in range(3))
        for compiled, (simulation, first) in simulations.items():
            row = {"network": name, "kind": simulation.engine.kind, "precision": options.precision,
                   "compiled": compiled, "first_s": round(first, 2), **measured(simulation, options.rounds),
                   "plain_s": round(plain, 4)}
            rows.append(row | {"times_plain": round(plain / row["round_s"], 1)})
        if one is not None:
            rows.append(one() | {"network": name})
            rows[-1]["ours_to_one"] = [round(row["images_per_s"] / rows[-1]["images_per_s"], 2) for row in rows[:-1]]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(CASES))
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json", type=Path)
    add_options(parser)
    options = parser.parse_args()
    rows = []
    for name in options.networks.split(","):
        rows += compare(name, options)
        for row in rows[-3:]:
            print(row, flush=True)  # noqa: T201
    if options.json:
        options.json.write_text(json.dumps({"environment": describe_environment("cuda"), "rows": rows}, indent=1)
                                + "\n")


if __name__ == "__main__":
    main()

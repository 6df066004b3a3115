"""What every contestant has in common: the federation it is given and the lines of JSON it answers.

A contestant is a process of its own, in whatever Python environment its library needs (this file needs torch alone).
It reads one JSON object a line and answers each with one line:

    {"do": "load", "file": F, "threads": N}  ->  {"versions": {...}, "note": ...}  F holds a `Federation`
    {"do": "round", "round": r}              ->  {"seconds": t}                    one round of federated averaging
    {"do": "weights", "file": F}             ->  {"file": F}                       the global model, as a torch file

A failure is answered with {"error": line}. The end of the input ends the process.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol, TextIO

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Federation:
    """One workload, laid out so that there is nothing left to draw: which client trains when, on which batches.

    Args:
        workload: name.
        module: the network with its start weights.
        x: all training inputs, ready for the network (float32): no contestant has to convert them.
        y: labels.
        num_clients: clients in the federation.
        clients: [rounds, cohort] who trains in each round.
        orders: [rounds, cohort, n] each one's examples (positions in x) in the order in which it sees them; its batches
            are consecutive slices. All clients own equally many, so a weighted mean is a plain one.
        batch_size: examples a local step.
        lr: learning rate of plain SGD.
    """

    workload: str
    module: nn.Module
    x: Tensor
    y: Tensor
    num_clients: int
    clients: Tensor
    orders: Tensor
    batch_size: int
    lr: float

    @property
    def cohort(self) -> int:
        return self.clients.shape[1]

    def examples_of(self, round: int, position: int) -> tuple[Tensor, Tensor]:
        """Inputs and labels of the round's client at this position, in its order of training."""
        order = self.orders[round, position]
        return self.x[order], self.y[order]

    def save(self, file: Path) -> None:
        torch.save({field.name: getattr(self, field.name) for field in fields(self)}, file)

    @classmethod
    def load(cls, file: Path) -> Federation:
        # The file was written by this benchmark a moment ago; it holds a module, which "weights only" would refuse.
        return cls(**torch.load(file, weights_only=False))


class Contestant(Protocol):
    """One way to compute rounds."""

    note: str  # what the table says beside the name: a choice that the contestant made by itself

    def round(self, number: int) -> None:
        """Round `number` (0, 1, ... in order), complete: sample, local training, the new global model."""
        ...

    def weights(self) -> dict[str, Tensor]:
        """The global model now."""
        ...


def take_over_stdout() -> TextIO:
    """The real standard output for the protocol alone; what libraries print goes to standard error."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return lines


def serve(make: Callable[[Path], Contestant], packages: list[str], lines: TextIO | None = None,
          commands: Iterable[str] = sys.stdin) -> None:
    """Answer commands until the input ends.

    Args:
        make: federation file -> contestant.
        packages: whose versions to report beside torch's.
        lines: where the answers go; by default standard output.
        commands: where the commands come from.
    """
    lines = lines or take_over_stdout()
    contestant: Contestant | None = None
    for line in commands:
        try:
            command = json.loads(line)
            if command["do"] == "load":
                torch.set_num_threads(command["threads"])
                contestant = make(Path(command["file"]))
            assert contestant is not None, "load comes first"
            answer = obey(contestant, command, packages)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        lines.write(json.dumps(answer) + "\n")


def obey(contestant: Contestant, command: dict[str, Any], packages: list[str]) -> dict[str, Any]:
    """Carry out one command on a loaded contestant."""
    if command["do"] == "load":
        versions = {package: metadata.version(package) for package in ["torch", *packages]}
        return {"versions": {"python": platform.python_version(), **versions}, "note": contestant.note}
    if command["do"] == "round":
        began = time.perf_counter()
        contestant.round(command["round"])
        return {"seconds": time.perf_counter() - began}
    torch.save({name: v.detach().clone().contiguous() for name, v in contestant.weights().items()}, command["file"])
    return {"file": command["file"]}

"""Flower's Simulation Runtime: its FedAvg strategy, one node a client, Ray workers that share the processor cores.

    python with_flower.py [WORKERS]
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "FLWR_TELEMETRY_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}

from contestant import Federation, serve, take_over_stdout
from flower_client import app as client_app
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import Tensor


class GivenClients(FedAvg):
    """Flower's FedAvg, told who takes part: node c is client c."""

    def __init__(self, federation: Federation, file: Path) -> None:
        super().__init__(fraction_evaluate=0.0)
        self.federation, self.file = federation, file
        self.number = 0  # of the round: `start` counts from 1 each time

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord,
                        grid: Grid) -> Iterable[Message]:
        nodes = sorted(grid.get_node_ids())
        for position, client in enumerate(self.federation.clients[self.number].tolist()):
            mine = ConfigRecord({"file": str(self.file), "round": self.number, "position": position})
            content = RecordDict({"arrays": arrays, "config": mine})
            yield Message(content, dst_node_id=nodes[client], message_type="train")


class Flower:
    """The server's side, inside a running simulation."""

    note = ""

    def __init__(self, federation: Federation, file: Path, grid: Grid) -> None:
        self.strategy = GivenClients(federation, file)
        self.grid = grid
        self.arrays = ArrayRecord(federation.module.state_dict())

    def round(self, number: int) -> None:
        self.strategy.number = number
        self.arrays = self.strategy.start(self.grid, self.arrays, num_rounds=1).arrays

    def weights(self) -> dict[str, Tensor]:
        return dict(self.arrays.to_torch_state_dict())


def main(workers: int) -> None:
    lines = take_over_stdout()
    first = sys.stdin.readline()  # the load command says how many nodes the simulation has
    if not first:
        return
    command = json.loads(first)
    federation = Federation.load(Path(command["file"]))
    server_app = ServerApp()

    def commands() -> Iterator[str]:
        yield first
        yield from sys.stdin

    @server_app.main()
    def run(grid: Grid, context: Context) -> None:
        while len(list(grid.get_node_ids())) < federation.num_clients:
            time.sleep(0.01)  # the runtime is still registering the nodes
        serve(lambda file: Flower(federation, file, grid), ["flwr", "ray"], lines, commands())

    logging.getLogger("flwr").setLevel(logging.WARNING)
    threads = command["threads"]  # of each worker; Ray keeps it to that
    run_simulation(server_app, client_app, num_supernodes=federation.num_clients, backend_config={
        "init_args": {"num_cpus": workers * threads, "logging_level": "ERROR", "log_to_driver": False},
        "client_resources": {"num_cpus": threads, "num_gpus": 0.0},
    })


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)

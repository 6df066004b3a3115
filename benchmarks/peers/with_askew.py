"""askew itself: it takes the name of the workload and the learning rate, and draws clients and batches from its seed.

    python with_askew.py ENGINE
"""

from __future__ import annotations

import sys
from pathlib import Path

from contestant import Federation, serve
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))
from workloads import workload

from askew.engine.build import build_task
from askew.engine.choice import make_engine
from askew.rounds.simulation import Simulation


class Askew:
    """One engine on one workload."""

    def __init__(self, name: str, lr: float, engine: str) -> None:
        work = workload(name, client=[f"sgd(lr={lr})"])
        task = build_task(work.recipe, data=work.data)
        self.simulation = Simulation(task, make_engine(engine, task))
        self.note = self.simulation.engine.name if engine == "auto" else ""

    def round(self, number: int) -> None:
        assert number == self.simulation.round, "rounds come in order"
        self.simulation.advance()

    def weights(self) -> dict[str, Tensor]:
        return self.simulation.models[0].model.params


if __name__ == "__main__":
    engine = sys.argv[1]

    def make(file: Path) -> Askew:
        given = Federation.load(file)
        return Askew(given.workload, given.lr, engine)

    serve(make, ["askew"])

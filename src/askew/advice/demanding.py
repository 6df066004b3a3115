"""Which of two methods asks for less, and which a federation cannot give at all."""

from __future__ import annotations

from dataclasses import dataclass

from askew.core.compat import tree_leaves
from askew.core.errors import AskewError
from askew.core.tensors import num_bytes
from askew.engine.task import Task
from askew.rounds.single_updates import needs_single_updates
from askew.runs.demands import TOLD, Demands, depends_on


@dataclass(frozen=True)
class Limits:
    """What a federation cannot give.

    Args:
        no_server_data: no training examples at the server, and none handed to clients.
        single_model: one model for all: neither several global ones nor layers that clients keep to themselves.
        stateless_clients: clients remember nothing from one of their rounds to the next.
        upload_budget: megabytes (10^6 bytes) that a client may send per round; None: any.
        secure_aggregation: the server sees sums over clients alone.
    """

    no_server_data: bool = False
    single_model: bool = False
    stateless_clients: bool = False
    upload_budget: float | None = None
    secure_aggregation: bool = False

    def __post_init__(self) -> None:
        if self.upload_budget is not None and not self.upload_budget > 0:
            raise AskewError(f"--upload-budget must be a number of megabytes above 0, got {self.upload_budget:g}")

    def strike(self, task: Task, demands: Demands, bytes_up: float) -> str | None:
        """Why a method cannot run there; None where it can.

        Args:
            bytes_up: that a client sends per round.
        """
        if self.no_server_data and demands.at_server:
            what = "hands out" if demands.shared else "keeps"
            return f"it {what} {100 * demands.at_server:.3g}% of the examples at the server (--no-server-data)"
        if self.single_model and (demands.several or demands.private):
            what = "trains several global models" if demands.several else "leaves layers at the clients"
            return f"it {what} (--single-model)"
        if self.stateless_clients and demands.memory:
            return f"clients remember {demands.memory:.3g} x the model between rounds (--stateless-clients)"
        if self.upload_budget is not None and bytes_up > 1e6 * self.upload_budget:
            return f"a client sends {bytes_up / 1e6:.3g} MB per round (--upload-budget {self.upload_budget:g})"
        if self.secure_aggregation and (why := needs_single_updates(task)):
            return f"{why} (--secure-aggregation)"
        return None


def demandingness(task: Task) -> tuple[float, ...]:
    """What a method asks for, the gravest first: of two methods, the first number that differs says who asks for more.

    Data that leave their owners, data at the server, models of clients' own, memory at clients, single updates, what is
    sent beside an update, step counts, state at the server.
    """
    population, size = task.population, num_bytes(task.fresh.params)
    memory = task.client.keep(task.fresh)
    return (float(_hands_out(task)), float(len(population.server) > 0),
            float(task.pool.needs_validation or task.client.enters), float(bool(tree_leaves(memory))),
            float(needs_single_updates(task) is not None),
            float(sum(len(piece.sends) for piece in task.client.pieces)
                  + sum(len(piece.sends) for piece in task.server.pieces)),
            float(depends_on(task, "steps")),
            round(sum(num_bytes({"": leaf}) for leaf in tree_leaves(task.server.init(task.fresh.params))
                      if hasattr(leaf, "element_size")) / size, 3))


def in_words(demands: Demands) -> list[str]:
    """What a method asks for beyond FedAvg; an empty list where nothing."""
    share = f"{100 * demands.at_server:.3g}% of the examples"
    asked = (
        (demands.at_server, f"{share} handed to all clients" if demands.shared else f"{share} at the server"),
        (demands.several, "several global models, scored on clients' own validation data"),
        (demands.private, "layers that stay at the clients"),
        (demands.memory, f"clients remember {demands.memory:.3g} x the model"),
        (demands.singly and not demands.several, "the server sees single updates"),
        (demands.up > 1.01, f"{demands.up:.3g} x the upload"),
        ("steps" in demands.told, TOLD["steps"]),
        (demands.state, f"state at the server, {demands.state:.3g} x the model"))
    return [text for asks, text in asked if asks]


def _hands_out(task: Task) -> bool:
    """Whether clients are given examples of the server's."""
    return bool(set(task.population.server.tolist()) & set(task.population.train.indices.tolist()))

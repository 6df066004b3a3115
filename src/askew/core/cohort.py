"""What the server may know of one round's clients: statistics that stream.

Clients are added one by one or in stacked chunks, in any order; memory stays at a few models (plus one number per
client and tensor for the norms) however many clients there are, unless a piece asks for a statistic that keeps more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from askew.core.compat import foreach_div, is_batched, tree_map
from askew.core.errors import AskewError
from askew.core.statistic import Senders, Statistic
from askew.core.tensors import Params, Tree, apart, places_in

_BLOCK = 4096
LONGEST = 1.8e19  # an update whose square is beyond float32 has diverged


class Cohort:
    """Streaming statistics of the updates of one round.

    For clients k with weights a_k (normalised to sum 1) and updates u_k:

        mean       sum_k a_k u_k
        N          || sum_k a_k u_k ||          (fednnnn2020, eq. 4)
        E          sum_k a_k || u_k ||          (fednnnn2020, eq. 5)

    N and E exist for the whole model and for any group of its tensors. What else a piece or a probe needs is
    `cohort[statistic]`.

    Args:
        like: a model, for names, shapes, device and type.
        needs: further statistics to gather.
        buffers: likewise for the buffers (BatchNorm statistics), which are averaged too.
    """

    def __init__(self, like: Mapping[str, Tensor], needs: Iterable[Statistic] = (),
                 buffers: Mapping[str, Tensor] | None = None) -> None:
        self._like = dict(like)
        # Sums of several chunks are kept in float64 so that neither order nor chunking shows in the result. The first
        # clients bring them; where these are all, they stay as they are.
        self._sum: Params = {}
        self._totals: dict[Statistic, Any] = dict.fromkeys(needs)
        self._buffer_like = dict(buffers or {})
        self._buffers = {name: torch.zeros_like(v, dtype=torch.float64) for name, v in self._buffer_like.items()}
        self._total: Tensor | float = 0.0
        self._squares: list[Tensor] = []  # one [clients, tensors] block a chunk: squared norms of each client's tensors
        self._weights: list[Tensor] = []
        self._arrived: list[int] = []
        self._known = True

    def __len__(self) -> int:
        return len(self._arrived)

    @property
    def clients(self) -> list[int]:
        """Who is in it, sorted: in which order they arrived depends on the engine, and must not show in any result."""
        if not self._known:
            raise AskewError("the clients' numbers differ from configuration to configuration")
        return sorted(self._arrived)

    def add(self, message: Mapping[str, Tree], senders: Senders, weights: Tensor,
            squares: Tensor | None = None) -> None:
        """Add clients whose messages are stacked along a first axis.

        Args:
            message: "update", "buffers" where the cohort expects them, and whatever the clients' pieces have added.
            weights: [K] how much each counts, not normalised.
            squares: of the updates, as from `squared_lengths`, if known.
        """
        updates, buffers, clients = message["update"], message.get("buffers", {}), senders.order
        self._known = self._known and senders.known
        weights = weights.to(torch.float64)
        row = weights[None].float()
        for name, like in self._like.items():
            u = updates[name]
            if u.shape[1:] != like.shape:  # which a sum might take for one of another shape
                raise AskewError(f"a client's update of {name!r} is {list(u.shape[1:])}, where the model has "
                                 f"{list(like.shape)}; let `end` of the clients' pieces keep shapes the same")
            if len(clients) == 1 and u.device.type == "cpu":
                if name not in self._sum:
                    self._sum[name] = torch.zeros_like(like, dtype=torch.float64)
                self._sum[name].add_(u[0], alpha=float(weights[0]))  # one pass, no copy in float64
            else:
                part = torch.mm(row if u.dtype == torch.float32 else weights[None].to(u.dtype),
                                u.reshape(len(u), -1)).view(like.shape)
                self._sum[name] = self._sum[name].double().add_(part) if name in self._sum else part
        places = places_in(message) if self._totals else set()
        for statistic, gathered in self._totals.items():
            # What of the message it holds is copied: an engine uses the memory of a chunk again.
            self._totals[statistic] = apart(statistic.add(gathered, message, senders), places)
        for name, total in self._buffers.items():
            self._buffers[name] = total + torch.tensordot(weights, buffers[name].to(torch.float64), dims=1)
        self._squares.append(squared_lengths(updates) if squares is None else squares)
        self._weights.append(weights)
        self._total = self._total + weights.sum()
        self._arrived.extend(clients)

    def merge(self, other: Cohort) -> None:
        """Add all that another cohort of the same shape has gathered."""
        for name, total in other._sum.items():
            self._sum[name] = self._sum[name].double() + total if name in self._sum else total.clone()
        for name, total in other._buffers.items():
            self._buffers[name] = self._buffers[name] + total
        for statistic, gathered in other._totals.items():
            before = self._totals.get(statistic)
            self._totals[statistic] = (gathered if before is None else before if gathered is None
                                       else statistic.merge(before, gathered))
        self._squares += other._squares
        self._weights += other._weights
        self._total = self._total + other._total
        self._arrived += other._arrived

    def part(self) -> dict[str, Any]:
        """What other processes have to know of it beside its sums: rows of clients, totals of statistics that do not
        add up, and the form of those that do, for one that has none of these clients."""
        return {"clients": self._arrived, "weights": self._weights, "squares": self._squares,
                "totals": [None if statistic.adds_up else self._totals[statistic] for statistic in self._statistics],
                "forms": [tree_map(_form, self._totals[statistic]) if statistic.adds_up and self._arrived else None
                          for statistic in self._statistics]}

    def sums(self, forms: Sequence[Tree]) -> Tree:
        """What several processes add up, number by number; 0 where it is of no client.

        Args:
            forms: of the statistics that add up, from any process that has clients.
        """
        zero = next(iter(self._like.values())).new_zeros((), dtype=torch.float64)
        return {"sum": {name: self._sum[name] if name in self._sum else torch.zeros_like(v, dtype=torch.float64)
                        for name, v in self._like.items()},
                "buffers": self._buffers, "total": zero + self._total,
                "totals": [self._totals[statistic] if self._arrived else tree_map(_zeros, form)
                           for statistic, form in zip(self._statistics, forms, strict=True) if statistic.adds_up]}

    def joined(self, parts: Sequence[Mapping[str, Any]], sums: Tree) -> Cohort:
        """The cohort of all processes.

        Args:
            parts: of each process that has clients.
            sums: of all.
        """
        whole = Cohort(self._like, self._totals, self._buffer_like)
        device = sums["total"].device
        whole._sum, whole._buffers, whole._total = sums["sum"], sums["buffers"], sums["total"]
        whole._arrived = [client for part in parts for client in part["clients"]]
        whole._weights, whole._squares = ([v.to(device) for part in parts for v in part[name]]
                                          for name in ("weights", "squares"))
        added = iter(sums["totals"])
        for at, statistic in enumerate(self._statistics):
            gathered = [part["totals"][at] for part in parts]
            whole._totals[statistic] = (tree_map(_of_form, next(added), parts[0]["forms"][at]) if statistic.adds_up
                                        else reduce(statistic.merge, gathered))
        return whole

    @property
    def _statistics(self) -> list[Statistic]:
        """In an order that is the same in every process, which that of a set is not."""
        return sorted(self._totals, key=repr)

    @property
    def total(self) -> Tensor | float:
        """What the clients' weights add up to, before they are normalised."""
        return self._total

    @property
    def weights(self) -> Tensor:
        """Normalised weights, in the order of `clients`."""
        return self._by_client(self._weights) / self._total

    @property
    def mean(self) -> Params:
        """sum_k a_k u_k."""
        sums = list(self._sum.values())
        total = torch.as_tensor(self._total, dtype=sums[0].dtype, device=sums[0].device)
        means = [v / total for v in sums] if is_batched(sums[0]) else foreach_div(sums, total)
        return {name: v.to(self._like[name].dtype) for name, v in zip(self._sum, means, strict=True)}

    def __getitem__(self, statistic: Statistic) -> Any:
        """The value of a statistic that a piece or a probe needs."""
        if statistic not in self._totals:
            raise AskewError(f"{statistic} is not gathered; a piece or probe that reads it must say so: "
                             f"needs=[{statistic}]")
        return statistic.value(self._totals[statistic])

    @property
    def buffers(self) -> Params:
        """The weighted mean of the clients' buffers; counters are rounded to whole numbers."""
        means = {name: total / self._total for name, total in self._buffers.items()}
        return {name: (v if self._buffer_like[name].is_floating_point() else v.round()).to(
                    self._buffer_like[name].dtype) for name, v in means.items()}

    def norm_of_mean(self, names: Sequence[str] | None = None) -> Tensor:
        """N of these tensors (default: all): the length of the averaged update."""
        chosen = [self._sum[name].double() for name in (names if names is not None else self._like)]
        return torch.stack([(v * v).sum() for v in chosen]).sum().sqrt() / self._total

    def mean_norm(self, names: Sequence[str] | None = None) -> Tensor:
        """E of these tensors (default: all): the average length of the clients' updates."""
        squares = self._by_client(self._squares)
        if names is not None:
            index = {name: i for i, name in enumerate(self._like)}
            squares = squares[:, [index[name] for name in names]]
        return (squares.sum(dim=1).sqrt() * self.weights).sum()

    @property
    def lengths(self) -> Tensor:
        """[clients] norms of the updates, in the order of `clients`; NaN or infinite where an update is."""
        return self._by_client(self._squares).sum(dim=1).sqrt()

    def _by_client(self, blocks: Sequence[Tensor]) -> Tensor:
        """One row per client, from the order of arrival to that of `clients`."""
        rows = torch.cat(list(blocks))
        order = sorted(range(len(self._arrived)), key=self._arrived.__getitem__)
        if order == list(range(len(order))):
            return rows
        index = torch.tensor(order)
        # From pinned memory: a plain copy to a GPU would wait until it has finished what it is doing.
        return rows[index.pin_memory().to(rows.device, non_blocking=True) if rows.is_cuda else index]


def _form(v: Tensor | float) -> Tensor | float:
    """Shape and type of a number, in no bytes."""
    return v.new_empty((0, *v.shape), device="cpu") if isinstance(v, Tensor) else type(v)(0)


def _zeros(form: Tensor | float) -> Tensor | float:
    return torch.zeros(form.shape[1:], dtype=form.dtype) if isinstance(form, Tensor) else form


def _of_form(total: Tensor | float, form: Tensor | float) -> Tensor | float:
    """A sum in float64, in the type that it has where one process gathers all."""
    return total.to(form.dtype) if isinstance(total, Tensor) and isinstance(form, Tensor) else total


def squared_lengths(updates: Mapping[str, Tensor]) -> Tensor:
    """[clients, tensors] squared norms of stacked updates, in float64."""
    return torch.stack([_squares(u.reshape(len(u), -1)) for u in updates.values()], dim=1)


def _squares(rows: Tensor) -> Tensor:
    """Of each row; a GPU adds up pairwise, a CPU one after the other, which is exact enough over some thousands."""
    if rows.is_cuda:
        return torch.linalg.vector_norm(rows, dim=1).double().square()
    whole = rows.shape[1] // _BLOCK * _BLOCK
    blocks = torch.linalg.vector_norm(rows[:, :whole].unflatten(1, (-1, _BLOCK)), dim=2).double().square().sum(dim=1)
    return blocks + torch.linalg.vector_norm(rows[:, whole:], dim=1, dtype=torch.float64).square()

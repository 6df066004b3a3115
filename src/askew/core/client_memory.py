"""What clients remember between rounds: one row per client (and model), on the device.

Rows exist for those clients only that have taken part. All others have what `keep` gives before the first round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from askew.core.compat import tree_flatten, tree_unflatten
from askew.core.errors import AskewError
from askew.core.tensors import ModelState, Tree, form_of

ROWS_PER_BLOCK = 64  # of a checkpoint: only blocks in which a row has changed are written again


class ClientMemory:
    """Rows of memory.

    Args:
        keep: model -> what a client remembers before its first round.
        model: the one that the run begins with.

    Example:
        >>> memory = ClientMemory(lambda model: {"seen": torch.zeros(())}, ModelState({}))
        >>> memory.put(0, [3], {"seen": torch.tensor([1.0])})
        >>> memory.rows(0, [2, 3])
        {'seen': tensor([0., 1.])}
    """

    def __init__(self, keep: Callable[[ModelState], Tree], model: ModelState) -> None:
        self._first, self._shape = tree_flatten(keep(model))
        self._table: list[Tensor] = [v[None].clone() for v in self._first]  # row 0: what all begin with
        self._place: dict[tuple[int, int], int] = {}  # (model, client) -> row
        self._free: list[int] = []
        self._next = 1  # the first row that was never taken
        self._version: Counter[int] = Counter()  # of each block: how often a row of it has changed
        self._new: set[tuple[int, int]] = set()  # what has changed since `changes` was last asked for

    def __bool__(self) -> bool:
        """Whether clients remember anything."""
        return bool(self._first)

    @property
    def bytes_per_client(self) -> int:
        return sum(v.numel() * v.element_size() for v in self._first)

    def rows(self, model: int, clients: Sequence[int]) -> Tree:
        """What these clients remember of a model, stacked."""
        at = self._index([self._place.get((model, client), 0) for client in clients])
        return tree_unflatten([v[at] for v in self._table], self._shape)

    def row(self, model: int, client: int) -> Tree:
        """What one client remembers of a model."""
        return tree_unflatten([v[self._place.get((model, client), 0)].clone() for v in self._table], self._shape)

    def put(self, model: int, clients: Sequence[int], rows: Tree) -> None:
        """Take down what these clients remember from now on."""
        leaves, shape = tree_flatten(rows)
        kept, given = ([(tuple(v.shape[1:]), v.dtype) for v in tensors] for tensors in (self._table, leaves))
        if shape != self._shape or given != kept:
            wanted = _form(tree_unflatten(self._table, self._shape))
            raise AskewError(f"a client piece's `end` returns memory of another form than its `keep`: {_form(rows)} "
                             f"instead of {wanted}; keep shapes, types, names and their order the same")
        at = self._index([self._row_for(model, client) for client in clients])
        for v, new in zip(self._table, leaves, strict=True):
            v[at] = new
        self._new.update((model, client) for client in clients)

    def changes(self) -> list[tuple[int, list[int], Tree]]:
        """Model, clients and their rows, of all that has changed since this was last asked for."""
        by_model: dict[int, list[int]] = {}
        for model, client in sorted(self._new):
            by_model.setdefault(model, []).append(client)
        self._new.clear()
        return [(model, clients, self.rows(model, clients)) for model, clients in by_model.items()]

    def keep_only(self, owns: Callable[[int], bool]) -> None:
        """Forget all clients but some."""
        for at in [key for key in self._place if not owns(key[1])]:
            self._free.append(self._place.pop(at))

    def clone(self, parent: int, child: int) -> None:
        """A new model, of which clients remember what they do of its parent."""
        users = [client for model, client in self._place if model == parent]
        if users:
            self.put(child, users, self.rows(parent, users))

    def forget(self, model: int) -> None:
        """A model is gone."""
        for at in [key for key in self._place if key[0] == model]:
            self._free.append(self._place.pop(at))
        self._new = {key for key in self._new if key[0] != model}

    @property
    def state(self) -> dict[str, Any]:
        """For a checkpoint: who has which row, and the rows in blocks, whose numbers grow with changes. No copies."""
        blocks = range(-(-self._used // ROWS_PER_BLOCK))
        return {"place": [[model, client, row] for (model, client), row in self._place.items()],
                "blocks": {n: {"version": self._version[n],
                               "rows": [v[n * ROWS_PER_BLOCK : min(self._used, (n + 1) * ROWS_PER_BLOCK)]
                                        for v in self._table]} for n in blocks}}

    @state.setter
    def state(self, saved: Mapping[str, Any]) -> None:
        self._place = {(model, client): row for model, client, row in saved["place"]}
        blocks = [saved["blocks"][n] for n in sorted(saved["blocks"])]
        self._table = [torch.cat([block["rows"][i] for block in blocks]).to(v.device, v.dtype)
                       for i, v in enumerate(self._table)]
        self._version = Counter({n: block["version"] for n, block in saved["blocks"].items()})
        taken = set(self._place.values())
        self._next = self._used
        self._free = [row for row in range(1, self._next) if row not in taken]
        self._new = set()

    @property
    def _used(self) -> int:
        """Rows up to the last one that is taken."""
        return 1 + max(self._place.values(), default=0)

    def _index(self, rows: list[int]) -> Tensor:
        return torch.tensor(rows, device=self._table[0].device)

    def _row_for(self, model: int, client: int) -> int:
        if (model, client) not in self._place:
            if not self._free:
                self._free.append(self._next)
                self._next += 1
            self._place[model, client] = self._free.pop()
        row = self._place[model, client]
        while row >= len(self._table[0]):  # twice as much room
            self._table = [torch.cat([v, torch.zeros_like(v)]) for v in self._table]
        self._version[row // ROWS_PER_BLOCK] += 1
        return row


def _form(tree: Tree) -> str:
    """Stacked tensors in words, in their order, as one client's: {'w': float32 [3]}."""
    if isinstance(tree, Mapping):
        return "{" + ", ".join(f"{name!r}: {_form(part)}" for name, part in tree.items()) + "}"
    return form_of(tree[0]) if isinstance(tree, Tensor) else f"({', '.join(map(_form, tree))})"

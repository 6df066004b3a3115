"""One local step of many clients at once, on stacked weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from askew.core import registry
from askew.core.registry import Spec
from askew.core.transform import Context, Params, State, Transform, chain
from askew.simulate.client_layers import ClientBatchNorm, ClientDropout, with_client_axis
from askew.simulate.dropout import dropouts, set_keys

# (inputs [K, B, ...], weights [K, ...], buffers [K, ...], K, dropout keys [K] or None, real examples [K] or None: all)
# -> scores [K, B, classes]
Network = Callable[[Tensor, Params, Params, int, Tensor | None, Tensor | None], Tensor]


class CannotBatch(Exception):
    """The network cannot be run for many clients at once; the message says which layer and why."""


def batched_network(module: nn.Module, example: Tensor) -> tuple[Network, str]:
    """The network for stacked weights, and how it was made: "stacked layers" or "vmap".

    Args:
        module: the network in training mode.
        example: a few preprocessed inputs, to try it on.
    """
    reason = with_client_axis(module)
    if not isinstance(reason, str):
        network = _stacked(reason)
        # A network whose `forward` looks across its batch (a mean over examples, say) would mix clients: compare.
        if _same_as_alone(module, network, example):
            return network, "stacked layers"
        reason = f"{type(module).__name__} mixes the examples of a batch"
    network = _vmapped(module)
    try:
        if _same_as_alone(module, network, example):
            return network, "vmap"
    except (RuntimeError, ValueError, TypeError) as error:
        reason = f"{reason}: {str(error).strip().splitlines()[0]}"
    raise CannotBatch(reason)


def _stacked(stacked: nn.Module) -> Network:
    drop = [name for name, layer in stacked.named_modules() if isinstance(layer, ClientDropout)]
    normalise = [name for name, layer in stacked.named_modules() if isinstance(layer, ClientBatchNorm)]

    def run(x: Tensor, params: Params, buffers: Params, clients: int, keys: Tensor | None, real: Tensor | None = None) -> Tensor:
        extra = {f"{name}.key" if name else "key": keys for name in drop} if keys is not None else {}
        if real is not None:
            extra |= {f"{name}.counts" if name else "counts": real for name in normalise}
        flat = x.flatten(0, 1)
        scores = torch.func.functional_call(stacked, {**params, **buffers, **extra}, (flat,))
        return scores.unflatten(0, (clients, -1))

    return run


def _vmapped(module: nn.Module) -> Network:
    layers = dropouts(module)

    def one(params: Params, buffers: Params, x: Tensor, key: Tensor | None) -> Tensor:
        if key is not None:
            set_keys(layers, key)
        return torch.func.functional_call(module, (params, buffers), (x,))

    def run(x: Tensor, params: Params, buffers: Params, clients: int, keys: Tensor | None, real: Tensor | None = None) -> Tensor:
        return torch.func.vmap(one, in_dims=(0, 0, 0, None if keys is None else 0), randomness="error")(params, buffers, x, keys)

    return run


def _same_as_alone(module: nn.Module, network: Network, example: Tensor) -> bool:
    """Whether two clients with different weights and inputs get the scores that each gets alone."""
    params = {name: torch.stack([p.detach(), p.detach() * 0.5]).requires_grad_()
              for name, p in module.named_parameters() if p.requires_grad}
    buffers = {name: torch.stack([b.detach(), b.detach()]) for name, b in module.named_buffers()}
    keys = torch.arange(2, device=example.device)
    inputs = torch.stack([example, example.flip(0) * 0.5])
    scores = network(inputs, params, {name: b.clone() for name, b in buffers.items()}, 2, keys, None)
    torch.autograd.grad(scores.float().square().sum(), list(params.values()), allow_unused=True)
    with torch.no_grad():
        for k in range(2):
            set_keys(dropouts(module), keys[k])
            own = {name: v[k].detach().clone() for name, v in {**params, **buffers}.items()}
            alone = torch.func.functional_call(module, own, (inputs[k],))
            if not torch.allclose(scores[k], alone, rtol=1e-2, atol=1e-3 * float(alone.abs().max())):
                return False
    return True


class BatchedStep:
    """Gradient -> update for K clients, with hyper-parameters that may differ between them.

    Args:
        specs: the pieces of the step.
        varying: for piece i and argument a, values [K]; other arguments are as in the specs.
        kind: of the pieces.
    """

    def __init__(self, specs: Sequence[Spec], varying: Mapping[tuple[int, str], Tensor] | None = None, kind: str = "client") -> None:
        self.specs, self.varying, self.kind = list(specs), dict(varying or {}), kind
        self.plain = chain(*(registry.build(kind, spec) for spec in specs))
        self._columns: dict[int, Transform] = {}
        self._all_columns: Transform | None = None

    @property
    def elementwise(self) -> bool:
        """Whether the maths broadcasts over the client axis, with no `vmap` around it."""
        return self.plain.elementwise

    def rebound(self, varying: Mapping[tuple[int, str], Tensor], columns: Mapping[tuple[int, str], Tensor]) -> BatchedStep:
        """The same step with its varying arguments in other memory, [K] and as columns [K, 1], for exactly K clients."""
        made = BatchedStep(self.specs, varying, self.kind)
        made._all_columns = made._built(columns)
        return made

    def init(self, params: Params) -> State:
        first = {at: v[0] for at, v in self.varying.items()}
        return torch.func.vmap(self._built(first).init)(params) if self.plain.parts else ()

    def update(self, u: Params, state: State, params: Params, start: Params, round: int | Tensor, keys: Tensor,
               step: int | Tensor) -> tuple[Params, State]:
        """All tensors are stacked over clients; `start` may have a client axis of size 1."""
        if self.elementwise:
            return self._broadcast(u, state, params, start, round, keys, step)
        clients = len(keys)
        varying = {at: v[:clients] for at, v in self.varying.items()}
        shared = clients > 1 and all(len(v) == 1 for v in start.values())
        if shared:
            start = {name: v[0] for name, v in start.items()}

        def one(u: Params, state: State, params: Params, start: Params, key: Tensor, values: dict[Any, Tensor]) -> tuple[Params, State]:
            return self._built(values).update(u, state, Context(params, start, round, key, step))

        return torch.func.vmap(one, in_dims=(0, 0, 0, None if shared else 0, 0, 0))(u, state, params, start, keys, varying)

    def _broadcast(self, u: Params, state: State, params: Params, start: Params, round: int | Tensor, keys: Tensor,
                   step: int | Tensor) -> tuple[Params, State]:
        if not self.varying:
            return self.plain.update(u, state, Context(params, start, round, keys, step))
        columns = self._all_columns
        if columns is None:
            clients = len(keys)
            if clients not in self._columns:  # one value a row
                self._columns[clients] = self._built({at: v[:clients, None] for at, v in self.varying.items()})
            columns = self._columns[clients]
        flat = [pytree.tree_map(lambda v: v.flatten(1), tree) for tree in (u, state, params, start)]
        new_u, new_state = columns.update(flat[0], flat[1], Context(flat[2], flat[3], round, keys, step))
        shaped = {name: v.view(params[name].shape) for name, v in new_u.items()}
        return shaped, pytree.tree_map(lambda v, old: v.view(old.shape), new_state, state)

    def _built(self, values: Mapping[tuple[int, str], Tensor]) -> Transform:
        if not values:
            return self.plain
        parts = []
        for i, spec in enumerate(self.specs):
            mine = {name: v for (j, name), v in values.items() if j == i}
            parts.append(registry.build(self.kind, spec.with_args(**mine)))
        return chain(*parts)


def local_losses(scores: Tensor, y: Tensor, counts: Tensor) -> Tensor:
    """Mean cross-entropy of each client over its real examples, [K]."""
    clients, batch = y.shape
    each = F.cross_entropy(scores.flatten(0, 1).float(), y.flatten(), reduction="none").view(clients, batch)
    real = torch.arange(batch, device=y.device) < counts[:, None]
    return torch.where(real, each, 0.0).sum(dim=1) / counts.clamp_min(1)


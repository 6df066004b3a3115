"""A network for many clients at once, on stacked weights."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from askew.core.compat import BatchNorm
from askew.core.errors import first_line
from askew.core.tensors import Params
from askew.engine.functional import call, places_of
from askew.engine.layers.client_axis import ClientDropout, with_client_axis
from askew.engine.layers.dropout import dropouts, set_keys
from askew.engine.layers.norm import ClientBatchNorm

# (inputs [K, B, ...], weights [K, ...], buffers [K, ...], K, dropout keys [K] or None, real examples [K] or None: all)
# -> scores [K, B, classes]
Network = Callable[[Tensor, Params, Params, int, Tensor | None, Tensor | None], Tensor]


class CannotBatch(Exception):
    """The network cannot be run for many clients at once; the message says which layer and why."""


# What a network was built from, where it is and its layers -> which of the ways below it took
_TRIED: dict[Hashable, int] = {}


def batched_network(module: nn.Module, example: Tensor, axes: Mapping[str, int] | None = None,
                    built_from: Hashable = None) -> tuple[Network, str]:
    """The network for stacked weights, and how it was made: "stacked layers" or "vmap".

    Args:
        module: the network in training mode.
        example: a few preprocessed inputs, to try it on.
        axes: layer's name -> the axis on which its examples lie, where that is not the first.
        built_from: networks that are built from the same are tried once per process.

    Raises:
        CannotBatch: where neither way gives two clients what each gets alone.
    """
    ways: list[tuple[str, Callable[[nn.Module], Network]]] = []
    key = (built_from, example.device.type, example.dtype, str(module), tuple(map(type, module.modules())))
    try:
        copied = with_client_axis(module, axes or {})
        elsewhere = None if key in _TRIED else copy.deepcopy(module).cpu()
    except Exception as error:  # it may hold what cannot be copied, such as a lock
        raise CannotBatch(f"{type(module).__name__} cannot be copied: {first_line(error)}") from None
    if isinstance(copied, str):
        reason = f"{copied} has no form with a client axis"
    else:
        reason = f"{type(module).__name__} mixes the examples of a batch, or branches on their values"
        low = any(p.ndim < 2 for name, p in module.named_parameters() if name in copied[1])
        ways += [("stacked layers", partial(_stacked, axes=axes or {}, rank=rank))
                 for rank in ((2, 3, 4) if low else (0,))]
    ways.append(("vmap", _vmapped))
    if elsewhere is None:
        kind, make = ways[_TRIED[key]]
        return make(module), kind
    # A network whose `forward` looks across its batch (a mean over examples, say) would mix clients: compare.
    # On a CPU first: a GPU would have to compile kernels for the sizes of this trial alone. In double precision
    # first: rounding alone makes two ways through a deep network with BatchNorm differ. In a copy: the
    # trial changes running statistics, and whatever else a network keeps of what it has seen.
    places = [(elsewhere, example.cpu())]
    if example.is_floating_point() and all(p.dtype == torch.float32 for p in module.parameters()):
        places.insert(0, (copy.deepcopy(elsewhere).double(), example.cpu().double()))
    trials = [(at, place) for at in range(len(ways)) for place in places]
    if example.device.type != "cpu":
        trials += [(at, (module, example)) for at in range(len(ways))]
    for at, (place, tried) in trials:
        kind, make = ways[at]
        problem = _problem(place, make(place), tried)
        if problem is None:
            if built_from is not None:
                _TRIED[key] = at
            return make(module), kind
        if "random operation" in problem:
            raise CannotBatch(f"{type(module).__name__} draws random numbers by itself, as F.dropout and torch.rand do")
        if problem and kind not in reason:
            reason = f"{reason}; {kind}: {problem}"
    raise CannotBatch(reason)


def batch_axes(module: nn.Module, examples: Tensor) -> dict[str, int]:
    """Layer's name -> the axis on which the examples of a batch lie in its input, where that is not the first.

    Found by trying the network on two and on three examples: the axis whose length grows is theirs.
    """
    seen: dict[str, list[torch.Size]] = {}

    def look(name: str) -> Callable[..., None]:
        return lambda layer, inputs: seen.setdefault(name, []).append(inputs[0].shape) if inputs and isinstance(
            inputs[0], Tensor) else None

    result: dict[str, int] = {}
    hooks = []
    was_training = module.training
    try:
        hooks += [layer.register_forward_pre_hook(look(name)) for name, layer in module.named_modules()]
        module.eval()
        with torch.no_grad():
            module(examples[:2])
            few = {name: shapes[0] for name, shapes in seen.items()}
            seen.clear()
            module(examples[:3])
        for name, shapes in seen.items():
            if name in few and len(few[name]) == len(shapes[0]):
                grown = [i for i, (two, three) in enumerate(zip(few[name], shapes[0], strict=True)) if three > two]
                if grown and grown[0] > 0:
                    result[name] = grown[0]
    except Exception:  # the user's network may raise anything; checking it reports that
        return {}
    finally:
        module.train(was_training)
        for hook in hooks:
            hook.remove()
    return result


def _stacked(module: nn.Module, axes: Mapping[str, int], rank: int) -> Network:
    """The network with a client axis as a function.

    Weights and buffers that a `forward` of the network's own uses ("bare") are given to it as it expects
    them: a buffer is the same for all clients; a weight is repeated for each example,
    [K, ...] -> [K * B, ...], where it then broadcasts.

    Args:
        rank: axes that a bare weight of fewer than two is given, that of the examples included.
    """
    copied = with_client_axis(module, axes)
    assert not isinstance(copied, str), "the caller has looked"
    stacked, bare = copied
    layers = [layer for layer in stacked.modules() if isinstance(layer, ClientDropout)]
    drop = [f"{name}.key" if name else "key"
            for name, layer in stacked.named_modules() if isinstance(layer, ClientDropout)]
    normalise = [f"{name}.counts" if name else "counts"
                 for name, layer in stacked.named_modules() if isinstance(layer, ClientBatchNorm)]
    frozen = {name: p.detach() for name, p in module.named_parameters() if not p.requires_grad}
    shapes = {name: p.shape for name, p in module.named_parameters()}
    places = places_of(stacked)

    def spread(name: str, v: Tensor, batch: int) -> Tensor:
        shape = shapes[name]
        if len(shape) > 1 and shape[0] == 1:  # made to be broadcast over a batch
            return v.expand(-1, batch, *shape[1:]).flatten(0, 1)
        inner = shape if len(shape) > 1 else (*[1] * (rank - 1 - len(shape)), *shape)
        return v.view(len(v), 1, *inner).expand(-1, batch, *inner).flatten(0, 1)

    def run(x: Tensor, params: Params, buffers: Params, clients: int, keys: Tensor | None,
            real: Tensor | None = None) -> Tensor:
        weights = {**params, **{name: v.expand(clients, *v.shape) for name, v in frozen.items()}}
        state = {name: spread(name, v, x.shape[1]) if name in bare else v for name, v in weights.items()}
        state |= {name: v[0] if name in bare else v for name, v in buffers.items()}
        if keys is not None:
            state |= dict.fromkeys(drop, keys)
        if normalise:
            state |= dict.fromkeys(normalise, x.new_empty((clients, 0)) if real is None else real)
        for layer in layers:
            layer.calls = 0
        scores = call(stacked, state, (x.flatten(0, 1),), places)
        for layer in layers:  # back to 0: a compiler compiles again for every other number that it sees
            layer.calls = 0
        return scores.unflatten(0, (clients, -1))

    return run


def _vmapped(module: nn.Module) -> Network:
    layers, places = dropouts(module), places_of(module)

    def one(params: Params, buffers: Params, x: Tensor, key: Tensor | None) -> Tensor:
        if key is not None:
            set_keys(layers, key)
        return call(module, {**params, **buffers}, (x,), places)

    def run(x: Tensor, params: Params, buffers: Params, clients: int, keys: Tensor | None,
            real: Tensor | None = None) -> Tensor:
        each = torch.func.vmap(one, in_dims=(0, 0, 0, None if keys is None else 0), randomness="error")
        return each(params, buffers, x, keys)

    return run


def _problem(module: nn.Module, network: Network, example: Tensor) -> str | None:
    """Why two clients with different weights and inputs do not get the scores, gradients and buffers of each alone.

    None where they do, an empty string where they get others, and what torch says where it fails.
    """
    half = len(example) // 2
    inputs_of_two = torch.stack([example[:half], example[half : 2 * half]])
    # Batches of five, of two and of one: a `forward` may cut a batch into parts. Large inputs: it may do something else
    # beyond some bound. Not of one with BatchNorm: torch's own gradients of it are wrong on a CPU (2.13) where what
    # comes back lies in channels-last order, so that there is nothing to compare with.
    normalises = any(isinstance(layer, BatchNorm) for layer in module.modules())
    trials = [inputs_of_two[:, :batch] for batch in dict.fromkeys((half, min(2, half), *([] if normalises else [1])))]
    trials += [30.0 * inputs_of_two] if inputs_of_two.is_floating_point() else []
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # vmap warns of every operation that it has no rule for
        try:
            return None if all(_same_as_alone(module, network, inputs) for inputs in trials) else ""
        except Exception as error:  # the user's network and torch's rules may raise anything
            return first_line(error)


def _same_as_alone(module: nn.Module, network: Network, inputs: Tensor) -> bool:
    """Whether two clients get what each gets alone, of inputs [2, B, ...]."""
    # Weights that differ, by a factor and from place to place: where all are 0 or 1, exchanged clients would not show.
    trained = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}
    params = {name: torch.stack([v, _changed(v)]).requires_grad_() for name, v in trained.items()}
    buffers = {name: torch.stack([b.detach(), b.detach()]) for name, b in module.named_buffers()}
    keys = torch.arange(2, device=inputs.device)
    after = {name: b.clone() for name, b in buffers.items()}
    try:
        set_keys(dropouts(module), keys[0])
        with torch.no_grad():
            call(module, {**trained, **{name: b[0].clone() for name, b in buffers.items()}}, (inputs[0].clone(),))
    except Exception:  # a batch that it cannot take even alone, such as one of one example with BatchNorm
        return True
    with _NoValues():
        scores = network(inputs.clone(), params, after, 2, keys, None)
    weights = torch.linspace(0.5, 1.5, scores[0].numel(), device=scores.device,
                             dtype=scores.dtype).view(scores.shape[1:])
    gradients = torch.autograd.grad((scores * weights).sum(), list(params.values()), allow_unused=True,
                                    materialize_grads=True)
    for k in range(2):
        set_keys(dropouts(module), keys[k])
        weights_of_client = {name: v[k].detach().requires_grad_() for name, v in params.items()}
        kept = {name: b[k].clone() for name, b in buffers.items()}
        alone = call(module, {**weights_of_client, **kept}, (inputs[k].clone(),))
        wanted = torch.autograd.grad((alone * weights).sum(), list(weights_of_client.values()), allow_unused=True,
                                     materialize_grads=True)
        length = torch.stack([v.norm() for v in wanted]).norm()
        if not length.isfinite():
            continue  # inputs that it cannot take, even alone
        if not torch.allclose(scores[k], alone, rtol=1e-2, atol=1e-3 * float(alone.detach().abs().max())):
            return False
        if not all((got[k] - v).norm() <= 1e-2 * v.norm() + 1e-3 * length
                   for got, v in zip(gradients, wanted, strict=True)):
            return False
        if not all(torch.allclose(after[name][k], b, rtol=1e-2, atol=1e-3) for name, b in kept.items()):
            return False
    return True


class _NoValues(TorchFunctionMode):
    """Nobody may look at the value of a tensor: a branch on it would decide for all clients at once."""

    LOOKS = frozenset({Tensor.item, Tensor.tolist, Tensor.numpy, Tensor.__bool__, Tensor.__int__, Tensor.__float__,
                       Tensor.__index__})

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in self.LOOKS:
            raise RuntimeError("its forward looks at the value of a tensor")
        return function(*args, **(kwargs or {}))


def _changed(v: Tensor) -> Tensor:
    wave = torch.linspace(0.5, 1.0, max(1, v.numel()), device=v.device, dtype=v.dtype)[: v.numel()].view(v.shape)
    return v * wave + 0.01 * wave


def local_losses(scores: Tensor, y: Tensor, counts: Tensor, losses: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Mean loss of each client over its real examples, [K].

    Args:
        scores, y: outputs and targets [K, B, ...].
        counts: [K] how many of the B examples are real.
        losses: of an objective, one number per example.
    """
    clients, batch = y.shape[:2]
    wide = scores.flatten(0, 1).to(torch.promote_types(scores.dtype, torch.float32))
    each = losses(wide, y.flatten(0, 1)).view(clients, batch)
    real = torch.arange(batch, device=y.device) < counts[:, None]
    return torch.where(real, each, 0.0).sum(dim=1) / counts.clamp_min(1)

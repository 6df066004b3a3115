"""Local training of one model on one set of examples: what a client does, and a server that has data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from askew.core import rng
from askew.core.client_piece import ClientChain, ClientContext
from askew.core.compat import foreach_add_
from askew.core.dataset import Examples
from askew.core.objective import Objective
from askew.core.preprocess import Preprocess
from askew.core.tensors import ModelState, Params, Tree, apart, places_in
from askew.engine.affine import coefficients
from askew.engine.device import seed_torch
from askew.engine.layers.dropout import dropouts, set_keys
from askew.engine.task import Task

# Branches of a client's stream, so that shuffling, augmentation, noise and dropout never share numbers.
SHUFFLE, AUGMENT, STEP, UPLOAD, LAYERS = range(5)


def batches(indices: Tensor, epochs: int, batch_size: int, stream: Tensor) -> Iterator[Tensor]:
    """Indices of each local step: every epoch in a new order, the last batch as small as it comes out."""
    size = batch_size or len(indices)
    shuffle = rng.fold(stream, SHUFFLE)
    for epoch in range(epochs):
        yield from indices[rng.permutation(rng.fold(shuffle, epoch), len(indices))].split(size)


def example_keys(stream: Tensor, step: int, count: int) -> Tensor:
    """One augmentation key for each example of a step."""
    return rng.fold(rng.fold(rng.fold(stream, AUGMENT), step), torch.arange(count, device=stream.device))


def cpu_order(x: Tensor) -> Tensor:
    """On a CPU, images [N, C, H, W] in channels-last order, in which its libraries are fastest; anything else as it is.

    Images of one channel lie in both orders at once, and torch takes them for the slow one (max pooling: seven times
    slower), in which it then does all that follows: new strides say which is meant.
    """
    if x.ndim != 4 or x.device.type != "cpu":
        return x
    x = x.contiguous(memory_format=torch.channels_last)
    _, channels, height, width = x.shape
    return x.as_strided(x.shape, (height * width, 1, width, 1)) if channels == 1 else x


@dataclass(frozen=True)
class Trained:
    """What local training came to.

    Args:
        model: the trained weights and buffers.
        state: of the chain, after the last step.
        ctx: as the chain saw the last step, with the trained weights.
        loss: mean over the steps (a tensor: no wait for the device).
    """

    model: ModelState
    state: Tree
    ctx: ClientContext
    loss: Tensor


@torch.no_grad()
def _step_straight(weights: Params, gradients: Sequence[Tensor], by: Mapping[str, tuple[float, float]]) -> None:
    """w <- (1 + b) w + a g, with no memory but the weights' own."""
    for (name, w), g in zip(weights.items(), gradients, strict=True):
        a, b = by[name]
        if b:
            w.mul_(1 + b)
        w.add_(g, alpha=a)


def train_locally(module: nn.Module, model: ModelState, examples: Examples, indices: Tensor, chain: ClientChain,
                  prepare: Preprocess, objective: Objective, *, epochs: int, batch_size: int, stream: Tensor,
                  round: int, client: int = 0, kept: Tree = None, shared: Mapping[str, Tree] | None = None,
                  seeded: bool = True) -> Trained:
    """E epochs of mini-batch training from `model`.

    Args:
        module: the network; its weights are overwritten.
        indices: which of the examples to train on.
        chain: gradient -> update.
        objective: what is minimised.
        stream: randomness of shuffling, augmentation, noise and dropout.
        round: rounds completed before this one, for rates that decay.
        client: who trains.
        kept: what it remembers; None: as before its first round.
        shared: what the server sent beside the model.
        seeded: seed torch's generator too, for networks that draw from it by themselves.
    """
    parameters = {name: p for name, p in module.named_parameters() if name in model.params}
    buffers = dict(module.named_buffers())
    with torch.no_grad():
        for name, p in parameters.items():
            p.data = model.params[name].clone()  # keeps the memory layout of the model, unlike copy_
        for name, b in buffers.items():
            b.copy_(model.buffers[name])
    for layer in module.modules():
        if isinstance(layer, nn.RNNBase):
            layer.flatten_parameters()  # on a GPU its library wants them in one piece
    layers, drop = dropouts(module), rng.fold(stream, LAYERS)
    if seeded:
        seed_torch(int(drop) & 0x7FFFFFFFFFFFFFFF, stream.device)  # for modules that draw by themselves
    noise, size = rng.fold(stream, STEP), batch_size or len(indices)
    weights = {name: p.detach() for name, p in parameters.items()}
    ctx = ClientContext(weights, model.params, round, 0, epochs * -(-len(indices) // size),
                        client, len(indices), shared or {})
    in_place = places_in(weights)  # they change there, under the eyes of a piece that has kept them in its state
    with torch.no_grad():
        state = apart(chain.begin(chain.keep(model) if kept is None else kept, ctx), in_place)
    losses: list[Tensor] = []
    straight = coefficients(chain, round, tuple((name, tuple(p.shape)) for name, p in parameters.items()))
    number = 0
    try:
        for number, batch in enumerate(batches(indices, epochs, batch_size, stream)):
            keys = example_keys(stream, number, len(batch)) if prepare.random else None
            x = cpu_order(prepare.apply(examples.x[batch], keys))
            if layers:
                set_keys(layers, rng.fold(drop, number))
            loss = objective.loss(module(x), examples.y[batch])
            gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, materialize_grads=True)
            losses.append(loss.detach())
            if straight is not None:
                _step_straight(weights, gradients, straight)
                continue
            with torch.no_grad():
                ctx = replace(ctx, step=number, make_key=partial(rng.fold, noise, number))
                u, state = chain.update(dict(zip(parameters, gradients, strict=True)), state, ctx)
                state = apart(state, in_place)
                foreach_add_(list(weights.values()), [u[name] for name in weights])
    except Exception as error:  # network, pieces and torch may raise anything: say where
        error.add_note(f"askew: client {client}, round {round + 1}, local step {number + 1} of {ctx.steps}")
        raise
    # Weights need no copy: the next training gives the module other memory. A network may have replaced its buffers.
    trained = ModelState(weights, {name: b.detach().clone() for name, b in module.named_buffers()})
    return Trained(trained, state, ctx, torch.stack(losses).mean())


def train_pooled(task: Task, model: ModelState, indices: np.ndarray, *, epochs: int, role: str, number: int,
                 batch_size: int | None = None, round: int = 0) -> ModelState:
    """Train one model on training examples that lie in one place, with the clients' optimiser alone.

    Args:
        role, number: name the random stream.
        batch_size: None takes the recipe's.
        round: for the learning rate's decay.
    """
    return train_locally(
        task.module, model, task.examples, torch.from_numpy(indices).to(task.device), task.client.optimiser,
        task.prepare, task.objective, epochs=epochs,
        batch_size=task.recipe.batch_size if batch_size is None else batch_size,
        stream=rng.key(task.recipe.seed, role, number).to(task.device), round=round,
    ).model

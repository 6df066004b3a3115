"""A recipe made concrete: all that it names is loaded, drawn, built and checked."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

import askew.partition
from askew.core import registry, rng
from askew.core.adversity import AdversityContext
from askew.core.client_piece import ClientChain
from askew.core.dataset import Dataset, Source
from askew.core.errors import AskewError, first_line
from askew.core.objective import objective_of
from askew.core.population import Population
from askew.core.preprocess import Preprocess, is_token, pipeline
from askew.core.recipe import Recipe
from askew.core.registry import Spec
from askew.core.server_piece import ServerChain
from askew.core.tensors import ModelState
from askew.engine.batched import batch_axes
from askew.engine.checks import check_task
from askew.engine.device import MEMORY_SHARE, available, device_memory, seed_torch
from askew.engine.layers.dropout import key_dropouts
from askew.engine.mislabel import mislabelled
from askew.engine.noisy_features import noised
from askew.engine.task import Task


def build_task(recipe: Recipe, *, data: Dataset | None = None, population: Population | None = None,
               model: nn.Module | None = None, device: str | torch.device = "cpu", data_dir: str | None = None) -> Task:
    """Load, draw, build and check all that a recipe names; objects given here take the place of what it names.

    Args:
        data: a data set of your own.
        population: a federation of your own.
        model: any `torch.nn.Module` from inputs to outputs that the objective takes; it is copied,
            and its weights are the start.
        data_dir: where data sets lie.
    """
    device = available(device)
    if data is None:
        data = registry.build("data", recipe.data, data_dir=data_dir)
    objective = objective_of(recipe)
    objective.check_data(data)
    if population is None:
        population = draw_population(recipe, data)
    else:
        population = askew.partition.combine(population, recipe.population, Source.of(data), recipe.seed)
    population.check_data(data)
    data = noised(data, population)
    steps = [registry.build("preprocess", spec, data=data) for spec in recipe.preprocess]
    data = data.to(device)
    adversities = tuple(registry.build("adversity", spec) for spec in recipe.adversity)
    for at, adversity in enumerate(adversities):
        adversity.check(AdversityContext.of(recipe, population, at))
    drawn = population
    population, examples = mislabelled(recipe, adversities, drawn, data)
    module = _build_module(recipe, data, pipeline(steps), model).to(device)
    prepare = prepared(steps, module, data.train.x[:2])
    axes = batch_axes(module, prepare.apply(data.train.x[:3], None))
    key_dropouts(module, axes)
    client = ClientChain([registry.build("client", spec) for spec in recipe.client])
    server = ServerChain([registry.build("server", spec) for spec in recipe.server])
    task = Task(
        recipe=recipe, data=data, population=population, module=module, fresh=_weights_of(module), client=client,
        server=server, pool=registry.build("pool", recipe.pool),
        probes=tuple(registry.build("probe", spec) for spec in recipe.probes),
        prepare=prepare, objective=objective, device=device, examples=examples, adversities=adversities,
        guards=tuple(registry.build("guard", spec) for spec in recipe.guard), axes=axes, steps=tuple(steps),
        drawn=drawn,
        built_from=None if model is not None else (
            registry.find("model", recipe.model.name), str(recipe.model), prepare.shape(data.input_shape),
            data.num_outputs),
    )
    check_task(task)
    return task


def draw_population(recipe: Recipe, data: Dataset) -> Population:
    """The federation that a recipe describes."""
    return askew.partition.draw(recipe.population, Source.of(data), recipe.seed)


def _weights_of(module: nn.Module) -> ModelState:
    params = {name: _layout(p.detach()).clone() for name, p in module.named_parameters() if p.requires_grad}
    if not params:
        raise AskewError("model: no weight of the network requires a gradient; nothing could be trained")
    return ModelState(params, {name: b.detach().clone() for name, b in module.named_buffers()})


def _layout(v: Tensor) -> Tensor:
    """Convolution weights in channels-last order: on CPUs twice as fast, elsewhere no loss."""
    return v.to(memory_format=torch.channels_last) if v.ndim == 4 and v.device.type == "cpu" else v


def _build_module(recipe: Recipe, data: Dataset, prepare: Preprocess, model: nn.Module | None) -> nn.Module:
    if model is not None:
        if isinstance(model, torch.jit.ScriptModule):
            raise AskewError("model: a scripted network cannot be trained here; give the module that it was made from")
        try:
            built = copy.deepcopy(model)
        except Exception as error:  # layers that are not initialised yet, locks, ...
            raise AskewError(f"model: the network cannot be copied ({first_line(error)}); give one that "
                             "`copy.deepcopy` takes") from None
    else:
        with torch.random.fork_rng(devices=[]):
            seed_torch(rng.int_seed(recipe.seed, "initial weights"), data.train.x.device)
            built = build_network(recipe.model, input_shape=prepare.shape(data.input_shape),
                                  num_classes=data.num_outputs)
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in built.parameters()):
        raise AskewError("model: the network has lazy layers that have seen no input yet; "
                         "call it once on an example before")
    if any(p.is_complex() for p in built.parameters()):
        raise AskewError("model: the network has complex weights; train their real and imaginary parts instead")
    return built.train()


def build_network(spec: Spec, **given: Any) -> nn.Module:
    """The network that a recipe names, unless it would not fit into the memory: asked before any of it is taken."""
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            empty = registry.build("model", spec, **given)
        size = sum(v.numel() * v.element_size() for v in (*empty.parameters(), *empty.buffers()))
    except AskewError:
        raise
    except Exception:  # a stranger's that looks at its own numbers, or one beyond all sizes: told of below
        size = 0
    bound = MEMORY_SHARE * device_memory(torch.device("cpu"))
    if size > bound:
        raise AskewError(f"model: {spec} would have {size / 1e9:,.1f} GB of weights, and this machine can spare "
                         f"{bound / 1e9:,.1f}; take a smaller network")
    try:
        return registry.build("model", spec, **given)
    except (RuntimeError, MemoryError, OverflowError) as error:
        raise AskewError(f"model: {spec} cannot be built: {first_line(error)}") from None


def prepared(steps: Sequence[Preprocess], module: nn.Module, x: Tensor) -> Preprocess:
    """Preprocessing into what the network takes: numbers of its own precision, or tokens.

    Args:
        x: a few stored inputs.
    """
    kinds = {p.dtype for p in module.parameters() if p.is_floating_point()}
    dtype = kinds.pop() if len(kinds) == 1 else torch.float32
    if not is_token(x.dtype) or steps:
        return pipeline(steps, dtype)
    tokens = pipeline(steps, dtype, tokens=True)
    try:
        with torch.no_grad():
            module.eval()(tokens.apply(x, None))
        return tokens
    except Exception:  # whatever it says of integers: it may still take them as numbers
        return pipeline(steps, dtype)
    finally:
        module.train()

"""A recipe made concrete: data on the device, a drawn population, a network, composed transforms, all checked."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import askew.partition
from askew.core import registry, rng
from askew.core.adversity import Adversity, AdversityContext
from askew.core.client_memory import ClientMemory
from askew.core.client_piece import ClientChain, Plan
from askew.core.compat import BatchNorm
from askew.core.dataset import Dataset, Examples, Source
from askew.core.errors import AskewError, first_line
from askew.core.guard import Guard
from askew.core.objective import Objective, objective_of
from askew.core.pool import Pool
from askew.core.population import Population
from askew.core.preprocess import Preprocess, is_token, pipeline
from askew.core.probe import Probe
from askew.core.recipe import Recipe
from askew.core.registry import Spec
from askew.core.server_piece import ServerChain
from askew.core.start import Start
from askew.core.tensors import ModelState, num_bytes
from askew.engine.batched import batch_axes
from askew.engine.evaluate import Scores, evaluate, example_scores, outputs, predict_classes
from askew.engine.layers.dropout import dropouts, key_dropouts, set_keys
from askew.engine.layers.fast import use_fast_layers
from askew.engine.local import train_locally
from askew.engine.mislabel import mislabelled
from askew.engine.rewrite import pool_before_relu, rewritten

MEMORY_SHARE = 0.5  # of a device's memory that clients' memories, or a round's updates, may take


@dataclass(frozen=True)
class Task:
    """Everything a round needs, built and checked once.

    Args:
        module: the network; its own weights are scratch space, the state of a run lives in `ModelState`s.
        fresh: the weights that the network was built with.
        client: the clients' pieces.
        server: the server's.
        prepare: preprocessing as one function.
        objective: what is minimised, and what a model is judged by.
        examples: what clients' indices point into: the training examples, and behind them copies with wrong labels.
        adversities: what goes wrong with clients.
        guards: which updates the server leaves out.
        axes: layer's name -> the axis on which its examples lie, where that is not the first.
        steps: of preprocessing, of which `prepare` is made.
        drawn: the population as it was before clients mislabelled anything; default: the same.
    """

    recipe: Recipe
    data: Dataset
    population: Population
    module: nn.Module
    fresh: ModelState
    client: ClientChain
    server: ServerChain
    pool: Pool
    probes: tuple[Probe, ...]
    prepare: Preprocess
    objective: Objective
    device: torch.device
    examples: Examples
    adversities: tuple[Adversity, ...] = ()
    guards: tuple[Guard, ...] = ()
    axes: Mapping[str, int] = field(default_factory=dict)
    steps: tuple[Preprocess, ...] = ()
    drawn: Population | None = None

    @property
    def num_clients(self) -> int:
        return self.population.num_clients

    @property
    def cohort_size(self) -> int:
        return cohort_size(self.recipe.fraction, self.num_clients)

    @property
    def personal(self) -> bool:
        """Whether devices use models of their own: they choose among several, or keep tensors for themselves."""
        return self.pool.needs_validation or self.client.enters

    @cached_property
    def client_names(self) -> list[str]:
        """The clients' names, or their numbers as words."""
        return (self.drawn or self.population).names(self.data)

    @cached_property
    def client_indices(self) -> Tensor:
        """All clients' training indices end to end, on the device."""
        return torch.from_numpy(self.population.train.indices).to(self.device)

    @cached_property
    def untrained(self) -> str:
        """A fingerprint of what all clients of the network share and do not train: frozen weights, buffers (but
        BatchNorm's) and examples with wrong labels."""
        digest = hashlib.blake2b(digest_size=16)
        own = {f"{path}.{name}" if path else name for path, layer in self.module.named_modules()
               if isinstance(layer, BatchNorm) for name, _ in layer.named_buffers(recurse=False)}
        shared = {**self.frozen, **{name: b for name, b in self.fresh.buffers.items() if name not in own}}
        if shared:
            digest.update(str(self.recipe.start).encode())  # a file may bring others
        for name, v in shared.items():
            digest.update(name.encode() + v.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        for wrong in (self.examples.x[len(self.data.train) :], self.examples.y[len(self.data.train) :]):
            digest.update(wrong.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    @property
    def frozen(self) -> dict[str, Tensor]:
        """Weights that the network has and does not train."""
        return {name: p.detach() for name, p in self.module.named_parameters() if not p.requires_grad}

    def indices_of(self, client: int) -> Tensor:
        low, high = self.population.train.offsets[client : client + 2]
        return self.client_indices[int(low) : int(high)]

    def sample(self, round: int) -> list[int]:
        """The clients that train in a round, sorted; the cost does not grow with the population."""
        return rng.choose(rng.key(self.recipe.seed, "sample", round), self.num_clients, self.cohort_size).tolist()

    def train_pooled(self, model: ModelState, indices: np.ndarray, *, epochs: int, role: str, number: int,
                     batch_size: int | None = None, round: int = 0) -> ModelState:
        """Train one model on these training examples with the clients' optimiser alone.

        Args:
            role, number: name the random stream.
            round: for the learning rate's decay.
        """
        return train_locally(
            self.module, model, self.examples, torch.from_numpy(indices).to(self.device), self.client.optimiser,
            self.prepare, self.objective, epochs=epochs,
            batch_size=self.recipe.batch_size if batch_size is None else batch_size,
            stream=rng.key(self.recipe.seed, role, number).to(self.device), round=round,
        ).model

    def state_dict(self, model: ModelState) -> dict[str, Tensor]:
        """What the network's `load_state_dict` wants: frozen weights and further names of shared ones included."""
        own = {**model.params, **model.buffers}
        first = {id(v): name for name, v in (*self.module.named_parameters(), *self.module.named_buffers())}
        whole: dict[str, Tensor] = {}
        for name, v in self.module.state_dict(keep_vars=True).items():
            value = own.get(first[id(v)], v.detach())
            whole[name] = value if first[id(v)] == name else value.clone()  # a file holds no shared memory
        return whole

    @cached_property
    def _judged(self) -> nn.Module:
        """The network as it is evaluated."""
        if self.device.type != "cuda":
            return self.module
        # Tried on a CPU, where the layers are torch's: what is looked at is whether they stand in the right places.
        on_cpu = copy.deepcopy(self.module).cpu()
        network, x = copy.deepcopy(self.module), self.prepare.apply(self.data.train.x[:3], None).cpu()
        for rewrite in (pool_before_relu, use_fast_layers):
            made = rewritten(on_cpu, rewrite, x)
            if made is not on_cpu:
                rewrite(network)
                on_cpu = made
        return network

    def evaluate(self, model: ModelState) -> Scores:
        labels = self.data.labels_of(self.data.test)
        return evaluate(self._judged, model, self.data.test, self.prepare, self.objective,
                        labels, self.data.num_classes)

    def outputs(self, model: ModelState, x: Tensor) -> Iterator[Tensor]:
        """Of the network for stored inputs, chunk by chunk."""
        return outputs(self._judged, model, x, self.prepare)

    def score(self, model: ModelState) -> float:
        """The objective's headline on the test set."""
        return self.evaluate(model).score

    def scores(self, model: ModelState, examples: Examples) -> Tensor:
        """The objective's headline of each example."""
        return example_scores(self._judged, model, examples, self.prepare, self.objective)

    def predict(self, model: ModelState, x: Tensor) -> Tensor:
        return predict_classes(self._judged, model, x, self.prepare)


def cohort_size(fraction: float, num_clients: int) -> int:
    """m = max(C K, 1), rounded."""
    return max(1, round(fraction * num_clients))


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
    pool: Pool = registry.build("pool", recipe.pool)
    task = Task(
        recipe=recipe, data=data, population=population, module=module, fresh=_weights_of(module), client=client,
        server=server, pool=pool, probes=tuple(registry.build("probe", spec) for spec in recipe.probes),
        prepare=prepare, objective=objective, device=device, examples=examples, adversities=adversities,
        guards=tuple(registry.build("guard", spec) for spec in recipe.guard), axes=axes, steps=tuple(steps),
        drawn=drawn,
    )
    plan = Plan(client=client.pieces, server=server.pieces, clients=task.num_clients, cohort_size=task.cohort_size,
                server_examples=len(population.server), scored=pool.needs_validation)
    client.check(plan)
    server.check(plan)
    _check_memory(task)
    if pool.needs_validation and population.validation is None:
        raise AskewError(f"pool: {pool.spec.name if pool.spec else 'it'} scores models on validation data "
                         "that the devices do not have; write population = \"... + validation(0.2)\", "
                         "or use a population with archetypes")
    if pool.needs_validation and not objective.higher_is_better:
        raise AskewError(f"pool: {pool.spec.name if pool.spec else 'it'} scores models by a measure of which more is "
                         f"better, and {objective.name} is judged by {objective.headline}; use single_model()")
    _check_held_out(task)
    _check_output(task)
    _check_batches(task)
    return task


def draw_population(recipe: Recipe, data: Dataset) -> Population:
    """The federation that a recipe describes."""
    return askew.partition.draw(recipe.population, Source.of(data), recipe.seed)


def initial_model(task: Task) -> ModelState:
    """The weights that round 1 begins with."""
    start: Start = registry.build("start", task.recipe.start)
    return start.make(task, task.fresh)


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
            torch.manual_seed(rng.int_seed(recipe.seed, "initial weights"))
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


def available(name: str | torch.device) -> torch.device:
    """A device by name; refused where this machine does not have it."""
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError):  # an unknown word; no such device, or a torch built without it
        raise AskewError(f"device {str(name)!r} is not available here; use cpu, or cuda where there is a GPU") from None
    return torch.device(name)


def _check_memory(task: Task) -> None:
    """What clients remember, and statistics that keep all updates, must fit the device; refuse before round 1."""
    memory = ClientMemory(task.client.keep, task.fresh)
    rounds = task.recipe.rounds * task.cohort_size
    remembered = memory.bytes_per_client * min(task.num_clients, rounds) if memory else 0
    order = 8 * task.recipe.epochs * int(task.population.sizes.max())  # int64: which example comes when in a round
    kept = sum(statistic.keeps_all for statistic in task.server.needs) + bool(task.guards)
    stacked = kept * task.cohort_size * num_bytes(task.fresh.params)
    bound = MEMORY_SHARE * device_memory(task.device)
    if remembered > bound:
        raise AskewError(f"step: clients would remember {memory.bytes_per_client / 1e6:,.1f} MB each, "
                         f"{remembered / 1e9:,.1f} GB in all, and {task.device} can spare {bound / 1e9:,.1f}; take "
                         "fewer clients or rounds, or a smaller network")
    if order > bound:
        raise AskewError(f"epochs: {task.recipe.epochs:,} over {int(task.population.sizes.max()):,} examples make a "
                         f"client's round of {order / 8:,.0f} examples; take fewer epochs, and more rounds")
    if stacked > bound:
        other = "take a statistic that streams" + (", and no guard" if task.guards else "")
        raise AskewError(f"server: all updates of {task.cohort_size} clients would take {stacked / 1e9:,.1f} GB, and "
                         f"{task.device} can spare {bound / 1e9:,.1f}; let fewer clients train in a round, or {other}")


def device_memory(device: torch.device) -> int:
    """Bytes that a device has in all."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 8 << 30


def _check_batches(task: Task) -> None:
    """BatchNorm over a batch of one value has no variance; refuse before training rather than in the middle of it."""
    sizes, batch = task.population.sizes, task.recipe.batch_size
    alone = np.flatnonzero((sizes % batch if batch else sizes) == 1) if batch != 1 else np.arange(1)
    if not len(alone):
        return
    module = copy.deepcopy(task.module)  # its statistics move
    set_keys(dropouts(module), torch.zeros((), dtype=torch.int64, device=task.device))
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            module(task.prepare.apply(task.data.train.x[:1], None))
    except Exception as error:  # whatever a network raises
        which = (f"leaves client {alone[0]} with a batch of one example ({sizes[alone[0]]} in all)" if batch != 1
                 else "makes batches of one")
        raise AskewError(f"batch_size: {batch or 'all examples'} {which}, which the network cannot take: "
                         f"{first_line(error)}; choose another batch size") from None


def _check_held_out(task: Task) -> None:
    """What stops a run early must be judged on examples that clients do not train on."""
    population = task.population
    if not task.recipe.stop_after_no_gain or population.validation is not None:
        return
    if not len(population.server):
        raise AskewError("stop_after_no_gain (or --rank held-out): no training examples are held out to judge by; "
                         'write population = "... + validation(0.1)" (on each client), or "... + hold_out(0.05)" (at '
                         "the server)")
    if np.isin(population.server, population.train.indices).any():
        raise AskewError("stop_after_no_gain (or --rank held-out): clients train on the server's examples, too, which "
                         'are then not held out; write population = "... + validation(0.1)"')


def _check_output(task: Task) -> None:
    """One forward pass on two examples: the network must take the inputs and give what the objective takes."""
    x = task.prepare.apply(task.data.train.x[:2], None)
    try:
        with torch.no_grad():
            task.module.eval()
            output = task.module(x)
    except Exception as error:  # whatever a network raises
        raise AskewError("model: the network does not take inputs of shape "
                         f"{tuple(x.shape[1:])}: {first_line(error)}") from None
    finally:
        task.module.train()
    task.objective.check_output(output, task.data.train.y[:2], task.data)

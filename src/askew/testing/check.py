"""A piece of your own through the conformance table."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from askew.core import lasting, registry
from askew.core.arguments import checked
from askew.core.client_piece import ClientPiece, OnGradient, Optimiser
from askew.core.dataset import Dataset
from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.core.server_piece import Aggregator, ServerPiece
from askew.core.tensors import Tree
from askew.engine.sequential import Sequential
from askew.engine.vectorised import Vectorised
from askew.rounds.lasting import check_lasting
from askew.rounds.round import one_round
from askew.rounds.simulation import Simulation
from askew.testing.forms import blamed, compare, forms, run, vectorised
from askew.testing.purity import check_purity, same
from askew.testing.trial import REFERENCE, Trial

# Unequal clients, some of whom are away in some rounds.
SMALL = Recipe(population="power_law(clients=6, exponent=1.0, min_examples=20)", rounds=3, batch_size=32, fraction=0.7,
               model="mlp(hidden=[16])")


@checked
def check_piece(piece: ClientPiece | ServerPiece | str, beside: Sequence[ClientPiece | ServerPiece | str] = (), *,
                recipe: Recipe | None = None, data: Dataset | None = None, model: nn.Module | None = None,
                device: str = "cpu", tolerance: float = 1e-3, compiled: bool | None = None) -> None:
    """Raise `AssertionError`, in one line, where a client or server piece does not do what every engine relies on.

    - It is pure: it leaves its inputs as they are, gives the same twice, and keeps names, shapes and types.
    - Every form gives the same: clients in reverse order, in threads, all at once, two at a time, replayed, compiled.
    - A checkpoint holds all of its state and memory: a run that goes on from one gives the same bits.
    - Its numbers may be tensors: configurations that differ in one of them give together what each gives alone.
    - It trains in bf16.

    Args:
        piece: made by a function with the decorator `@askew.piece`, or such a call, "momentum(beta=0.9)".
        beside: pieces that it needs besides, clients' or server's.
        recipe: all else of the trial, optimiser and aggregator too unless they are given; default: `SMALL`, with
            `sgd(lr=0.1)` and `mean()`.
        data, model: objects of your own in place of what the recipe names.
        device: "cpu" or "cuda".
        tolerance: how far apart two forms may be, as a share of a tensor's length; 1e-3 leaves room for sums in another
            order. A piece that rounds turns 1e-7 into a step, and needs more.
        compiled: whether to try the compiled form, which takes half a minute; default: where torch finds a compiler.

    Example:
        >>> askew.testing.check_piece("add_proximal(mu=0.1)", compiled=False)

        SCAFFOLD's client piece wants what its server piece sends:

        >>> askew.testing.check_piece(correct_drift(), [update_control()], compiled=False)
    """
    tested = _made(piece)
    with_piece = _with_piece(recipe or SMALL, tested, [_made(p) for p in beside])
    trial = Trial(tested.name, with_piece, data, model, device, tolerance)
    with torch.random.fork_rng(devices=[]):
        check_purity(trial, tested)
        reference = run(trial, Sequential, REFERENCE)
        for form, make in forms(device, compiled).items():
            compare(trial, form, run(trial, make, form), reference)
        _check_checkpoint(trial)
        for argument, values in _numbers(tested).items():
            _check_together(trial, tested, argument, values)
        run(trial, vectorised(precision="bf16"), "bf16")


def _made(piece: ClientPiece | ServerPiece | str) -> ClientPiece | ServerPiece:
    if isinstance(piece, str):
        name = piece.partition("(")[0].strip()
        kind = next((kind for kind in ("client", "server") if name in registry.names(kind)), "client")
        return registry.build(kind, piece)
    if piece.spec is None:
        raise AskewError("check_piece: the piece does not know how it was made; put @askew.piece('client') or "
                         "('server') on its function")
    return piece


def _with_piece(recipe: Recipe, piece: ClientPiece | ServerPiece,
                beside: Sequence[ClientPiece | ServerPiece]) -> Recipe:
    """The recipe with these pieces in their places; it keeps its optimiser and its aggregator where none is given."""
    pieces = [*beside, piece]
    clients = [p for p in pieces if isinstance(p, ClientPiece)]
    servers = [p for p in pieces if isinstance(p, ServerPiece)]
    optimiser: list[Any] = [p for p in clients if isinstance(p, Optimiser)] or [
        spec for spec in recipe.client if isinstance(registry.build("client", spec), Optimiser)]
    aggregator: list[Any] = [p for p in servers if isinstance(p, Aggregator)] or [
        spec for spec in recipe.server if isinstance(registry.build("server", spec), Aggregator)]
    before = [p for p in clients if isinstance(p, OnGradient)]
    behind = [p for p in clients if not isinstance(p, OnGradient | Optimiser)]
    return recipe.replace(client=[*before, *optimiser, *behind],
                          server=[*aggregator, *(p for p in servers if not isinstance(p, Aggregator))])


def _check_checkpoint(trial: Trial) -> None:
    """The last round of a run, and of another one that goes on from the state before it."""
    tasks = [trial.task() for _ in range(2)]  # pieces made anew: what one has kept for itself is not there
    unbroken, gone_on = (Simulation(task, Sequential(task)) for task in tasks)
    for _ in range(trial.recipe.rounds - 1):
        unbroken.advance()
    try:
        check_lasting(unbroken.task, unbroken.state)
    except AskewError as error:
        raise trial.failure(str(error)) from None
    file = io.BytesIO()
    torch.save(unbroken.state, file)
    file.seek(0)
    gone_on.state = lasting.read(file, trial.device)
    unbroken.advance()
    gone_on.advance()
    if not same(_lasting(gone_on), _lasting(unbroken)):
        raise trial.failure("a run that goes on from a checkpoint gives another result; keep all that lasts in state "
                            "or memory")


def _lasting(simulation: Simulation) -> Tree:
    """Models, state and each client's memory; its rows may lie in another order."""
    entry, memory = simulation.models[0], simulation.memory
    rows = tuple(memory.row(0, client) for client in range(simulation.task.num_clients)) if memory else ()
    return entry.model.params, entry.chain, rows


def _numbers(piece: ClientPiece | ServerPiece) -> dict[str, list[float]]:
    """Arguments that were given a fraction, with values to try beside each other."""
    kind, spec = "client" if isinstance(piece, ClientPiece) else "server", piece.spec
    assert spec is not None, "_made has checked that"
    numbers: dict[str, list[float]] = {}
    for name, value in spec.args.items():
        if isinstance(value, float) and value and math.isfinite(value):
            values = [value, 0.5 * value, 0.75 * value, 0.9 * value]
            try:
                for other in values:
                    registry.build(kind, spec.with_args(**{name: other}))
            except AskewError:
                continue
            numbers[name] = values
    return numbers


def _check_together(trial: Trial, piece: ClientPiece | ServerPiece, argument: str, values: Sequence[float]) -> None:
    """Configurations that differ in one number of the piece: together, and each alone."""
    field = "client" if isinstance(piece, ClientPiece) else "server"
    specs = getattr(trial.recipe, field)
    tasks = [trial.task(trial.recipe.replace(**{
        field: [spec.with_args(**{argument: value}) if spec == piece.spec else spec for spec in specs]}))
        for value in values]
    where = f"{argument} = {', '.join(f'{value:g}' for value in values)} together"
    with blamed(trial, where):
        engine = Vectorised(tasks[0], graphed=False, compiled=False, runs=len(tasks))
        runs = [Simulation(task, engine) for task in tasks]
        for _ in range(trial.recipe.rounds):
            gatherings = [run.begin() for run in runs]
            for simulation, gathering, models in zip(runs, gatherings, one_round(gatherings, engine), strict=True):
                simulation.complete(simulation.launched(gathering, models))
    for task, value, simulation in zip(tasks, values, runs, strict=True):
        alone = Simulation(task, Sequential(task))
        for _ in range(trial.recipe.rounds):
            alone.advance()
        trial.assert_close(f"{where}, {argument} = {value:g}", _lasting(simulation), _lasting(alone))

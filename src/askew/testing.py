"""For pieces of your own: `check_piece` puts one through what every piece of askew goes through.

    import askew
    from my_methods import my_piece

    def test_my_piece():
        askew.testing.check_piece(my_piece(0.1))

It trains a small federation of unequal clients in every form that an engine has on this machine, and compares each client's
message and memory, and the server's models, with those of one client after the other.
"""

from __future__ import annotations

import dataclasses
import io
import math
import shutil
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from askew.core import registry
from askew.core.client_piece import ClientChain, ClientContext, ClientPiece, OnGradient, Optimiser
from askew.core.compat import tree_flatten, tree_leaves, tree_map
from askew.core.dataset import Dataset
from askew.core.errors import AskewError, DivergedError, first_line
from askew.core.recipe import Recipe
from askew.core.registry import Spec
from askew.core.server_piece import Aggregator, ServerChain, ServerContext, ServerPiece
from askew.core.tensors import Tree
from askew.engine.parallel import Parallel
from askew.engine.protocol import Chunk, Engine, Lane
from askew.engine.sequential import Sequential
from askew.engine.task import Task, build_task
from askew.engine.vectorised import Vectorised
from askew.rounds.round import one_round
from askew.rounds.simulation import Simulation

ROUNDS = 3
SMALL = Recipe(population="power_law(clients=6, exponent=1.0, min_examples=20)", rounds=ROUNDS, batch_size=32, fraction=0.7,
               model="mlp(hidden=[16])")  # unequal clients, some of whom are away in some rounds
REFERENCE = "one client after the other"


def check_piece(piece: ClientPiece | ServerPiece | str, beside: Sequence[ClientPiece | ServerPiece] = (), *, recipe: Recipe | None = None,
                data: Dataset | None = None, model: nn.Module | None = None, device: str = "cpu", tolerance: float = 1e-3,
                compiled: bool | None = None) -> None:
    """Raise `AssertionError`, in one line, where a client or server piece does not do what every engine relies on.

    - It is pure: it leaves its inputs as they are, gives the same twice, and keeps names, shapes and types.
    - Every form gives the same: clients in reverse order, in threads, all at once, two at a time, replayed, compiled.
    - A checkpoint holds all of its state and memory: a run that goes on from one gives the same bits.
    - Its numbers may be tensors: configurations that differ in one of them give together what each gives alone.
    - It trains in bf16.

    Args:
        piece: made by a function with the decorator `@askew.piece`, or such a call as a string, "momentum(beta=0.9)".
        beside: pieces that it needs besides, clients' or server's; the others are `sgd(0.1)` and `mean()`.
        recipe: what else is as it should be in the trial; default: `SMALL`.
        data, model: objects of your own in place of what the recipe names.
        device: "cpu" or "cuda".
        tolerance: how far apart two forms may be, as a share of a tensor's length; 1e-3 leaves room for sums in another order. A
            piece that rounds turns 1e-7 into a step, and needs more.
        compiled: whether to try the compiled form, which takes half a minute; default: where torch finds a compiler.

    Example:
        >>> askew.testing.check_piece("add_proximal(mu=0.1)", compiled=False)

        SCAFFOLD's client piece wants what its server piece sends:

        >>> askew.testing.check_piece(correct_drift(), [update_control()], compiled=False)
    """
    made = _made(piece)
    trial = _Trial(made.name, _with_piece(recipe or SMALL, made, [_made(p) for p in beside]), data, model, device, tolerance)
    with torch.random.fork_rng(devices=[]):
        _check_purity(trial, made)
        reference = _run(trial, Sequential, REFERENCE)
        for form, make in forms(device, compiled).items():
            _compare(trial, form, _run(trial, make, form), reference)
        _check_checkpoint(trial)
        for argument, values in _numbers(made).items():
            _check_together(trial, made, argument, values)
        _run(trial, _vectorised(precision="bf16"), "bf16")


@dataclass(frozen=True)
class _Trial:
    """What is tried.

    Args:
        name: of the piece.
    """

    name: str
    recipe: Recipe
    data: Dataset | None
    model: nn.Module | None
    device: str
    tolerance: float

    def task(self, recipe: Recipe | None = None) -> Task:
        return build_task(recipe or self.recipe, data=self.data, model=self.model, device=self.device)

    def fail(self, message: str) -> AssertionError:
        return AssertionError(f"{self.name}: {message}")


@dataclass(frozen=True)
class _Rounds:
    """What was seen of a run.

    Args:
        clients: per round, client -> (message, memory).
        models: per round, the server's model and the state of its pieces.
    """

    clients: list[dict[int, tuple[Tree, Tree]]]
    models: list[tuple[Tree, Tree]]


Make = Callable[[Task], Engine]


def _made(piece: ClientPiece | ServerPiece | str) -> ClientPiece | ServerPiece:
    if isinstance(piece, str):
        name = piece.partition("(")[0].strip()
        kind = next((kind for kind in ("client", "server") if name in registry.names(kind)), "client")
        return registry.build(kind, piece)
    if not isinstance(piece, ClientPiece | ServerPiece):
        raise AskewError(f"check_piece takes a client or server piece, or a call such as 'momentum(beta=0.9)', not {piece!r}")
    if piece.spec is None:
        raise AskewError("check_piece: the piece does not know how it was made; put @askew.piece('client') or ('server') on its function")
    return piece


def _with_piece(recipe: Recipe, piece: ClientPiece | ServerPiece, beside: Sequence[ClientPiece | ServerPiece]) -> Recipe:
    """The recipe with these pieces in their places."""
    pieces = [*beside, piece]
    clients = [p for p in pieces if isinstance(p, ClientPiece)]
    servers = [p for p in pieces if isinstance(p, ServerPiece)]
    optimiser: list[Any] = [p for p in clients if isinstance(p, Optimiser)] or ["sgd(lr=0.1)"]
    aggregator: list[Any] = [p for p in servers if isinstance(p, Aggregator)] or ["mean()"]
    before = [p for p in clients if isinstance(p, OnGradient)]
    behind = [p for p in clients if not isinstance(p, OnGradient | Optimiser)]
    return recipe.replace(step=[*before, *optimiser, *behind], upload=(),
                          server=[*aggregator, *(p for p in servers if not isinstance(p, Aggregator))])


def forms(device: str = "cpu", compiled: bool | None = None) -> dict[str, Make]:
    """The forms in which this machine can compute a round, beside one client after the other: name -> task -> engine.

    Args:
        compiled: whether the compiled form is among them; default: where torch finds a compiler.
    """
    made: dict[str, Make] = {"one client after the other, in reverse order": _Reversed}
    if device == "cpu":
        made["threads"] = lambda task: Parallel(task, threads=2)
    made |= {"all at once": _vectorised(), "two at a time": _vectorised(chunk_jobs=2), "replayed": _vectorised(graphed=True),
              "replayed, two at a time": _vectorised(graphed=True, chunk_jobs=2)}
    if compiled or (compiled is None and (device != "cpu" or can_compile())):
        made["compiled"] = _vectorised(graphed=True, compiled=True)
    return made


def can_compile() -> bool:
    """Whether torch can compile for this CPU: it wants g++ and Python's headers."""
    return shutil.which("g++") is not None and (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file()


def _vectorised(graphed: bool = False, compiled: bool = False, **options: Any) -> Make:
    return lambda task: Vectorised(task, graphed=graphed, compiled=compiled, **options)


class _Reversed(Sequential):
    """One client after the other, the last one first."""

    def train(self, lanes: Sequence[Lane]) -> Iterator[tuple[int, Chunk]]:
        return super().train([replace(lane, jobs=list(reversed(lane.jobs))) for lane in lanes])


class _Recorded:
    """An engine of which each client's message and memory are taken down."""

    def __init__(self, engine: Engine) -> None:
        self.name, self.one_at_a_time, self._engine = engine.name, engine.one_at_a_time, engine
        self.clients: dict[int, tuple[Tree, Tree]] = {}

    def train(self, lanes: Sequence[Lane]) -> Iterator[tuple[int, Chunk]]:
        for lane, chunk in self._engine.train(lanes):
            for k, job in enumerate(chunk.jobs):
                self.clients[job.client] = _row(chunk.message, k), _row(chunk.kept, k)
            yield lane, chunk


def _row(tree: Tree, k: int) -> Tree:
    return tree_map(lambda v: v[k].detach().clone(), tree)


def _run(trial: _Trial, make: Make, form: str) -> _Rounds:
    """All rounds in one form; whatever goes wrong is named with it."""
    task, seen = trial.task(), _Rounds([], [])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # an engine that falls back to a plainer form says so by a warning
        try:
            recorder = _Recorded(make(task))
            simulation = Simulation(task, recorder)
            for _ in range(task.recipe.rounds):
                recorder.clients = {}
                simulation.advance()
                entry = simulation.models[0]
                seen.clients.append(recorder.clients)
                seen.models.append((entry.model.params, entry.chain))
        except DivergedError as error:
            raise trial.fail(f"{form}: {error}") from None
        except (AskewError, AssertionError):
            raise
        except Exception as error:  # the piece's, torch's
            raise trial.fail(f"{form}: {first_line(error)}") from error
    return seen


def _compare(trial: _Trial, form: str, got: _Rounds, reference: _Rounds) -> None:
    """The first thing in which two runs differ, in the order in which it came about."""
    for number, (ours, theirs) in enumerate(zip(got.clients, reference.clients, strict=True)):
        for client, (message, kept) in theirs.items():
            where = f"{form}: round {number + 1}, client {client}"
            for what, tree, expected in (("message", ours[client][0], message), ("memory", ours[client][1], kept)):
                _assert_close(trial, f"{where}, {what}", tree, expected)
        for what, tree, expected in zip(("the server's model", "the server pieces' state"), got.models[number], reference.models[number],
                                        strict=True):
            _assert_close(trial, f"{form}: round {number + 1}, {what}", tree, expected)


def _assert_close(trial: _Trial, where: str, got: Tree, expected: Tree) -> None:
    """Tensor by tensor: apart by at most `tolerance` of its length, and 2e-5 of all of them, which is rounding."""
    ours, theirs = _named(got), _named(expected)
    if ours.keys() != theirs.keys():
        odd = sorted(ours.keys() ^ theirs.keys())[0]
        raise trial.fail(f"{where}: {odd} is there in one form and not in the other")
    whole = math.sqrt(sum(float(v.double().square().sum()) for v in theirs.values()))
    for name, v in theirs.items():
        if ours[name].dtype != v.dtype or ours[name].shape != v.shape:
            raise trial.fail(f"{where}: {name} is {_kind(ours[name])}, and {_kind(v)} {REFERENCE}")
        length, error = float(v.double().norm()), float((ours[name].double() - v.double()).norm())
        if not error <= trial.tolerance * length + 2e-5 * whole:
            raise trial.fail(f"{where}: {name} is {error / max(1e-30, length):.2g} of its length apart from {REFERENCE}")


def _named(tree: Tree, path: str = "") -> dict[str, Tensor]:
    """Its tensors by name."""
    if isinstance(tree, Tensor):
        return {path: tree}
    items = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
    return {name: v for key, part in items for name, v in _named(part, f"{path} {key}".strip()).items()}


def _kind(v: Tensor) -> str:
    return f"{str(v.dtype).removeprefix('torch.')} {list(v.shape)}"


def _check_purity(trial: _Trial, piece: ClientPiece | ServerPiece) -> None:
    """One run in which each of the piece's functions is called twice and its inputs are looked at again."""

    def watched(p: Any) -> Any:
        if p.spec != piece.spec or type(p) is not type(piece):
            return p
        names = ("keep", "enter", "begin", "update", "end") if isinstance(p, ClientPiece) else ("init", "update", "broadcast", "view")
        own = {name: getattr(p, name) for name in names}
        default = {field.name: field.default for field in dataclasses.fields(p)}
        changed: dict[str, Any] = {name: _watch(trial, name, act, p) for name, act in own.items() if act is not default[name]}
        made: Any = replace(p, **changed)
        object.__setattr__(made, "_spec", p.spec)
        return made

    task = trial.task()
    task = replace(task, client=ClientChain([watched(p) for p in task.client.pieces]),
                   server=ServerChain([watched(p) for p in task.server.pieces]))
    simulation = Simulation(task, Sequential(task))
    for _ in range(task.recipe.rounds):
        simulation.advance()


def _watch(trial: _Trial, name: str, act: Callable[..., Any], piece: ClientPiece | ServerPiece) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        given = [_inputs(value) for value in args]
        before = tree_map(torch.clone, given)
        result = act(*args)
        where = f"`{name}`" + next((f" of client {a.client} in round {int(a.round) + 1}" for a in args if isinstance(a, ClientContext)), "")
        if not _same(given, before):
            raise trial.fail(f"{where} changes what it is given; make new tensors instead of changing them in place")
        if not _same(result, act(*args)):
            raise trial.fail(f"{where} gives two results for the same inputs; keep nothing outside its state, and draw from ctx.key alone")
        _check_shapes(trial, where, name, args, result, piece)
        return result

    return call


def _inputs(value: Any) -> Tree:
    """The tensors that a piece could change."""
    if isinstance(value, ClientContext):
        return {"params": dict(value.params), "start": dict(value.start), "shared": dict(value.shared)}
    if isinstance(value, ServerContext):
        return {"params": dict(value.params), "still": dict(value.still or {})}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}  # a model
    return value


def _same(one: Any, other: Any) -> bool:
    ours, theirs = (tree_flatten(_inputs(value) if dataclasses.is_dataclass(value) else value) for value in (one, other))
    return ours[1] == theirs[1] and all(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) if isinstance(a, Tensor) else a == b
                                        for a, b in zip(ours[0], theirs[0], strict=True))


def _check_shapes(trial: _Trial, where: str, name: str, args: Sequence[Any], result: Any, piece: ClientPiece | ServerPiece) -> None:
    def like(what: str, got: Tree, expected: Tree) -> None:
        ours, theirs = ({key: _kind(v) for key, v in _named(tree).items()} for tree in (got, expected))
        if ours != theirs:
            odd = next(key for key in {**theirs, **ours} if ours.get(key) != theirs.get(key))
            raise trial.fail(f"{where} makes {what} {odd or ''} {ours.get(odd, 'nothing')} of {theirs.get(odd, 'nothing')}")

    for tree in tree_leaves(result if name in ("begin", "init", "keep") else ()):
        if not isinstance(tree, Tensor):
            raise trial.fail(f"{where} holds {tree!r}; state and memory are tensors, in dicts and tuples, so that they can be batched "
                             "and saved")
    if name == "update":
        ctx = args[2]
        like("the update's", result[0], ctx.params)
        like("its state's", result[1], args[1])
    if name == "end":
        message, kept = result
        like("the memory's", kept, args[2])
        added = [key for key in message if key not in args[0] and key not in piece.sends]
        if added:
            raise trial.fail(f"{where} adds {added[0]!r} to the message; say so: sends=[{added[0]!r}]")


def _check_checkpoint(trial: _Trial) -> None:
    """All rounds, and all rounds with a break before the last one."""
    tasks = [trial.task() for _ in range(3)]  # pieces made anew: what one has kept for itself is not there
    unbroken, broken, gone_on = (Simulation(task, Sequential(task)) for task in tasks)
    for _ in range(trial.recipe.rounds):
        unbroken.advance()
    for _ in range(trial.recipe.rounds - 1):
        broken.advance()
    file = io.BytesIO()
    torch.save(broken.state, file)
    file.seek(0)
    try:
        gone_on.state = torch.load(file, weights_only=True, map_location=trial.device)
    except Exception as error:  # what torch will not read
        raise trial.fail(f"a checkpoint cannot be read again: {first_line(error)}") from None
    gone_on.advance()
    if not _same(_lasting(gone_on), _lasting(unbroken)):
        raise trial.fail("a run that goes on from a checkpoint gives another result; keep all that lasts in state or memory")


def _lasting(simulation: Simulation) -> Tree:
    """Models, state and each client's memory; its rows may lie in another order."""
    clients = range(simulation.task.num_clients)
    entry = simulation.models[0]
    return entry.model.params, entry.chain, tuple(simulation.memory.row(0, client) for client in clients) if simulation.memory else ()


def _numbers(piece: ClientPiece | ServerPiece) -> dict[str, list[float]]:
    """Arguments that were given a fraction, with values to try beside each other."""
    kind, spec = "client" if isinstance(piece, ClientPiece) else "server", _spec(piece)
    found: dict[str, list[float]] = {}
    for name, value in spec.args.items():
        if isinstance(value, float) and value and math.isfinite(value):
            values = [value, 0.5 * value, 0.75 * value, 0.9 * value]
            try:
                for other in values:
                    registry.build(kind, spec.with_args(**{name: other}))
            except AskewError:
                continue
            found[name] = values
    return found


def _spec(piece: ClientPiece | ServerPiece) -> Spec:
    assert piece.spec is not None, "_made has checked that"
    return piece.spec


def _check_together(trial: _Trial, piece: ClientPiece | ServerPiece, argument: str, values: Sequence[float]) -> None:
    """Configurations that differ in one number of the piece: together, and each alone."""
    field = "step" if isinstance(piece, ClientPiece) else "server"
    recipes = [trial.recipe.replace(**{field: [spec.with_args(**{argument: value}) if spec == piece.spec else spec
                                               for spec in getattr(trial.recipe, field)]}) for value in values]
    tasks = [trial.task(recipe) for recipe in recipes]
    where = f"{argument} = {', '.join(f'{value:g}' for value in values)} together"
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            engine = Vectorised(tasks[0], graphed=False, compiled=False, runs=len(tasks))
            runs = [Simulation(task, engine) for task in tasks]
            for _ in range(trial.recipe.rounds):
                gatherings = [run.begin() for run in runs]
                for run, gathering, made in zip(runs, gatherings, one_round(gatherings, engine), strict=True):
                    run.complete(run.launched(gathering, made))
        except (AskewError, AssertionError):
            raise
        except Exception as error:  # the piece's, torch's
            raise trial.fail(f"{where}: {first_line(error)}") from error
    for task, value, run in zip(tasks, values, runs, strict=True):
        alone = Simulation(task, Sequential(task))
        for _ in range(trial.recipe.rounds):
            alone.advance()
        _assert_close(trial, f"{where}, {argument} = {value:g}", _lasting(run), _lasting(alone))

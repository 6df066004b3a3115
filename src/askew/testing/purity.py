"""Whether a piece leaves its inputs alone, gives the same twice, and keeps names, shapes and types."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from askew.core.client_piece import ClientChain, ClientContext, ClientPiece
from askew.core.compat import tree_flatten, tree_leaves, tree_map
from askew.core.server_piece import ServerChain, ServerContext, ServerPiece
from askew.core.tensors import Tree, form_of
from askew.engine.sequential import Sequential
from askew.rounds.simulation import Simulation
from askew.testing.trial import Trial, named

CLIENT = ("keep", "enter", "begin", "update", "end")
SERVER = ("init", "update", "broadcast", "view")


def check_purity(trial: Trial, piece: ClientPiece | ServerPiece) -> None:
    """One run in which each of the piece's functions is called twice and its inputs are looked at again."""

    def watched(p: Any) -> Any:
        return _watched(trial, p) if p.spec == piece.spec and type(p) is type(piece) else p

    task = trial.task()
    task = dataclasses.replace(task, client=ClientChain([watched(p) for p in task.client.pieces]),
                               server=ServerChain([watched(p) for p in task.server.pieces]))
    simulation = Simulation(task, Sequential(task))
    for _ in range(task.recipe.rounds):
        simulation.advance()


def _watched(trial: Trial, piece: Any) -> Any:
    """The piece with its own functions under watch; those that it leaves out stay as they are."""
    default = {field.name: field.default for field in dataclasses.fields(piece)}
    functions = {name: getattr(piece, name) for name in (CLIENT if isinstance(piece, ClientPiece) else SERVER)}
    watched = dataclasses.replace(piece, **{name: _watch(trial, name, act, piece) for name, act in functions.items()
                                         if act is not default[name]})
    object.__setattr__(watched, "_spec", piece.spec)
    return watched


def _watch(trial: Trial, name: str, act: Callable[..., Any], piece: ClientPiece | ServerPiece) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        given = [_tensors(value) for value in args]
        before = tree_map(torch.clone, given)
        result = act(*args)
        whose = next((a for a in args if isinstance(a, ClientContext)), None)
        where = f"`{name}`" + (f" of client {whose.client} in round {int(whose.round) + 1}" if whose else "")
        if not same(given, before):
            raise trial.failure(f"{where} changes what it is given; make new tensors instead of changing them in place")
        if not same(_tensors(result), _tensors(act(*args))):
            raise trial.failure(f"{where} gives two results for the same inputs; keep nothing outside its state, and "
                                "draw from ctx.key alone")
        _check_shapes(trial, where, name, args, result, piece)
        return result

    return call


def _tensors(value: Any) -> Tree:
    """Those that a piece is given and could change."""
    if isinstance(value, ClientContext):
        return {"params": dict(value.params), "start": dict(value.start), "shared": dict(value.shared)}
    if isinstance(value, ServerContext):
        return {"params": dict(value.params), "still": dict(value.still or {})}
    if dataclasses.is_dataclass(value):  # a model
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value


def same(one: Tree, other: Tree) -> bool:
    """Bit for bit; NaN equals NaN."""
    (one_leaves, shape), (other_leaves, expected) = tree_flatten(one), tree_flatten(other)
    return shape == expected and all(
        torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) if isinstance(a, Tensor) else a == b
        for a, b in zip(one_leaves, other_leaves, strict=True))


def _check_shapes(trial: Trial, where: str, name: str, args: Sequence[Any], result: Any,
                  piece: ClientPiece | ServerPiece) -> None:
    def alike(what: str, got: Tree, expected: Tree) -> None:
        kinds, expected_kinds = ({key: form_of(v) for key, v in named(tree).items()} for tree in (got, expected))
        if kinds != expected_kinds:
            odd = next(key for key in {**expected_kinds, **kinds} if kinds.get(key) != expected_kinds.get(key))
            now, before = kinds.get(odd, "nothing"), expected_kinds.get(odd, "nothing")
            raise trial.failure(f"{where} makes {what} {odd} {now} of {before}")

    if name in ("begin", "init", "keep"):
        for value in tree_leaves(result):
            if not isinstance(value, Tensor):
                raise trial.failure(f"{where} holds {value!r}; state and memory are tensors, in dicts and tuples, so "
                                    "that they can be batched and saved")
    if name == "update":
        alike("the update's", result[0], args[2].params)
        alike("its state's", result[1], args[1])
    if name == "end":
        message, kept = result
        alike("the memory's", kept, args[2])
        added = [key for key in message if key not in args[0] and key not in piece.sends]
        if added:
            raise trial.failure(f"{where} adds {added[0]!r} to the message; say so: sends=[{added[0]!r}]")

"""askew's pieces give the numbers of vectors/, which numpy computed from the papers' equations without askew."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fedcd_by_dicts import accuracies_for, as_dicts
from torch import Tensor

from askew.core import rng
from askew.core.client_piece import ClientChain, ClientContext
from askew.core.cohort import Cohort
from askew.core.compat import tree_map
from askew.core.recipe import Recipe
from askew.core.registry import build, essential, parse
from askew.core.server_piece import ServerChain, ServerContext
from askew.core.statistic import Senders
from askew.core.tensors import ModelState, Params, add, subtract
from askew.pieces.statistic import MeanOf, MeanPerStep, SignSum
from askew.pieces.statistic.mean_loss import MeanLoss

FOLDER = Path(__file__).parents[2] / "vectors"
NAMES = [entry["name"] for entry in json.loads((FOLDER / "index.json").read_text())["files"]
         if entry["name"] != "fedcd"]
# What a chain's state and a client's memory hold, piece by piece, under the letters of the files.
LETTERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "momentum": lambda s: {"v": s}, "adam": lambda s: s, "yogi": lambda s: s, "adagrad": lambda s: s,
    "update_control": lambda s: {"c": s}, "correct_dynamically": lambda s: {"h": s},
    "evaluate_average": lambda s: {"average": s}, "sgd": lambda s: {"v": s}, "correct_drift": lambda s: {"c": s},
    "plateau": lambda s: {name: v for name, v in s.items() if name != "best" or v.isfinite()},
    "add_dynamic_regulariser": lambda s: {"h": s}, "stay_local": lambda s: s,
}


class Vector:
    """One file, and its federation in float32."""

    def __init__(self, name: str) -> None:
        self.data = json.loads((FOLDER / f"{name}.json").read_text())
        self.client = ClientChain([build("client", spec) for spec in self.data["client"]])
        self.server = ServerChain([build("server", spec) for spec in self.data["server"]])
        self.start = self.tensors(self.data["model"])
        self.draws: list[float] = []

    def tensors(self, named: dict[str, list[float]]) -> Params:
        return {name: torch.tensor(v).view(self.data["shapes"].get(name, [-1])) for name, v in named.items()}

    def gradient(self, owner: dict[str, Any], w: Params, step: int) -> Params:
        a, target = self.tensors(owner["curvature"]), self.tensors(owner["targets"][step])
        return {name: a[name] * (v - target[name]) for name, v in w.items()}

    def train_at_server(self, params: Params, epochs: int) -> Params:
        owner, chain = self.data["server_examples"], self.client.optimiser
        ctx = ClientContext(params, params, 0)
        state = chain.begin(chain.keep(ModelState(params)), ctx)
        for step in list(range(len(owner["targets"]))) * epochs:
            u, state = chain.update(self.gradient(owner, ctx.params, step), state, ctx)
            ctx = replace(ctx, params=add(ctx.params, u))
        return ctx.params


@pytest.fixture(params=NAMES)
def vector(request: pytest.FixtureRequest) -> Vector:
    return Vector(request.param)


@pytest.fixture
def given_draws(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[float]], None]:
    """Random numbers of the files in the place of askew's; those that are not asked for are left."""
    coming: list[float] = []

    def take(key: Tensor, count: int) -> Tensor:
        drawn, coming[:] = coming[:count], coming[count:]
        assert len(drawn) == count
        return torch.tensor(drawn)

    def give(draws: Sequence[float]) -> None:
        coming[:] = draws

    monkeypatch.setattr(rng, "normal", take)
    monkeypatch.setattr(rng, "uniform", take)
    return give


def same(ours: Any, theirs: Any, where: str) -> None:
    """Trees of tensors against trees of lists, to what float32 can tell."""
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs), where
        for name in theirs:
            same(ours[name], theirs[name], f"{where}, {name}")
    else:
        values = torch.as_tensor(ours, dtype=torch.float64).flatten()
        np.testing.assert_allclose(values, np.ravel(theirs), rtol=1e-5, atol=2e-6, err_msg=where)


def by_letters(chain: ClientChain | ServerChain, states: Sequence[Any]) -> dict[str, Any]:
    """Piece -> what it holds; pieces that hold nothing are left out."""
    held = zip(chain.pieces, states, strict=True)
    return {p.name: LETTERS[p.name](s) for p, s in held if not (isinstance(s, tuple) and not s)}


def all_draws(entry: dict[str, Any]) -> list[float]:
    return [v for tensor in entry.get("draws", {}).values() for v in tensor]


def prefixes(chain: Any, states: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """The chain's first piece, its first two, ..., with their states."""
    for i in range(1, len(chain.pieces) + 1):
        yield type(chain)(chain.pieces[:i]), tuple(states[:i])


def test_every_number_of_every_round(vector: Vector, given_draws: Callable[[Sequence[float]], None]) -> None:
    data, client, server = vector.data, vector.client, vector.server
    memories = [client.keep(ModelState(vector.start)) for _ in data["clients"]]
    w, state = vector.start, server.init(vector.start)
    for entry in data["rounds"]:
        where = f"{data['name']}, round {entry['round']}"
        shared = server.broadcast(state)
        same(w, entry["model_before"], where)
        same(shared, entry["broadcast"], f"{where}, broadcast")
        cohort = Cohort(w, server.needs)
        for local in entry["local"]:
            message = client_round(vector, local, w, entry["round"], shared, memories, given_draws,
                                   f"{where}, client {local['client']}")
            owner = data["clients"][local["client"]]
            numbers = (torch.tensor([float(v)], dtype=torch.float64)
                       for v in (owner["examples"], len(local["steps"]), owner["score"], local["loss"]))
            senders = Senders([local["client"]], *numbers)
            cohort.add(tree_map(lambda v: v[None], message), senders, server.weigh(senders))
        w, state = server_round(vector, entry, w, state, cohort, given_draws, where)


def client_round(vector: Vector, local: dict[str, Any], w: Params, round: int, shared: Any, memories: list[Any],
                 give: Callable[[Sequence[float]], None], where: str) -> Any:
    chain, k = vector.client, local["client"]
    owner, kept = vector.data["clients"][k], memories[k]
    same(by_letters(chain, kept), local["memory_before"], f"{where}, memory before")
    start = chain.enter(ModelState(w), kept).params
    same(start, local["start"], f"{where}, start")
    ctx = ClientContext(start, start, round, 0, len(local["steps"]), k, owner["examples"], shared,
                        lambda: torch.tensor(0))
    state = chain.begin(kept, ctx)
    for number, step in enumerate(local["steps"]):
        here, ctx = f"{where}, step {number}", replace(ctx, step=number)
        gradient = vector.gradient(owner, ctx.params, number)
        same(ctx.params, step["weights"], f"{here}, weights")
        same(gradient, step["gradient"], f"{here}, gradient")
        for (part, before), after in zip(prefixes(chain, state), [*step["after"], *[None] * len(chain.pieces)],
                                         strict=False):
            give(all_draws(step))
            u = part.update(gradient, before, ctx)[0]
            if after is not None:  # pieces behind act on the upload
                assert part.pieces[-1].name == after["piece"]
                same(u, after["value"], f"{here}, after {after['piece']}")
        give(all_draws(step))
        u, state = chain.update(gradient, state, ctx)
        same(u, step["update"], f"{here}, update")
        ctx = replace(ctx, params=add(ctx.params, u))
        same(ctx.params, step["weights_after"], f"{here}, weights after")
    give(all_draws(local))
    message, memories[k] = chain.end({"update": subtract(ctx.params, start), "buffers": {}}, state, kept,
                                     replace(ctx, step=ctx.steps))
    same({name: tree for name, tree in message.items() if name != "buffers"}, local["sent"], f"{where}, sent")
    same(by_letters(chain, memories[k]), local["memory_after"], f"{where}, memory after")
    return message


def server_round(vector: Vector, entry: dict[str, Any], w: Params, state: Any, cohort: Cohort,
                 give: Callable[[Sequence[float]], None], where: str) -> tuple[Params, Any]:
    chain, expected = vector.server, entry["server"]
    same(cohort.weights, expected["weights"], f"{where}, weights")
    for name, value in expected["statistics"].items():
        same(statistic(cohort, name, vector, value), value, f"{where}, {name}")
    same(by_letters(chain, state), expected["state_before"], f"{where}, state before")
    ctx = ServerContext(w, entry["round"], len(vector.data["clients"]), torch.tensor(0), cohort, vector.train_at_server)
    for (part, before), after in zip(prefixes(chain, state), expected["after"], strict=True):
        give(all_draws(expected))
        assert part.pieces[-1].name == after["piece"]
        same(part.update({}, before, ctx)[0], after["value"], f"{where}, after {after['piece']}")
    give(all_draws(expected))
    u, state = chain.update({}, state, ctx)
    same(u, expected["update"], f"{where}, update")
    same(by_letters(chain, state), expected["state_after"], f"{where}, state after")
    w = add(w, u)
    same(w, entry["model_after"], f"{where}, model after")
    same(chain.view(w, state), entry["evaluated"], f"{where}, evaluated")
    return w, state


def statistic(cohort: Cohort, name: str, vector: Vector, expected: Any) -> Any:
    """The statistic of that name in the files."""
    if name in ("mean_norm", "norm_of_mean"):  # of the whole model, or one per tensor
        groups = [None] if len(expected) == 1 else [[tensor] for tensor in vector.start]
        return [float(getattr(cohort, name)(group)) for group in groups]
    if name == "mean_squared_norm":
        return (cohort.lengths.square() * cohort.weights).sum()
    if name in ("mean_per_step", "mean_walk"):
        needed = next(s for s in vector.server.needs if isinstance(s, MeanPerStep))
        return cohort[needed][name == "mean_walk"]
    return cohort[{"sign_sum": SignSum(), "mean_control": MeanOf("control"), "mean_loss": MeanLoss()}[name]]


def test_the_pieces_are_the_method(vector: Vector) -> None:
    data = vector.data
    if data["method"] is None:
        return
    recipe = build("method", data["method"], base=Recipe(client=(data["base_step"],)))
    for kind, specs, listed in (("client", recipe.client, data["client"]),
                                ("server", recipe.server, data["server"])):
        assert [str(essential(kind, spec)) for spec in specs] == [str(essential(kind, parse(kind, text)))
                                                                  for text in listed]


def test_scores_clones_and_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.loads((FOLDER / "fedcd.json").read_text())
    pool = build("pool", data["pool"])
    state, key = pool.init(data["devices"]), torch.tensor(0)
    for entry in data["rounds"]:
        drawn = {int(rng.fold(key, device)): draws for device, draws in enumerate(entry["draws"])}
        monkeypatch.setattr(rng, "normal", lambda keys, count, drawn=drawn: torch.tensor(
            [drawn[int(k)] for k in keys]).view(-1, count))
        accuracies = [{int(m): a for m, a in device.items()} for device in entry["accuracies"]]
        state, changes = pool.after_round(state, accuracies_for(pool, state, accuracies), entry["round"], key)
        where = f"fedcd, round {entry['round']}"
        for name in ("measured", "scores", "sent"):
            for ours, theirs in zip(as_dicts(state)[name], entry[name], strict=True):
                same({str(m): v for m, v in ours.items()}, theirs, f"{where}, {name}")
        assert [list(pair) for pair in changes.clones] == entry["clones"]
        assert list(changes.deleted) == entry["deleted"]
        assert list(pool.choice(state)) == entry["choice"]
        trainers = pool.trainers(state, range(data["devices"]))
        assert {str(m): list(who) for m, who in trainers.items()} == entry["trainers"]
        for model, who in entry["trainers"].items():
            same(pool.scores(state, int(model), who), [entry["sent"][device][model] for device in who], where)

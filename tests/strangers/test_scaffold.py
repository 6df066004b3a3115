"""SCAFFOLD, by somebody who has read docs/add-a-method.md: two pieces, and the paper's loop in plain PyTorch."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache

import pytest
import torch
import torch.nn.functional as F

import askew
from askew.core import rng
from askew.engine.build import build_task
from askew.engine.local import batches
from askew.engine.sample import sample
from askew.testing import check_piece

LR, N, ROUNDS = 0.2, 6, 3


@askew.piece("client")
def with_variates(lr: float) -> askew.OnGradient:
    """y <- y - lr (g - c_i + c);  c_i+ = c_i - c + (x - y) / (K lr)."""

    def keep(model):
        return {name: torch.zeros_like(v) for name, v in model.params.items()}

    def update(g, c_i, ctx):
        c = ctx.shared["variate"]
        return {name: v - c_i[name] + c[name] for name, v in g.items()}, c_i

    def end(message, state, c_i, ctx):
        c = ctx.shared["variate"]
        new = {name: c_i[name] - c[name] - u / (ctx.steps * lr) for name, u in message["update"].items()}
        return {**message, "variate_change": {name: v - c_i[name] for name, v in new.items()}}, new

    return askew.OnGradient(update, keep, begin=lambda c_i, ctx: c_i, end=end, sends=["variate_change"],
                            wants=["variate"])


@dataclass(frozen=True)
class SumOfChanges(askew.Statistic):
    """The sum over the round's clients of c_i+ - c_i."""

    def add(self, total, message, senders):
        new = {name: v.double().sum(dim=0) for name, v in message["variate_change"].items()}
        return new if total is None else self.merge(total, new)

    def merge(self, a, b):
        return {name: a[name] + b[name] for name in a}

    def value(self, total):
        return {name: v.float() for name, v in total.items()}


@askew.piece("server")
def keep_variate() -> askew.ServerPiece:
    """c <- c + (1 / N) sum of the changes."""

    def update(u, c, ctx):
        change = ctx.cohort[SumOfChanges()]
        return u, {name: v + change[name] / ctx.clients for name, v in c.items()}

    return askew.ServerPiece(update, lambda params: {name: torch.zeros_like(v) for name, v in params.items()},
                             needs=[SumOfChanges()], broadcast=lambda c: {"variate": c}, sends=["variate"],
                             wants=["variate_change"])


RECIPE = askew.Recipe(population=f"power_law(clients={N}, exponent=1.0, min_examples=20) + subset(0.25)", fraction=0.7,
                      batch_size=32, rounds=ROUNDS, model="mlp(hidden=[16])",
                      client=[with_variates(LR), f"sgd(lr={LR})"], server=["mean('uniform')", keep_variate()])


@cache
def plain():
    """Algorithm 1, option II, of Karimireddy et al. 2020."""
    task = build_task(RECIPE)
    x, data = copy.deepcopy(task.module), task.data.train
    c = [torch.zeros_like(p) for p in x.parameters()]
    c_i = [[torch.zeros_like(p) for p in x.parameters()] for _ in range(N)]
    for number in range(ROUNDS):
        chosen, moves, changes = sample(task, number), [], []
        for i in chosen:
            y, steps = copy.deepcopy(x), 0
            for batch in batches(torch.from_numpy(task.population.train[i]), 1, 32, rng.key(0, "client", number, i)):
                loss = F.cross_entropy(y(data.x[batch].float() / 255), data.y[batch])
                gradients = torch.autograd.grad(loss, list(y.parameters()))
                with torch.no_grad():
                    for p, g, theirs, everyone in zip(y.parameters(), gradients, c_i[i], c, strict=True):
                        p -= LR * (g - theirs + everyone)
                steps += 1
            with torch.no_grad():
                new = [theirs - everyone + (a - b) / (steps * LR)
                       for theirs, everyone, a, b in zip(c_i[i], c, x.parameters(), y.parameters(), strict=True)]
                moves.append([b - a for a, b in zip(x.parameters(), y.parameters(), strict=True)])
            changes.append([a - b for a, b in zip(new, c_i[i], strict=True)])
            c_i[i] = new
        with torch.no_grad():
            for p, *deltas in zip(x.parameters(), *moves, strict=True):
                p += sum(deltas) / len(chosen)
            c = [v + sum(deltas) / N for v, *deltas in zip(c, *changes, strict=True)]
    return x.state_dict()


def test_it_is_the_papers_loop(train):
    got = train(RECIPE)
    for name, v in plain().items():
        torch.testing.assert_close(got[name], v, atol=5e-5, rtol=1e-3)


@pytest.mark.slow
def test_check_piece():
    check_piece(with_variates(0.1), ["mean('uniform')", keep_variate()], recipe=RECIPE, compiled=False)
    check_piece(keep_variate(), [with_variates(0.1)], recipe=RECIPE, compiled=False)

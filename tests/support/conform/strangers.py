"""Pieces as a stranger would write them: state of all kinds, memory, messages, statistics."""

from __future__ import annotations

import torch

from askew.core.client_piece import ClientContext, ClientPiece, Message, OnGradient, OnUpdate, Optimiser
from askew.core.registry import piece
from askew.core.server_piece import Aggregator, ServerContext, ServerPiece
from askew.core.tensors import ModelState, Params, Tree, add, subtract, zeros_like
from askew.pieces.statistic import Everything, MeanOf


@piece("client")
def adam_from_one(lr: float = 0.01, beta1: float = 0.9, beta2: float = 0.99) -> Optimiser:
    """Adam that carries beta^t along in its state: 1 before the first step, as bias correction wants it."""

    def begin(kept: Tree, ctx: ClientContext) -> Tree:
        one = next(iter(ctx.params.values())).new_ones(())
        return {"m": zeros_like(ctx.params), "v": zeros_like(ctx.params), "powers": (one, one.clone())}

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        m = {name: beta1 * state["m"][name] + (1 - beta1) * g for name, g in u.items()}
        v = {name: beta2 * state["v"][name] + (1 - beta2) * g * g for name, g in u.items()}
        p1, p2 = state["powers"][0] * beta1, state["powers"][1] * beta2
        # A large eps, so that gradients of mere rounding (of a bias before BatchNorm) stay small.
        step = {name: -lr * (m[name] / (1 - p1)) / ((v[name] / (1 - p2)).sqrt() + 1e-2) for name in u}
        return step, {"m": m, "v": v, "powers": (p1, p2)}

    return Optimiser(update, begin=begin)


@piece("client")
def pull_to_first(lr: float = 0.1, strength: float = 0.2) -> Optimiser:
    """SGD with a pull to the weights that its state was given at the start, coordinate by coordinate."""

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        return {name: -lr * (g + strength * (ctx.params[name] - state[name] + 0.01)) for name, g in u.items()}, state

    return Optimiser(update, begin=lambda kept, ctx: {name: v.clone() for name, v in ctx.params.items()})


@piece("client")
def step_by_count(lr: float = 0.1) -> Optimiser:
    """SGD with a rate of lr / t, where t is counted in the state from 1 on, as whole numbers."""

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        return {name: -lr / state["t"] * g for name, g in u.items()}, {"t": state["t"] + 1}

    def begin(kept: Tree, ctx: ClientContext) -> Tree:
        return {"t": torch.ones((), dtype=torch.int64, device=next(iter(ctx.params.values())).device)}

    return Optimiser(update, begin=begin)


@piece("client")
def step_by_rounds(lr: float = 0.2) -> Optimiser:
    """SGD with a rate of lr / (1 + rounds that this client has trained), counted in its memory as integers."""

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        return {name: -lr / (1 + state) * g for name, g in u.items()}, state

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        return message, kept + 1

    return Optimiser(update,
                     lambda model: torch.zeros((), dtype=torch.int64, device=next(iter(model.params.values())).device),
                     begin=lambda kept, ctx: kept, end=end)


@piece("client")
def pull_by_count(strength: float = 0.02) -> OnGradient:
    """A pull to the start that grows with the steps that the client has taken in all of its rounds."""

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        return {name: g + strength * state * (ctx.params[name] - ctx.start[name]) for name, g in u.items()}, state + 1

    return OnGradient(update, lambda model: next(iter(model.params.values())).new_zeros(()),
                      begin=lambda kept, ctx: kept, end=lambda message, state, kept, ctx: (message, state))


@piece("client")
def with_a_rate_that_is_kept(rate: float = 0.5) -> OnGradient:
    """Memory that is read and never changed."""

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        return {name: state * g for name, g in u.items()}, state

    return OnGradient(update, lambda model: next(iter(model.params.values())).new_full((), rate),
                      begin=lambda kept, ctx: kept)


@piece("client")
def subtract_control(lr: float = 0.1) -> OnGradient:
    """SCAFFOLD's clients: gradient - c_k + c; after K steps c_k becomes c_k - c + (start - trained) / (K lr)."""

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        return {name: g - state[name] + ctx.shared["control"][name] for name, g in u.items()}, state

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        common, walked = ctx.shared["control"], ctx.steps * lr
        new = {name: c - common[name] + (ctx.start[name] - ctx.params[name]) / walked for name, c in kept.items()}
        return {**message, "control": subtract(new, kept)}, new

    return OnGradient(update, lambda model: zeros_like(model.params), begin=lambda kept, ctx: kept, end=end)


@piece("server")
def add_up_control(clients: int = 6) -> ServerPiece:
    """SCAFFOLD's server: c <- c + (m / K) mean of the changes of c_k, sent with the model."""
    changes = MeanOf("control")

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        share = len(ctx.cohort) / clients
        return u, add(state, {name: share * v for name, v in ctx.cohort[changes].items()})

    return ServerPiece(update, zeros_like, needs=[changes], broadcast=lambda state: {"control": state})


@piece("client")
def stay_at_home(part: str) -> ClientPiece:
    """Weights whose names begin so never leave the client: a round begins with those that its last one ended with."""

    def keep(model: ModelState) -> Tree:
        return {name: v for name, v in model.params.items() if name.startswith(part)}

    def enter(model: ModelState, kept: Tree) -> ModelState:
        return ModelState({**model.params, **kept}, model.buffers)

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        sent = {name: torch.zeros_like(v) if name in kept else v for name, v in message["update"].items()}
        return {**message, "update": sent}, {name: ctx.params[name].clone() for name in kept}

    return ClientPiece(keep=keep, enter=enter, end=end)


@piece("client")
def by_facts() -> OnUpdate:
    """Scales by all that is known of a client; tells at the end how many steps it has taken."""

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        by = (1 + 0.1 * ctx.client) * (1 - 0.5 * ctx.step / ctx.steps) / (1 + 0.001 * ctx.examples) / (1 + ctx.round)
        return {name: by * v for name, v in u.items()}, state

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        return {**message, "update": {name: v * (1 + 0.01 * ctx.step) for name, v in message["update"].items()}}, kept

    return OnUpdate(update, end=end)


@piece("client")
def begin_by_facts() -> OnGradient:
    """A factor of each client's own, from its number and examples, fixed as its round begins; `end` knows its step."""

    def begin(kept: Tree, ctx: ClientContext) -> Tree:
        return next(iter(ctx.params.values())).new_ones(()) / (1 + 0.2 * ctx.client + 0.001 * ctx.examples)

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        return {**message, "update": {name: v / (1 + 0.02 * ctx.step) for name, v in message["update"].items()}}, kept

    return OnGradient(lambda u, state, ctx: ({name: state * g for name, g in u.items()}, state), begin=begin, end=end)


@piece("client")
def tell() -> ClientPiece:
    """A number, a whole number and tensors in the message, at different depths."""

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        like = next(iter(ctx.params.values()))
        told = {"steps": like.new_zeros(()) + ctx.steps,
                "client": torch.zeros_like(like, dtype=torch.int64).sum() + ctx.client,
                "trained": ({name: v.abs() for name, v in ctx.params.items()},)}
        return {**message, "told": told}, kept

    return ClientPiece(end=end)


@piece("server")
def scale_by_what_is_told() -> ServerPiece:
    """u <- u (1 + |mean of the trained weights|) mean(steps) / steps of the last client."""
    by_examples, all_of_it = MeanOf("told", "examples"), Everything("told")

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        means, rows = ctx.cohort[by_examples], ctx.cohort[all_of_it]
        assert rows["client"].tolist() == ctx.cohort.clients
        by = means["steps"] / rows["steps"][-1]
        return {name: v * (1 + means["trained"][0][name]) * by for name, v in u.items()}, state

    return ServerPiece(update, needs=[by_examples, all_of_it])


@piece("client")
def pull_to_shared(strength: float = 0.1) -> OnGradient:
    """A pull to what the server sends beside the model."""

    def update(u: Params, state: Tree, ctx: ClientContext) -> tuple[Params, Tree]:
        average, rounds = ctx.shared["average"], ctx.shared["rounds"]
        return {name: g + strength * (ctx.params[name] - average[name]) / (1 + rounds) for name, g in u.items()}, state

    return OnGradient(update)


@piece("server")
def send_average() -> ServerPiece:
    """The average of all global models so far, sent with the model, and of how many."""

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        average, rounds = state
        new = add(ctx.params, u)
        return u, ({name: (rounds * v + new[name]) / (rounds + 1) for name, v in average.items()}, rounds + 1)

    return ServerPiece(update, lambda params: (dict(params), next(iter(params.values())).new_ones(())),
                       broadcast=lambda state: {"average": state[0], "rounds": state[1]})


@piece("server")
def coordinate_median() -> Aggregator:
    """The median of the clients' updates, coordinate by coordinate."""
    everything = Everything()

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        return {name: v.median(dim=0).values for name, v in ctx.cohort[everything].items()}, state

    return Aggregator(update, needs=[everything])


@piece("server")
def mean_of_everything() -> Aggregator:
    """The mean, from all updates: the rows and the weights are in the order of the clients' numbers."""
    everything = Everything()

    def update(u: Params, state: Tree, ctx: ServerContext) -> tuple[Params, Tree]:
        weights = ctx.cohort.weights
        return {name: torch.tensordot(weights, v.double(), dims=1).float()
                for name, v in ctx.cohort[everything].items()}, state

    return Aggregator(update, needs=[everything])

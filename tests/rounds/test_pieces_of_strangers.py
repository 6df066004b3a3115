"""Pieces and plans that strangers wrote: the same numbers in every engine and sweep, or one clear line."""

import re

import pytest
import torch

import askew
from askew.core import registry
from askew.core.server_piece import by_examples
from askew.runs.sweep import grid, sweep

BASE = askew.Recipe(population="iid(clients=6)", fraction=0.5, rounds=3, batch_size=32, model="mlp(hidden=[16])")
M = askew.methods


@askew.piece("client")
def _decay_matrices(wd: float = 0.5) -> askew.OnGradient:
    """No weight decay on biases."""
    return askew.OnGradient(lambda u, s, ctx: ({n: g + wd * ctx.params[n] if g.ndim > 1 else g for n, g in u.items()},
                                               s))


@askew.piece("client")
def _by_fan_in(a: float = 1.0) -> askew.OnGradient:
    return askew.OnGradient(lambda u, s, ctx: ({n: a * g / g.shape[-1] ** 0.5 for n, g in u.items()}, s))


@askew.piece("server")
def _trust_the_odd() -> askew.Aggregator:
    """By the clients' numbers."""
    return askew.Aggregator(lambda u, s, ctx: (ctx.cohort.mean, s),
                            weigh=lambda senders: torch.tensor([1.0 if k % 2 else 0.1 for k in senders.clients],
                                                               dtype=torch.float64))


@askew.piece("server")
def _by_the_first() -> askew.ServerPiece:
    return askew.ServerPiece(lambda u, s, ctx: ({n: v * (1 + 0.1 * ctx.cohort.clients[0]) for n, v in u.items()}, s))


def close(one, other):
    for name, v in other.items():
        torch.testing.assert_close(one[name], v, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("piece", ["_decay_matrices", "_by_fan_in"])
def test_a_piece_that_looks_at_shapes(piece):
    recipe = BASE.replace(client=[f"{piece}(0.5)", "sgd(lr=0.1)"])
    close(askew.run(recipe, engine="vectorised").model, askew.run(recipe, engine="sequential").model)
    key = "wd" if piece == "_decay_matrices" else "a"
    recipes = grid(recipe, {f"{piece}.{key}": [0.3, 0.6]})
    for result, one in zip(sweep(recipes, engine="vectorised"), recipes, strict=True):
        close(result.model, askew.run(one, engine="sequential").model)


@pytest.mark.parametrize("server", [["_trust_the_odd()"], ["mean()", "_by_the_first()"]])
@pytest.mark.parametrize("axes", [{"sgd.lr": [0.05, 0.1, 0.2, 0.3]}, {"seed": [0, 1, 2, 3]}])
def test_a_server_that_knows_its_clients_by_number(server, axes):
    recipes = grid(BASE.replace(server=server), axes)
    for result, one in zip(sweep(recipes, engine="vectorised"), recipes, strict=True):
        close(result.model, askew.run(one, engine="sequential").model)


@pytest.mark.parametrize("combined", [
    lambda: M.scaffold(M.median(BASE)), lambda: M.dp_fedavg(M.trimmed_mean(BASE)), lambda: M.fedexp(M.median(BASE)),
    lambda: M.fednova(M.median(BASE)), lambda: M.scaffold(M.fednova(BASE)), lambda: M.scaffold(M.fedcd(BASE))])
def test_a_method_is_not_silently_dropped(combined):
    with pytest.raises(askew.AskewError, match="both say how updates become one; leave a method out"):
        combined()


def test_a_robust_average_takes_the_plain_ones_place():
    assert [spec.name for spec in M.median(M.scaffold(BASE)).server] == ["median", "update_control"]
    assert M.scaffold(M.feddyn(BASE)).server[0] == M.scaffold(BASE).server[0]


def test_scaffold_twice_is_refused():
    with pytest.raises(askew.AskewError, match="two pieces send 'control'"):
        askew.run(M.scaffold(M.scaffold(BASE)))


@pytest.mark.parametrize(("recipe", "message"), [
    (lambda: BASE.replace(server=["mean('uniform')", "add_noise(1.0, 1.0)"]),
     r"must clip their updates to 1.0; add clip_update\(1.0\)"),
    (lambda: M.dp_fedavg(BASE).with_setting("clip_update.length", 10.0), "must clip their updates to 1.0"),
    (lambda: M.scaffold(M.dp_fedavg(BASE)), "correct_drift sends besides the update"),
    (lambda: M.fedexp(M.dp_fedavg(BASE)), "extrapolate reads the clients' updates behind the noise"),
    (lambda: M.fednnnn(M.dp_fedavg(BASE)), "rescale_to_mean_norm reads the clients' updates behind the noise"),
    (lambda: M.sign_agreement(M.dp_fedavg(BASE)), "mask_by_sign_agreement reads the clients' updates behind the noise"),
    (lambda: M.dp_fedavg(BASE).replace(server=["mean('uniform')", "scale(10.0)", "add_noise(1.0, 1.0)"]),
     "scale stands between"),
    (lambda: M.dp_fedavg(BASE).replace(server=["mean()", "add_noise(1.0, 1.0)"]), "must count the same before noise")])
def test_plans_that_void_the_promise_of_privacy(recipe, message):
    with pytest.raises(askew.AskewError, match=message):
        askew.run(recipe())


def test_private_with_adam_and_momentum_behind_the_noise():
    assert askew.run(M.fedadam(M.dp_fedavg(BASE))).records
    assert askew.run(M.fedavgm(M.dp_fedavg(BASE))).records


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize(("fields", "message"), [
    ({"end": lambda m, s, k, c: (m, m["update"])}, "its `keep` announces none"),
    ({"keep": lambda model: torch.tensor(0), "end": lambda m, s, k, c: (m, k + 0.5)},
     "memory of another form than its `keep`"),
    ({"end": lambda m, s, k, c: ({**m, "bit": "1"}, k)}, "messages hold tensors"),
    ({"end": lambda m, s, k, c: ({"update": m["update"]}, k)},
     "sends buffers of nothing; it must have all of the model's tensors, in their order: an empty dict"),
    ({"end": lambda m, s, k, c: ({**m, "update": {n: v.sum() for n, v in m["update"].items()}}, k)},
     r"update of 'fc1.weight' is \[\], where the model has \[16, 64\]; let `end` of the clients' pieces keep shapes"),
    ({"end": lambda m, s, k, c: ({**m, "update": {n: v.mT if v.ndim > 1 else v for n, v in m["update"].items()}}, k)},
     r"update of 'fc1.weight' is \[64, 16\], where the model has \[16, 64\]"),
    ({"end": lambda m, s, k, c: ({"buffers": {}}, k)},
     "sends an update of nothing; it must have all of the model's tensors"),
    ({"end": lambda m, s, k, c: ({**m, "update": dict(list(m["update"].items())[:1])}, k)},
     "_mistaken's `end` sends an update of fc1.weight; it must have all of the model's tensors"),
    ({"keep": lambda model: "0"}, "_mistaken keeps '0'; what a client remembers must be tensors"),
    ({"keep": lambda model: {"b": torch.zeros(2), "a": torch.ones(2)},
      "end": lambda m, s, k, c: (m, {"a": k["a"], "b": k["b"]})},
     r"\{'a': float32 \[2\], 'b': float32 \[2\]\}\) instead of \(\(\), \{'b': float32"),
    ({"begin": lambda k, c: c.key}, "asks for ctx.key in `begin`, where there is none; draw in `update`")])
def test_mistakes_in_pieces_get_one_line(fields, message, engine):
    @askew.piece("client")
    def _mistaken() -> askew.ClientPiece:
        return askew.ClientPiece(**fields)

    with pytest.raises(askew.AskewError, match=message):
        askew.run(BASE.replace(client=["sgd(lr=0.1)", "_mistaken()"]), engine=engine)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize(("update", "message"), [
    (lambda u, s, ctx: (dict(list(u.items())[:1]), s),
     "returns nothing of 'fc1.bias', where the model has float32 [16]"),
    (lambda u, s, ctx: u, "`update` must return (update, state)"),
    (lambda u, s, ctx: None, "returns None; `update` must return (update, state)"),
    (lambda u, s, ctx: ({n: v.double() for n, v in u.items()}, s), "returns float64 [16, 64] of 'fc1.weight'"),
    (lambda u, s, ctx: ({n: v.sum() for n, v in u.items()}, s), "returns float32 [] of 'fc1.weight'"),
    (lambda u, s, ctx: ({**u, "extra": u["fc1.bias"]}, s), "of 'extra', where the model has nothing")])
def test_a_server_piece_that_returns_no_update_of_the_model(update, message, engine):
    @askew.piece("server")
    def _mistaken_at_server() -> askew.ServerPiece:
        return askew.ServerPiece(lambda u, s, ctx: update(u, s, ctx) if ctx.round == 1 else (u, s))

    recipe = BASE.replace(server=["mean()", "_mistaken_at_server()", "momentum(0.5)"])
    with pytest.raises(askew.AskewError, match="server: _mistaken_at_server in round 2 .*" + re.escape(message)):
        askew.run(recipe, engine=engine)
    for result in sweep(grid(recipe, {"momentum.beta": [0.1, 0.2, 0.3, 0.4]}), engine=engine):  # servers together, too
        assert message in result.failed


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize(("weigh", "message"), [
    (lambda who: 1.0, "_weighs weighs . clients? by 1.0; `weigh` must return a tensor of one number per client"),
    (lambda who: who.examples[:0], "`weigh` must return a tensor of one number per client"),
    (lambda who: 0 * who.examples, r"round 1: the clients' weights add up to 0, .*; mend `weigh` of _weighs\(\)")])
def test_weights_that_are_none(weigh, message, engine):
    @askew.piece("server")
    def _weighs() -> askew.Aggregator:
        return askew.Aggregator(lambda u, s, ctx: (ctx.cohort.mean, s), weigh=weigh)

    with pytest.raises(askew.AskewError, match=message):
        askew.run(BASE.replace(server="_weighs()"), engine=engine)


@askew.piece("server")
def _sends(name: str, value: float | None = None, says: bool = False) -> askew.ServerPiece:
    return askew.ServerPiece(lambda u, s, ctx: (u, s), sends=[name] if says else [],
                             broadcast=lambda s: {name: torch.tensor(1.0) if value is None else value})


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize(("server", "message"), [
    (["_sends('rate', 0.5)"], r"_sends broadcasts 0.5 as 'rate'; what is sent must be tensors: torch.tensor\(0.5\)"),
    (["_sends('rate', says=True)", "_sends('rate', says=True)"], "server: two pieces send 'rate'; keep one of them"),
    (["_sends('rate')", "_sends('rate')"], "_sends broadcasts 'rate', and a piece before it does, too")])
def test_what_a_server_must_not_broadcast(server, message, engine):
    with pytest.raises(askew.AskewError, match=message):
        askew.run(BASE.replace(server=["mean()", *server]), engine=engine)


@pytest.mark.parametrize(("fields", "message"), [
    ({"headline": "b"}, "_judge is judged by 'b', which is no measure of it; known: loss, a"),
    ({"measures": lambda o, t: {"a": (o.argmax(1) == t).float().mean()}}, r"gives float32 \[\] as 'a' of 2 examples"),
    ({"measures": lambda o, t: {"a": 0.5}}, "gives 0.5 as 'a' of 2 examples; there must be one number per example"),
    ({"measures": lambda o, t: {"a": o[:, 0], "loss": o[:, 0]}}, "_judge has a measure 'loss'"),
    ({"measures": lambda o, t: {"a": o[:, 99]}}, "_judge's measures cannot be taken of outputs of shape")])
def test_an_objective_whose_measures_are_none(fields, message):
    @askew.piece("objective")
    def _judge() -> askew.Objective:
        return askew.Objective(**{"losses": lambda o, t: torch.nn.functional.cross_entropy(o, t, reduction="none"),
                                  "measures": lambda o, t: {"a": o[:, 0]}, "headline": "a", **fields})

    with pytest.raises(askew.AskewError, match=message):
        askew.run(BASE.replace(objective="_judge()"))


@pytest.mark.parametrize("kind", ["client", "server", "objective", "start", "model", "method"])
@pytest.mark.parametrize("made", [None, lambda u, s, ctx: (u, s), {}])
def test_a_function_that_returns_no_piece(kind, made, monkeypatch):
    registry.names(kind)  # askew's own, which must outlive this test, and the one below must not
    monkeypatch.setitem(registry._PIECES, kind, dict(registry._PIECES[kind]))

    @askew.piece(kind)
    def _nothing_made():
        return made

    with pytest.raises(askew.AskewError, match=rf"_nothing_made: the function returns .*; @piece\('{kind}'\) is for"):
        _nothing_made()


def test_two_strengths_of_one_penalty_are_refused():
    """The server's stayed as it was, and took back another penalty than the clients have."""
    recipe = M.feddyn(BASE)
    changed = recipe.with_setting("add_dynamic_regulariser.alpha", 0.5)
    with pytest.raises(askew.AskewError, match=r"correct_dynamically\(alpha=0.1\) beside clients' "
                                               r"add_dynamic_regulariser\(alpha=0.5\); give both the same alpha"):
        askew.run(changed)
    assert askew.run(changed.with_setting("correct_dynamically.alpha", 0.5)).records == askew.run(
        M.feddyn(BASE, alpha=0.5)).records


def test_clients_count_by_their_examples_unless_told():
    assert askew.Aggregator(lambda u, s, ctx: (u, s)).weigh is by_examples


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_what_travels_beside_the_model_is_counted(engine):
    """SCAFFOLD sends a control variate of the model's size in both directions."""
    plain, scaffold = (askew.run(method(BASE), engine=engine).records[-1] for method in (M.fedavg, M.scaffold))
    assert (scaffold["bytes_up"], scaffold["bytes_down"]) == (2 * plain["bytes_up"], 2 * plain["bytes_down"])


def test_a_number_in_the_place_of_a_schedule_is_its_start():
    recipe = BASE.replace(client="sgd(lr=drops(decay(0.1, 0.9), at=[5]))").with_setting("sgd.lr", 0.3)
    assert str(recipe.client[0]) == "sgd(lr=drops(start=decay(start=0.3, factor=0.9), at=[5]))"
    assert str(recipe.with_setting("sgd.lr", "cosine(0.2, rounds=9)").client[0]).startswith("sgd(lr=cosine(")
    with pytest.raises(askew.AskewError, match="a rate's schedule is a value now"):
        askew.Recipe(client="sgd(lr=0.1, lr_decay=0.9, weight_dcay=1.0)".replace(", weight_dcay=1.0", ""))

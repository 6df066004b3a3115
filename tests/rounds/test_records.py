"""What pieces of one's own may put into a record, and masks that are none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import askew
from askew.core import registry
from askew.core.adversity import Adversity
from askew.core.guard import Guard
from askew.core.probe import Probe
from askew.core.registry import piece

BASE = askew.Recipe(population="iid(clients=6)", rounds=4, batch_size=60)
MADE: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def pieces() -> Iterator[None]:
    """Pieces that do what MADE says."""

    @piece("probe")
    def odd_probe() -> Probe:
        return Probe(read=lambda ctx, seen, state, gathered=None: (MADE["values"](seen.number), state))

    @piece("adversity")
    def odd_adversity() -> Adversity:
        return MADE["adversity"]

    @piece("guard")
    def odd_guard() -> Guard:
        return Guard(MADE["refuses"])

    yield
    for kind in ("probe", "adversity", "guard"):
        registry._PIECES[kind].pop(f"odd_{kind}")


@pytest.mark.parametrize(("value", "plain"),
                         [(np.float32(0.5), 0.5), (np.int64(3), 3), (torch.tensor(2.0), 2.0), ((1, 2), [1, 2]),
                                              ({1: np.float64(1.0)}, {"1": 1.0}), (np.arange(2), [0, 1])], ids=repr)
def test_numbers_of_all_kinds_are_made_plain(value: Any, plain: Any, tmp_path: Path) -> None:
    MADE["values"] = lambda number: {"q": value}
    result = askew.run(BASE.replace(probes=["odd_probe()"]), out=tmp_path / "run")
    assert result.records[-1]["q"] == plain


@pytest.mark.parametrize("value", [{1, 2}, 1j, object(), {(1, 2): 3}, b"x"],
                         ids=["set", "complex", "object", "tuple key", "bytes"])
def test_what_cannot_be_written_is_one_line_and_the_rounds_before_are_kept(value: Any, tmp_path: Path) -> None:
    MADE["values"] = lambda number: {"q": value if number >= 3 else 1.0}
    with pytest.raises(askew.AskewError, match="probe odd_probe: q must be a number"):
        askew.run(BASE.replace(probes=["odd_probe()"]), out=tmp_path / "run")
    MADE["values"] = lambda number: {"q": 1.0}
    assert [record["round"] for record in askew.resume(tmp_path / "run").records] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["round", "clients", "train_loss", "accuracy", "loss", "bytes_up", "dropped"])
def test_names_of_the_rounds_own_are_refused(name: str) -> None:
    MADE["values"] = lambda number: {name: 99}
    with pytest.raises(askew.AskewError, match=f"probe odd_probe: '{name}' is a name of the round's own"):
        askew.run(BASE.replace(probes=["odd_probe()"], evaluate_every=4))
    MADE["adversity"] = Adversity(lambda ctx: ctx.clients < 0, reason="late", measure=lambda ctx, gone: {name: 99})
    with pytest.raises(askew.AskewError, match=f"adversity: '{name}' is a name of the round's own"):
        askew.run(BASE.replace(adversity=["odd_adversity()"]))


WRONG_MASKS = [lambda k: torch.zeros(k, dtype=torch.int64), lambda k: torch.zeros(1, dtype=torch.bool),
               lambda k: torch.tensor(True), lambda k: torch.zeros(k, 1, dtype=torch.bool), lambda k: [True] * k,
               lambda k: np.zeros(k, bool), lambda k: None]


@pytest.mark.parametrize("mask", WRONG_MASKS)
@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_what_is_no_mask_is_refused(mask: Any, engine: str) -> None:
    for made in (Adversity(lambda ctx: mask(len(ctx.clients)), reason="late"),
                 Adversity(lambda ctx: mask(len(ctx.clients)), spoil=lambda message: message),
                 Adversity(lambda ctx: mask(len(ctx.clients)), relabel=lambda y, keys, n: y)):
        MADE["adversity"] = made
        one = mask(1)
        right = isinstance(one, torch.Tensor) and one.shape == (1,) and one.dtype == torch.bool
        if engine == "sequential" and made.spoil and right:
            continue  # one client at a time: a mask of one is right there
        with pytest.raises(askew.AskewError, match="must give one true or false per client"):
            askew.run(BASE.replace(adversity=["odd_adversity()"]), engine=engine)
    MADE["refuses"] = lambda lengths: {"bad": mask(len(lengths))}
    with pytest.raises(askew.AskewError, match="guard odd_guard: bad must give one true or false per client"):
        askew.run(BASE.replace(guard=["odd_guard()"]), engine=engine)


def test_a_guard_without_reasons_is_refused() -> None:
    MADE["refuses"] = lambda lengths: lengths > 1
    with pytest.raises(askew.AskewError, match="refuses must give masks by reason"):
        askew.run(BASE.replace(guard=["odd_guard()"]))


def test_spoiling_in_place_spoils_those_who_are_struck_and_no_others() -> None:
    def double(message: Any) -> Any:
        for v in message["update"].values():
            v.mul_(2)
        return message

    models = {}
    for engine in ("sequential", "vectorised"):
        MADE["adversity"] = Adversity(lambda ctx: ctx.clients == 1, spoil=double)
        models[engine] = askew.run(BASE.replace(adversity=["odd_adversity()"]), engine=engine).model
    for name, v in models["sequential"].items():
        torch.testing.assert_close(models["vectorised"][name], v, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("spoil",
                         [lambda m: {k: {n: v[:1] for n, v in t.items()} for k, t in m.items()}, lambda m: {},
                          lambda m: None])
def test_a_spoilt_message_of_another_form_is_refused(spoil: Any) -> None:
    MADE["adversity"] = Adversity(lambda ctx: ctx.clients >= 0, spoil=spoil)
    with pytest.raises(askew.AskewError, match="spoil must give a message of the form"):
        askew.run(BASE.replace(adversity=["odd_adversity()"]), engine="vectorised")


@pytest.mark.parametrize("relabel", [lambda y, keys, n: y[:1], lambda y, keys, n: y + 100, lambda y, keys, n: None])
def test_labels_of_another_form_are_refused(relabel: Any) -> None:
    MADE["adversity"] = Adversity(lambda ctx: ctx.clients >= 0, relabel=relabel)
    with pytest.raises(askew.AskewError, match=r"relabel must give one class in 0\.\.9"):
        askew.run(BASE.replace(adversity=["odd_adversity()"]))


@pytest.mark.parametrize("does",
                         [{}, {"reason": "late", "spoil": lambda m: m}, {"reason": ""}, {"reason": 3},
                          {"reason": "a\nb"}])
def test_an_adversity_does_one_thing(does: dict[str, Any]) -> None:
    with pytest.raises(askew.AskewError, match="an adversity"):
        Adversity(lambda ctx: ctx.clients >= 0, **does)


def test_a_piece_that_says_that_training_diverged_ends_its_run_so() -> None:
    from askew.core.errors import DivergedError
    from askew.runs.sweep import sweep

    def stop(number: int) -> dict[str, float]:
        raise DivergedError("too far")

    MADE["values"] = stop
    good, bad = sweep([BASE, BASE.replace(probes=["odd_probe()"])])
    assert (good.finished, bad.diverged, bad.failed) == (True, "too far", None)
    assert replace(bad, diverged=None).finished

"""Pieces by name: reading, checking, suggesting, remembering."""

import math

import pytest

from askew.core import registry
from askew.core.errors import AskewError
from askew.core.registry import Spec, piece
from askew.core.server_piece import ServerPiece
from askew.pieces.client import sgd
from askew.pieces.schedule import decay, drops
from askew.pieces.server import momentum


def test_a_call_is_read_and_positional_arguments_get_their_names():
    assert registry.parse("server", "momentum(0.5, nesterov=true)") == Spec("momentum", {"beta": 0.5, "nesterov": True})
    assert registry.parse("server", "momentum") == Spec("momentum", {})
    assert registry.parse("client", "project_to_ball(inf)").args["radius"] == math.inf


def test_a_spec_reads_back_what_it_writes():
    for text in ("momentum(beta=0.5, nesterov=True)", "mean(weights='uniform')", "scale(lr=1.5)"):
        spec = registry.parse("server", text)
        assert str(spec) == text
        assert registry.parse("server", str(spec)) == spec
    assert str(registry.parse("client", "project_to_ball(radius=inf)")) == "project_to_ball(radius=inf)"


@pytest.mark.parametrize(("text", "message"), [
    ("sgd(lr=dekay(0.1, 0.9))", "unknown schedule 'dekay'; did you mean 'decay'?"),
    ("sgd(lr=decay(0.1))", "schedule 'decay' needs 'factor'"),
    ("sgd(lr=decay(0.1, 1.5))", "decay: factor must be in (0, 1], got 1.5"),
    ("sgd(lr=drops(0.1, at=3))", "drops: at must be a list of int, not 3"),
    ("sgd(lr=momentum(0.1))", "unknown schedule 'momentum'"),
    ("sgd(momentum=decay(0.1, 0.9))", "sgd: momentum must be float, not decay(0.1, 0.9)"),
])
def test_pieces_inside_pieces_are_checked(text, message):
    with pytest.raises(AskewError) as error:
        registry.parse("client", text)
    assert message in str(error.value)


def test_pieces_inside_pieces_are_read_written_and_made():
    nested = registry.parse("client", "sgd(drops(decay(0.1, 0.9), [2, 3]), nesterov=true, momentum=0.9)")
    assert nested.args["lr"] == Spec("drops", {"start": Spec("decay", {"start": 0.1, "factor": 0.9}), "at": [2, 3]})
    assert registry.parse("client", str(nested)) == nested
    assert sgd(lr=drops(decay(0.1, 0.9), at=[2, 3]), momentum=0.9, nesterov=True).spec.args == nested.args
    assert registry.names_in(nested) == ["sgd", "drops", "decay"]
    assert decay(0.1, 0.9) == decay(0.1, 0.9) != decay(0.1, 0.8)


def test_numbers_inside_pieces_may_be_tensors():
    """Two configurations, rates 0.1 and 0.2 that halve: after one round 0.05 and 0.1."""
    import torch

    spec = registry.parse("client", "sgd(lr=decay(0.1, 0.5))")
    together = registry.with_numbers(spec, {"lr.start": torch.tensor([0.1, 0.2])})
    rate = registry.build("schedule", together.args["lr"])
    assert rate(1).tolist() == pytest.approx([0.05, 0.1])
    assert rate(torch.tensor(2)).tolist() == pytest.approx([0.025, 0.05])
    assert (registry.without_numbers(spec)
            == registry.without_numbers(registry.parse("client", "sgd(lr=decay(3.0, 0.1))")))
    assert registry.without_numbers(spec) != registry.without_numbers(registry.parse("client", "sgd(lr=0.1)"))


def test_what_is_as_by_default_is_left_out_inside_pieces_too():
    spec = registry.parse("client", "sgd(lr=cosine(1, rounds=5, end=0.0), momentum=0.0)")
    assert str(registry.essential("client", spec)) == "sgd(lr=cosine(start=1.0, rounds=5))"


def test_a_made_piece_remembers_how_it_was_made():
    assert momentum(0.3).spec == Spec("momentum", {"beta": 0.3})


@pytest.mark.parametrize(("text", "message"), [
    ("momentun(0.9)", "unknown server 'momentun'; did you mean 'momentum'?"),
    ("momentum(betta=0.9)", "server 'momentum' has no argument 'betta'; did you mean 'beta'?"),
    ("momentum('fast')", "momentum: beta must be float, not 'fast'"),
    ("mean('median')", "mean: weights must be 'examples' or 'uniform' or 'score', not 'median'"),
    ("momentum(0.9, True, 3)", "takes at most 2 arguments, 3 were given"),
    ("momentum(0.9", "cannot be read"),
    ("momentum(beta={[1]: 2})", "cannot be read"),
    (":f", "server ':f' names a module, which recipes may not; import it (--import MODULE) and write 'f'"),
    ("builtins:int", "(--import builtins) and write 'int'"),
    ("momentum(" + "-" * 3000 + "1)", "cannot be read"),
    ("momentum(" + "[" * 3000 + "]" * 3000 + ")", "cannot be read"),
    ("momentum(" + "9" * 5000 + ")", "cannot be read"),
    ("momentum(\0)", "cannot be read"),
    ("momentum('\ud800')", "cannot be read"),
    ("momentum(" + " " * 10**6 + ")", "cannot be read"),
    ("momentum(beta=0.1, beta=0.2)", "gives 'beta' twice; keep one of them"),
    ("momentum(0.1, beta=0.2)", "gives 'beta' twice, by its place and by its name; keep one of them"),
    ("momentum(**{'beta': 0.2})", "cannot be read"),
    ("momentum(nan)", "cannot be read"),
    ("momentum(-inf)", "momentum: beta must be in [0, 1), got -inf"),
    (f"quantize({10**30})", "quantize: bits must be from 2 to 32, got 1000000000000000000000000000000"),
    ("momentum(__import__('os'))", "momentum: beta must be float, not __import__('os')"),
    ("momentum([decay(0.1, 0.9)])", "cannot be read"),
    ("mask_by_sign_agreement()", "needs 'theta'"),
    ("my.module:piece",
     "server 'my.module:piece' names a module, which recipes may not; "
     "import it (--import my.module) and write 'piece'"),
    ("os:system(path='a:b')", "--import os"),
    ("my_piece(3)", "unknown server 'my_piece'; "), ("my_piece(3)", "--import MODULE"),
])
def test_bad_text_gets_one_clear_line(text, message):
    with pytest.raises(AskewError) as error:
        registry.parse("server", text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000


def test_a_number_for_a_schedule_is_the_one_that_it_starts_from_wherever_that_is_written():
    spec = registry.parse("client", "sgd(lr=decay(factor=0.5, start=0.1))")
    assert registry.with_argument(spec, "sgd", "lr", 0.3).args["lr"].args == {"factor": 0.5, "start": 0.3}


def test_infinities_are_read_as_they_are_written():
    assert registry.parse("preprocess", "normalise(mean=[-inf, inf], std=1.0)").args["mean"] == [-math.inf, math.inf]
    assert str(Spec("x", {"a": [-math.inf, [1]]})) == "x(a=[-inf, [1]])"


def test_a_path_of_windows_is_read_without_a_warning(recwarn):
    assert registry.parse("start", r"pretrained('C:\data\w.safetensors')").args["path"] == r"C:\data\w.safetensors"
    assert not list(recwarn)


def test_a_new_server_piece_is_one_function_and_no_edit_elsewhere():
    """A trimmed scale, defined here, runs by name in a recipe and survives the trip through a file."""
    import torch

    import askew

    @piece("server")
    def trimmed_scale(limit: float) -> ServerPiece:
        return ServerPiece(lambda u, state, ctx: ({k: v.clamp(-limit, limit) for k, v in u.items()}, state))

    recipe = askew.Recipe(server=["mean()", trimmed_scale(0.001)], rounds=1)
    assert askew.Recipe.from_toml(recipe.to_toml()) == recipe
    before = askew.run(recipe.replace(server=["mean()", "trimmed_scale(0.0)"])).model
    after = askew.run(recipe).model
    steps = torch.cat([(after[name] - before[name]).flatten() for name in after])
    assert 0 < steps.abs().max() <= 0.001 + 1e-6


def test_a_colon_in_an_argument_is_not_a_module():
    assert (registry.parse("start", "pretrained(path='a:b.safetensors')")
            == Spec("pretrained", {"path": "a:b.safetensors"}))

"""Pieces by name: reading, checking, suggesting, remembering."""

import math

import pytest

from askew.core import registry
from askew.core.errors import AskewError
from askew.core.registry import Spec, piece
from askew.core.server_piece import ServerPiece
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


def test_a_made_piece_remembers_how_it_was_made():
    assert momentum(0.3).spec == Spec("momentum", {"beta": 0.3})


@pytest.mark.parametrize(("text", "message"), [
    ("momentun(0.9)", "unknown server 'momentun'; did you mean 'momentum'?"),
    ("momentum(betta=0.9)", "server 'momentum' has no argument 'betta'; did you mean 'beta'?"),
    ("momentum('fast')", "momentum: beta must be float, not 'fast'"),
    ("mean('median')", "mean: weights must be 'examples' or 'uniform' or 'score', not 'median'"),
    ("momentum(0.9, True, 3)", "takes at most 2 arguments, 3 were given"),
    ("momentum(0.9", "cannot be read"),
    ("momentum(__import__('os'))", "cannot be read"),
    ("mask_by_sign_agreement()", "needs 'theta'"),
    ("no.such:piece", "cannot be imported"),
    ("no.such:piece(path='a:b')", "cannot be imported"),
])
def test_bad_text_gets_one_clear_line(text, message):
    with pytest.raises(AskewError) as error:
        registry.parse("server", text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


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
    assert registry.parse("start", "pretrained(path='a:b.safetensors')") == Spec("pretrained", {"path": "a:b.safetensors"})
    assert registry.parse("server", "askew.pieces.server.scale:scale(lr=0.5)").args == {"lr": 0.5}

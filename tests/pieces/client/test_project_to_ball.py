"""Projection onto a ball around the origin (ozdayi2020's text) or the round's start (a program of its authors)."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import askew
from askew.core.client_piece import ClientContext
from askew.engine.build import build_task
from askew.engine.protocol import Job, Lane
from askew.engine.sequential import Sequential
from askew.engine.start import initial_model
from askew.pieces.client import project_to_ball


def test_around_the_origin_by_hand(client, act):
    """w = (3, 4), step (3, 4): (6, 8) has norm 10; on the ball of radius 5 it is (3, 4), so that the step is 0."""
    assert act(project_to_ball(5.0), (3, 4), client(w=(3, 4))) == pytest.approx([0, 0], abs=1e-6)
    assert act(project_to_ball(2.5), (3, 4), client(w=(3, 4))) == pytest.approx([-1.5, -2])


def test_around_the_start_by_hand(client, act):
    """start (1, 0), w = (1, 2), step (0, 2): the offset (0, 4) is pulled back to (0, 3), so that the step is (0, 1)."""
    assert act(project_to_ball(3.0, "start"), (0, 2), client(w=(1, 2), start=(1, 0))) == pytest.approx([0, 1])


def test_inside_the_ball_the_step_stays_bit_for_bit(client, act):
    step = (0.1, -0.3)
    for piece in (project_to_ball(100.0), project_to_ball(100.0, "start"), project_to_ball(float("inf"))):
        assert act(piece, step, client(w=(3, 4))) == torch.tensor(step).tolist()


def test_the_norm_is_over_all_tensors_together():
    """Tensors (3) and (4): norm 5, half of it is (1.5) and (2)."""
    w = {"a": torch.tensor([3.0]), "b": torch.tensor([4.0])}
    u, _ = project_to_ball(2.5).update({name: torch.zeros(1) for name in w}, (), ClientContext(w, w, 0))
    assert [float(w[name] + u[name]) for name in w] == pytest.approx([1.5, 2.0])


vectors = st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=3)


@settings(deadline=None)
@given(vectors, vectors, vectors, st.floats(0.125, 300), st.sampled_from(["origin", "start"]))
def test_the_result_is_in_the_ball_and_on_the_ray_to_where_the_step_led(w, start, step, radius, centre):
    t = {name: {"w": torch.tensor(v)} for name, v in (("w", w), ("start", start), ("step", step))}
    u, _ = project_to_ball(radius, centre).update(t["step"], (), ClientContext(t["w"], t["start"], 0))
    c = t["start"]["w"] if centre == "start" else torch.zeros(3)
    led, ended = t["w"]["w"] + t["step"]["w"] - c, t["w"]["w"] + u["w"] - c
    assert float(ended.norm()) <= radius * (1 + 1e-4) + 1e-4
    assume(float(led.norm()) > 1e-2)
    factor = min(1.0, radius / float(led.norm()))
    torch.testing.assert_close(ended, factor * led, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("centre", ["origin", "start"])
def test_after_a_round_every_client_is_in_the_ball(centre):
    """A rate of 0.5 leads all clients out of so small a ball, so that all end on its surface."""
    task = build_task(askew.Recipe(client=["sgd(lr=0.5)", f"project_to_ball(0.7, centre='{centre}')"]))
    start = initial_model(task)
    for _, chunk in Sequential(task).train([Lane(task, {0: start}, [Job(0, client) for client in range(10)], 0)]):
        ends = [v[0] + (start.params[name] if centre == "origin" else 0.0) for name, v in chunk.updates.items()]
        assert float(torch.cat([v.flatten() for v in ends]).norm()) == pytest.approx(0.7, rel=1e-4)


@pytest.mark.parametrize("radius", [0.0, -1.0])
def test_a_radius_that_is_not_positive_is_refused(radius):
    with pytest.raises(askew.AskewError, match="project_to_ball: radius must be positive"):
        project_to_ball(radius)

"""What items need, and how much that is."""

import pytest

import askew
from askew.engine import local
from askew.engine.build import build_task
from askew.engine.choice import make_engine
from askew.papers.plan import TRAINING_EXAMPLES, at_scale, images, needs, recipes_of
from askew.papers.store import Results
from askew.rounds.simulation import Simulation

BASE = askew.Recipe(population="iid(clients=4)", batch_size=50, rounds=2, epochs=3)


@pytest.mark.parametrize("recipe", [
    BASE,
    BASE.replace(population="dirichlet(clients=5, alpha=0.5, examples_per_client=100)", fraction=0.4),
    BASE.replace(population="pooled()"),
    BASE.replace(population="iid(clients=4) + hold_out(0.2) + share(0.5)"),
    BASE.replace(population="iid(clients=4) + hold_out(0.2, use=100) + share(1.0)"),
    BASE.replace(population="iid(clients=4) + validation(0.2)"),
    BASE.replace(population="iid(clients=4) + subset(0.3)"),
    BASE.replace(population="hierarchical(clients=10, examples=60)"),
    BASE.replace(population="iid(clients=4) + hold_out(0.1)", server=["mean()", "train_on_server(epochs=2)"]),
    BASE.replace(population="iid(clients=4) + hold_out(0.1)", start="warm_up(until=1.0, epochs=2)"),
    BASE.replace(start="warm_up(until=1.0, epochs=2, on='everyone')"),
    BASE.replace(probes=["weight_divergence()"]),
], ids=lambda r: f"{r.population} {r.server[-1]} {r.start}")
def test_images_are_those_that_a_run_trains_on(recipe, monkeypatch):
    """Counted where they pass: in every client's work, and in all training at the server."""
    seen = 0
    real = local.train_locally

    def count(module, model, examples, indices, *args, epochs, **rest):
        nonlocal seen
        seen += epochs * len(indices)
        return real(module, model, examples, indices, *args, epochs=epochs, **rest)

    monkeypatch.setattr(local, "train_locally", count)  # the engine has its own name for it
    task = build_task(recipe)
    simulation = Simulation(task, make_engine("sequential", task))
    while not simulation.finished:
        seen += recipe.epochs * sum(int(task.population.sizes[job.client]) for job in simulation.begin().jobs)
        simulation.advance()
    assert images(recipe) == pytest.approx(seen, rel=0.01)


def test_sizes_are_known_for_what_can_be_loaded_here():
    assert askew.data.load("digits").train.y.numel() == TRAINING_EXAMPLES["digits"]
    with pytest.raises(askew.AskewError, match="is not known without loading it"):
        images(BASE.replace(data="npz('mine.npz')"))


def test_equal_recipes_are_one_run(toy, tmp_path):
    table, figure = toy
    results = Results(tmp_path)
    assert [need.item.name for need in needs([table, figure], results, 1)] == ["table1"] * 2 + ["figure1"] * 2
    assert len(needs([figure], results, 1)) == 3  # the tuned row has the skewed recipe among its own
    assert len(needs([figure], results)) == 6  # as many seeds as the paper
    assert [need.recipe.seed for need in needs([table], results, 2)] == [0, 1, 0, 1]
    with pytest.raises(askew.AskewError, match="--seeds must be at least 1, got 0"):
        needs([table], results, 0)


def test_the_quick_scale_has_its_own_recipes_rows_and_one_seed(toy, tmp_path):
    table, figure = toy
    assert at_scale(table, "full") is table
    assert [row.name for row in at_scale(table, "quick").rows] == ["IID", "skewed"]
    assert [row.name for row in at_scale(figure, "quick").rows] == ["skewed", "tuned"]
    assert {recipe.rounds for recipe in recipes_of(at_scale(figure, "quick"))} == {2}
    assert len(needs([figure], Results(tmp_path, "quick"))) == 3

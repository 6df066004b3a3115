"""A client without a test example of its own is not judged: it has no score, which is not a score of 0."""

import numpy as np
import pytest

import askew
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.runs.judge import majority_accuracy

TARGETS = {"classes": "cross_entropy()", "numbers": "mean_squared_error()", "labels": "binary_cross_entropy()"}


def hospitals(path, lone=12):
    """Three hospitals of 30 rows and others of one row each, most of which fall on the training side."""
    random = np.random.default_rng(0)
    names = [f"h{i % 3}" for i in range(90)] + [f"z{i}" for i in range(lone)]
    a = random.normal(size=len(names))
    lines = [f"{name},{value:.4f},{int(value > 0)},{int(value > 0.3)}" for name, value in zip(names, a, strict=True)]
    path.write_text("\n".join(["hospital,a,y,z", *lines]) + "\n")


@pytest.mark.parametrize("method", ["fedavg", "fedper"])
@pytest.mark.parametrize("targets", TARGETS)
def test_the_headline_is_the_mean_over_those_who_can_be_judged(method, targets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hospitals(tmp_path / "t.csv")
    label = "['y', 'z']" if targets == "labels" else "'y'"
    recipe = askew.Recipe(data=f"table('t.csv', label={label}, client='hospital', targets='{targets}', features=['a'])",
                          population="natural()", model="mlp(hidden=[4])", objective=TARGETS[targets], rounds=2)
    result = askew.run(getattr(askew.methods, method)(recipe), out="run")
    sizes = result.simulation.task.population.test.sizes
    got = result.evaluation
    scores = got["clients"]["score"]
    assert 0 < (sizes == 0).sum() < len(sizes)
    assert [score is None for score in scores] == (sizes == 0).tolist()
    known = [score for score in scores if score is not None]
    name, last = got["headline"], result.records[-1]
    assert got["measures"][name] == last[name] == last[f"device_{name}_mean"] == pytest.approx(np.mean(known))
    assert last[f"device_{name}_std"] == pytest.approx(np.std(known))
    assert last.get(f"device_{name}_min", last.get(f"device_{name}_max")) in (min(known), max(known))
    assert result.judged_on == (f"mean over {len(known)} clients' own test data ({len(sizes) - len(known)} have none)")
    result.report("page.html")
    result.plot("run.png")


def test_nothing_is_known_of_a_client_without_test_examples():
    train, labels = Ownership.of([[0, 1], [2], [3]]), np.array([0, 0, 1, 1])
    population = Population.of(train, labels, 2, test=Ownership.of([[0, 1], [], [2]]))
    scores = population.accuracies(np.array([1.0, 0.0, 1.0]), np.zeros(2))
    assert np.array_equal(scores, [0.5, np.nan, 1.0], equal_nan=True)
    assert population.num_tested == 2
    assert majority_accuracy(population, np.array([0, 1, 1])) == pytest.approx((0.5 + 1) / 2)

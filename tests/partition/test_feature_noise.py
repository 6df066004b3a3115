"""Noise on features: who has how much, that everybody sees the same inputs, and the federation without its skew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import askew
from askew.core.dataset import Dataset, Examples, Source
from askew.core.errors import AskewError
from askew.core.ownership import Ownership
from askew.core.population import Population
from askew.engine.build import build_task
from askew.engine.noisy_features import noised
from askew.partition import draw
from askew.runs.sweep import sweep

SOURCE = Source(np.arange(3000) % 10, 10)


def flat(examples: int = 3000, dtype: torch.dtype = torch.float32) -> Dataset:
    x, y = torch.full((examples, 40), 51, dtype=dtype), torch.arange(examples) % 10
    return Dataset("flat", Examples(x, y), Examples(x[:1000], y[:1000]), tuple("0123456789"))


@pytest.mark.parametrize(("clients", "level"), [(2, 0.1), (10, 0.1), (7, 3.0)])
def test_levels_are_those_of_niid_bench(clients: int, level: float) -> None:
    noise = draw(f"iid(clients={clients}) + feature_noise({level})", SOURCE).noise
    assert noise is not None
    # experiments.py: noise_level = args.noise / (args.n_parties - 1) * net_id
    assert np.allclose(noise, [level / (clients - 1) * net_id for net_id in range(clients)], rtol=1e-12)


def test_each_client_sees_its_own_level_and_the_server_none() -> None:
    data = flat()
    population = draw("iid(clients=4) + hold_out(0.1) + feature_noise(0.6) + validation(0.2)", SOURCE, seed=3)
    seen = noised(data, population)
    moved = (seen.train.x - data.train.x).numpy()
    for k, level in enumerate((0.0, 0.2, 0.4, 0.6)):
        for part in (population.train, population.validation):
            assert part is not None
            assert moved[part[k]].std() == pytest.approx(level, rel=0.05)
    assert not moved[population.server].any()
    of_test = (seen.test.x - data.test.x).numpy()  # in turn, one level each
    assert [of_test[k::4].std() for k in range(4)] == pytest.approx([0, 0.2, 0.4, 0.6], rel=0.05)
    assert torch.equal(noised(data, population).train.x, seen.train.x)
    assert not torch.equal(noised(data, draw("iid(clients=4) + feature_noise(0.6)", SOURCE, seed=4)).train.x,
                           seen.train.x)


def test_bytes_are_divided_by_255_first() -> None:
    data = flat(dtype=torch.uint8)
    seen = noised(data, draw("iid(clients=2) + feature_noise(0.1)", SOURCE))
    assert float(seen.train.x.mean()) == pytest.approx(0.2, abs=0.002)  # 51 / 255
    assert data.train.x.dtype == torch.uint8


def test_own_test_examples_have_their_owners_level() -> None:
    test = Ownership.of([np.arange(0, 500), np.arange(500, 1000)])
    population = Population.of(Ownership.of([np.arange(1500), np.arange(1500, 3000)]), SOURCE.labels, 10, test=test,
                               noise=np.array([0.0, 1.0]))
    moved = noised(flat(), population).test.x - 51
    assert not moved[:500].any()
    assert float(moved[500:].std()) == pytest.approx(1, rel=0.05)


def test_shuffled_clients_keep_sizes_and_examples_and_lose_skew() -> None:
    scheme = "dirichlet_per_class(clients=5, alpha=0.1) + feature_noise(0.5) + validation(0.1)"
    skewed, shuffled = draw(scheme, SOURCE), draw(f"{scheme} + shuffle()", SOURCE)
    assert np.array_equal(skewed.sizes, shuffled.sizes)
    assert skewed.validation is not None
    assert shuffled.validation is not None
    assert np.array_equal(skewed.validation.sizes, shuffled.validation.sizes)
    together = [np.sort(np.concatenate([population.train.indices, held.indices]))
                for population, held in ((skewed, skewed.validation), (shuffled, shuffled.validation))]
    assert np.array_equal(*together)
    assert shuffled.mean_emd < 0.4 < 0.9 < skewed.mean_emd
    seen = noised(flat(), shuffled)
    spread = [float((seen.train.x[shuffled.train[k]] - 51).std()) for k in range(5)]
    level = np.sqrt(np.mean(np.linspace(0, 0.5, 5) ** 2))  # all levels evenly, at each client
    assert spread == pytest.approx([level] * 5, rel=0.08)


def test_runs_of_several_seeds_together_are_those_alone() -> None:
    """Each seed has noise of its own: no engine may train one with another's inputs."""
    base = askew.Recipe(population="iid(clients=4) + feature_noise(1.0)", rounds=2)
    recipes = [base.replace(seed=seed, client=f"sgd(lr={rate})") for seed in (0, 1) for rate in (0.1, 0.3)]
    together = sweep(recipes, progress=False)
    assert [result.accuracy for result in together] == [askew.run(recipe).accuracy for recipe in recipes]


def test_held_out_examples_are_judged_with_their_noise() -> None:
    """Noise so strong that nothing can be told: a held-out score far above chance would have seen clean examples."""
    recipe = askew.Recipe(population="iid(clients=2) + feature_noise(1000.0) + validation(0.3)", rounds=3,
                          stop_after_no_gain=3)
    task = build_task(recipe)
    held = task.population.validation
    assert held is not None
    clean = askew.data.load("digits").train.x
    moved = (task.data.train.x[torch.from_numpy(held[1])] - clean[torch.from_numpy(held[1])].float()).std()
    assert float(moved) == pytest.approx(1000, rel=0.05)


def test_the_ceiling_sees_the_same_noise() -> None:
    base = askew.Recipe(population="iid(clients=10) + feature_noise(1.0)")
    ceiling = build_task(askew.methods.centralised(base)).population
    assert ceiling.num_clients == 1
    assert ceiling.noise is not None
    assert np.array_equal(ceiling.noise, build_task(base).population.noise)


def test_noise_is_saved_with_the_population(tmp_path: Path) -> None:
    for scheme in ("iid(clients=3) + feature_noise(0.1)", "iid(clients=3) + feature_noise(0.1, clients=7)",
                   "iid(clients=3)"):
        drawn = draw(scheme, SOURCE)
        drawn.save(path := tmp_path / "population.npz")
        loaded = Population.load(path)
        assert (loaded.noise is None) == (drawn.noise is None)
        assert loaded.noise is None or np.array_equal(loaded.noise, drawn.noise)
        assert loaded.noise_mixed == drawn.noise_mixed
        path.unlink()


@pytest.mark.parametrize(("scheme", "says"), [
    ("pooled() + feature_noise(0.1)", "one client has no other to differ from; ask for at least two clients"),
    ("iid(clients=2) + feature_noise(0.0)", "level must be positive, got 0.0"),
    ("iid(clients=2) + feature_noise(-1.0)", "got -1.0")])
def test_what_cannot_be_noisy_is_refused(scheme: str, says: str) -> None:
    with pytest.raises(AskewError, match=says):
        draw(scheme, SOURCE)


def test_tokens_and_damaged_levels_are_refused() -> None:
    tokens = Dataset("text", Examples(torch.zeros(20, 3, dtype=torch.int64), torch.arange(20) % 2),
                     Examples(torch.zeros(20, 3, dtype=torch.int64), torch.arange(20) % 2), ("0", "1"))
    with pytest.raises(AskewError, match=r"the inputs of text are torch.int64, to which no noise can be added"):
        noised(tokens, draw("iid(clients=2) + feature_noise(0.1)", Source(np.arange(20) % 2, 2)))
    with pytest.raises(AskewError, match="noise must hold one standard deviation for each of 2 clients"):
        Population.of(Ownership.of([[0], [1]]), np.array([0, 1]), 2, noise=np.array([0.1]))

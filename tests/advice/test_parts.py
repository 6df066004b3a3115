"""Candidates, demands, plans, proxy data, journal, features: the parts of advice, each by itself."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

import askew
from askew.advice.candidates import METHODS, SETTINGS, candidates_of, with_rate
from askew.advice.contest import Plan
from askew.advice.demanding import Limits, demandingness, in_words
from askew.advice.facts import facts_of
from askew.advice.feature_skew import feature_skew
from askew.advice.planning import estimate, fitting, plans
from askew.advice.proxy import like_counts
from askew.advice.trials import Trials, read_journal
from askew.core import skew
from askew.core.dataset import Source
from askew.core.errors import AskewError
from askew.data.skew_table import CountsTable
from askew.engine.build import build_task
from askew.engine.noisy_features import noised
from askew.engine.task import Task
from askew.partition import draw
from askew.runs.configuration import Means
from askew.runs.demands import Demands, demands_of

BASE = askew.Recipe(population="iid(clients=4) + validation(0.1)", rounds=2)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_as_many_settings_and_the_recipes_own_rate_first(method: str) -> None:
    found = candidates_of(BASE, method)
    assert len(found) == SETTINGS
    assert len({c.recipe.fingerprint for c in found}) == SETTINGS, "two settings are the same"
    assert found[0].recipe.client[-1 if method != "fedper" else 0].args["lr"] == 0.1


@pytest.mark.parametrize("method", METHODS)
def test_nobody_trains_on_what_is_held_out(method: str) -> None:
    """The proof's first run found data_sharing 57 points ahead on examples that other clients had been handed."""
    population = entrant(method)[0].population
    assert population.validation is not None
    assert not np.isin(population.validation.indices, population.train.indices).any()
    assert not np.isin(population.validation.indices, population.server).any()


def test_held_out_examples_that_others_train_on_are_refused() -> None:
    leaking = BASE.replace(population="iid(clients=4) + hold_out(0.1) + share(1.0) + validation(0.2)")
    build_task(leaking)  # nobody chooses by them
    with pytest.raises(AskewError, match=r"clients train on each other's validation examples, .* before \+ share"):
        build_task(leaking.replace(stop_after_no_gain=2))


def test_a_schedule_is_scaled_as_a_whole_and_arguments_that_are_given_stay() -> None:
    decaying = BASE.replace(client="sgd(lr=decay(0.2, 0.99), momentum=0.5)")
    assert str(with_rate(decaying, 3.0).client[0]) == "sgd(lr=decay(start=0.6, factor=0.99), momentum=0.5)"
    assert {str(c.recipe.client[0]) for c in candidates_of(BASE, "fedprox(mu=0.7)")} == {"add_proximal(mu=0.7)"}


@functools.cache
def entrant(method: str) -> tuple[Task, Demands]:
    task = build_task(candidates_of(BASE, method)[0].recipe)
    return task, demands_of(task, {"bytes_up": 4 * 2_000_000, "bytes_down": 8_000_000})


def strike(method: str, **limits: object) -> str | None:
    return Limits(**limits).strike(*entrant(method), 2e6)  # type: ignore[arg-type]


@pytest.mark.parametrize(("limit", "struck"), [
    ({"no_server_data": True}, {"server_training", "data_sharing"}), ({"single_model": True}, {"fedper"}),
    ({"stateless_clients": True}, {"scaffold", "feddyn", "fedper"}), ({"upload_budget": 1.9}, set(METHODS)),
    ({"upload_budget": 2.1}, set()), ({"secure_aggregation": True}, set()), ({}, set())])
def test_what_a_federation_cannot_give_strikes_methods_out(limit: dict, struck: set[str]) -> None:
    reasons = {method: strike(method, **limit) for method in METHODS}
    assert {method for method, why in reasons.items() if why} == struck
    assert all("(--" in why for why in reasons.values() if why)


def test_single_updates_cannot_be_summed() -> None:
    assert strike("median", secure_aggregation=True) == (
        "server piece median keeps every client's update (--secure-aggregation)")


def test_the_order_of_demands() -> None:
    order = sorted(METHODS, key=lambda name: demandingness(entrant(name)[0]))
    assert order[:2] == ["fedavg", "fedprox"]
    assert order[-1] == "data_sharing"
    assert order.index("fedavgm") < order.index("fednova") < order.index("scaffold") < order.index("server_training")
    assert in_words(replace(entrant("fedavg")[1], up=1.0)) == []


def test_a_negative_upload_budget_is_refused() -> None:
    with pytest.raises(AskewError, match="--upload-budget must be a number of megabytes above 0, got -1"):
        Limits(upload_budget=-1.0)


def test_plans_shrink_and_the_largest_that_fits_is_taken() -> None:
    seconds, settings = {"fedavg": 0.1, "scaffold": 0.2}, {"fedavg": 8, "scaffold": 8}
    costs = [estimate(plan, seconds, settings) for plan in plans(40)]
    assert costs == sorted(costs, reverse=True)
    # By hand: 8 * 10 + 2 * 3 * 40 + 6 * 40 rounds (FedAvg: 4 * 3 * 40), and 24 + 9 whole runs at the slowest pace.
    assert costs[0] == pytest.approx((80 + 480 + 240) * 0.1 + (80 + 240 + 240) * 0.2 + 33 * 40 * 0.2)
    assert fitting(40, costs[0] / 0.8, seconds, settings) == Plan(40)
    assert fitting(40, costs[0] / 0.8 - 1, seconds, settings) == plans(40)[1]
    with pytest.raises(AskewError, match=r"--budget: 0.017 minutes are left .* takes about .*; give more"):
        fitting(40, 1.0, seconds, settings)


def test_distances_are_scipys_and_known_to_chance() -> None:
    counts = np.random.default_rng(0).integers(0, 30, (6, 5)) + np.eye(6, 5, dtype=int) * 40
    p = counts.sum(axis=0) / counts.sum()
    shares = counts / counts.sum(axis=1, keepdims=True)
    assert skew.jensen_shannon(counts) == pytest.approx([jensenshannon(q, p, base=2) for q in shares])
    lengths = [np.linalg.norm(np.sqrt(q) - np.sqrt(p)) / np.sqrt(2) for q in shares]
    assert skew.hellinger(counts) == pytest.approx(lengths)
    drawn = np.random.default_rng(1).multinomial(np.full(3000, 25), p)
    for measure in (skew.hellinger, skew.jensen_shannon, skew.emd):
        assert skew.chance_level(measure, np.full(10, 25), p) == pytest.approx(measure(drawn, p).mean(), rel=0.05)


def test_facts_of_one_class_per_client() -> None:
    data = askew.data.load("digits")
    facts = facts_of(draw("label_blocks(clients=10)", Source.of(data)), data)
    assert facts.mean_emd == pytest.approx(1.8, abs=0.01)
    assert facts.hellinger == pytest.approx(np.sqrt(1 - np.sqrt(0.1)), abs=0.01)
    assert facts.lacking == 10
    assert facts.features is None, "no two clients share a class: their inputs cannot be compared"
    assert dict(facts.rows())["clients that lack a class"] == "10 of 10"


@pytest.mark.parametrize(("scheme", "found"), [
    ("iid(clients=10)", False), ("dirichlet(clients=10, alpha=0.3)", False),
    ("iid(clients=10) + feature_noise(0.5)", True), ("dirichlet(clients=10, alpha=1.0) + feature_noise(0.5)", True)])
def test_features_differ_where_there_is_noise_and_not_where_labels_do(scheme: str, found: bool) -> None:
    data = askew.data.load("digits")
    population = draw(scheme, Source.of(data), seed=1)
    test = feature_skew(noised(data, population), population)
    assert test is not None
    assert test.is_seen == found


def test_the_test_of_features_is_right_under_the_null() -> None:
    """Its p is uniform where owners are dealt at random: it finds something in one of a hundred."""
    draws = np.random.default_rng(0)
    x, y = torch.from_numpy(draws.normal(size=(200, 5))), torch.from_numpy(draws.integers(0, 2, 200))
    data = askew.Dataset.from_tensors((x, y), (x, y))
    values = []
    for seed in range(25):
        found = feature_skew(data, draw("iid(clients=4, stratified=false)", Source.of(data), seed=seed), seed)
        assert found is not None
        values.append(found.p)
    assert 0.35 < np.mean(values) < 0.65
    assert np.mean(np.array(values) <= 0.1) < 0.25


def test_counts_are_kept_on_proxy_data() -> None:
    counts = np.array([[60, 20, 0], [0, 20, 60], [100, 100, 100]])
    data = like_counts(CountsTable(["a", "b", "c"], ["x", "y", "z"], counts), askew.data.load("digits"))
    population = draw("natural()", Source.of(data))
    scale = population.sizes.sum() / counts.sum()
    assert population.num_classes == 3
    assert np.abs(population.counts - scale * counts).max() <= 2
    assert data.client_names == ("a", "b", "c")
    assert set(data.test.y.tolist()) == {0, 1, 2}


@pytest.mark.parametrize(("counts", "says"), [
    (np.ones((3, 11), int) * 9, "11 classes cannot stand on digits, which has 10; name --data with more classes"),
    (np.array([[5, 5]]), "one client is no federation"),
    (np.array([[10_000_000, 10_000_000], [5, 5]]), "client 'b' would get 0 of its 10; name larger --data")])
def test_counts_that_do_not_fit_are_refused(counts: np.ndarray, says: str) -> None:
    table = CountsTable(["a", "b", "c"][: len(counts)], [str(c) for c in range(counts.shape[1])], counts)
    with pytest.raises(AskewError, match=says):
        like_counts(table, askew.data.load("digits"))


def test_a_journal_is_trained_on_no_more(tmp_path: Path) -> None:
    candidates, path = candidates_of(BASE, "fedavg")[:2], tmp_path / "trials.jsonl"
    told: list[int] = []
    scores = Trials(Means(), journal=path)(candidates, [0, 1], 2)
    again = Trials(Means(device="no such device"), journal=path, on_round=lambda record, recipe: told.append(1))
    assert again(candidates, [0, 1], 2) == scores
    assert len(told) == 8  # rounds of an earlier session count as done
    path.write_text(path.read_text()[:-5])
    assert len(read_journal(path)) == 3, "a line that was cut off is one trial less"
    path.write_text("nonsense\n" + path.read_text())
    with pytest.raises(AskewError, match=r"is damaged in line 1; name another folder"):
        read_journal(path)


def test_trials_give_what_runs_give() -> None:
    candidate = candidates_of(BASE, "fedavgm")[3]
    score = Trials(Means())([candidate], [5], 2)[candidate.key, 5]
    assert score.test == pytest.approx(askew.run(candidate.recipe.replace(seed=5)).accuracy, abs=1e-6)

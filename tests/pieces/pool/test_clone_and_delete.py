"""FedCD's rules, one by one, on numbers checked by hand (fedcd2020, section 2)."""

import numpy as np
import pytest
from fedcd_by_dicts import as_dicts, in_dicts

import askew
from askew.core import rng
from askew.pieces.pool import clone_and_delete

KEY = rng.key(0, "pool")


def pool_and_state(scores, made, history=None, **settings):
    """A pool in mid-run: `scores` is one dict of model -> score a device."""
    pool = in_dicts(clone_and_delete(**{"milestones": [], "score_noise": 0.0, **settings}))
    state = {"made": made, "scores": scores, "sent": scores, "measured": scores,
             "history": history or [{m: [] for m in mine} for mine in scores]}
    return pool, state


def scores_after(accuracies, round=1, made=8, **settings):
    """One device with empty windows: its scores after a round with these accuracies."""
    pool, state = pool_and_state([dict.fromkeys(accuracies, 1 / len(accuracies))], made, **settings)
    after, changes = pool.after_round(state, [accuracies], round, KEY)
    return after["scores"][0], changes


def test_equation_2_is_the_mean_of_the_last_three_accuracies():
    """Accuracies of one model over 5 rounds, 0.1 ... 0.5, against a second one that always has 0.2.

    After round 5: s = ((0.3 + 0.4 + 0.5) / 3, 0.2) = (0.4, 0.2); normalised (2/3, 1/3) (eq. (3)).
    After round 2 the mean is over the two there are: (0.15, 0.2) -> (3/7, 4/7).
    """
    pool, state = pool_and_state([{0: 0.5, 1: 0.5}], made=2)
    seen = []
    for round in range(1, 6):
        state, _ = pool.after_round(state, [{0: round / 10, 1: 0.2}], round, KEY)
        seen.append(state["scores"][0])
    assert seen[1] == pytest.approx({0: 3 / 7, 1: 4 / 7})
    assert seen[4] == pytest.approx({0: 2 / 3, 1: 1 / 3})


@pytest.mark.parametrize(("window", "expected"), [(1, 0.5 / 0.7), (2, 0.45 / 0.65)])
def test_the_window_is_a_setting(window, expected):
    pool, state = pool_and_state([{0: 0.5, 1: 0.5}], made=2, window=window)
    for round in range(1, 6):
        state, _ = pool.after_round(state, [{0: round / 10, 1: 0.2}], round, KEY)
    assert state["scores"][0][0] == pytest.approx(expected)


def test_equation_4_deletes_models_a_standard_deviation_below_the_best():
    """c = (0.4, 0.3, 0.2, 0.1): std sqrt(0.0125) = 0.1118; differences 0, 0.1, 0.2, 0.3: models 2 and 3 go.

    What stays is normalised: (4/7, 3/7).
    """
    scores, changes = scores_after({0: 0.8, 1: 0.6, 2: 0.4, 3: 0.2})
    assert scores == pytest.approx({0: 4 / 7, 1: 3 / 7})
    assert changes.deleted == [2, 3]


def test_a_difference_of_exactly_one_standard_deviation_deletes():
    """c = (6, 4, 3, 2, 0) / 15: mean 3, deviations 3, 1, 0, -1, -3, std 2; model 1 is exactly 2 below the best."""
    scores, _ = scores_after({0: 0.75, 1: 0.5, 2: 0.375, 3: 0.25, 4: 0.0}, keep_at_least=1)
    assert scores == {0: 1.0}


def test_models_near_the_best_all_stay():
    """c = (0.3, 0.29, 0.28, 0.13): std 0.0696; only the last is farther off."""
    scores, _ = scores_after({0: 0.3, 1: 0.29, 2: 0.28, 3: 0.13})
    assert sorted(scores) == [0, 1, 2]


def test_a_device_keeps_at_least_two_models_worst_first():
    """c = (0.5, 0.3, 0.2): std 0.1247, differences 0, 0.2, 0.3 both count, yet only the worst goes."""
    scores, _ = scores_after({0: 0.5, 1: 0.3, 2: 0.2})
    assert scores == pytest.approx({0: 0.625, 1: 0.375})
    assert sorted(scores_after({0: 0.9, 1: 0.1})[0]) == [0, 1]
    assert sorted(scores_after({0: 0.5, 1: 0.3, 2: 0.2}, keep_at_least=1)[0]) == [0]


def test_equal_scores_leave_the_two_oldest():
    """std = 0 and all differences are 0: 0 >= 0 holds for every model, the best included, but a device keeps two."""
    assert sorted(scores_after({0: 0.5, 1: 0.5, 2: 0.5})[0]) == [0, 1]


@pytest.mark.parametrize(("round", "accuracies", "left"), [
    (20, {0: 0.7, 1: 0.3}, [0, 1]),  # not before round 21
    (21, {0: 0.7, 1: 0.3}, [0]),  # a score of 0.3 is low enough
    (21, {0: 0.69, 1: 0.31}, [0, 1]),
    (21, {0: 0.2, 1: 0.8}, [1]),
])
def test_after_round_20_the_worse_of_two_goes_at_a_score_of_0_3(round, accuracies, left):
    scores, changes = scores_after(accuracies, round, made=2)
    assert sorted(scores) == left
    assert sum(scores.values()) == pytest.approx(1.0)
    assert changes.deleted == [m for m in (0, 1) if m not in left]


def test_the_late_rule_is_a_setting_and_needs_two_models():
    assert sorted(scores_after({0: 0.7, 1: 0.3}, round=2, late_round=1)[0]) == [0]
    assert sorted(scores_after({0: 0.6, 1: 0.4}, round=2, late_round=1, late_score=0.4)[0]) == [0]
    assert sorted(scores_after({0: 0.36, 1: 0.34, 2: 0.3}, round=30, keep_at_least=3)[0]) == [0, 1, 2]


def test_the_server_forgets_a_model_when_the_last_device_does():
    """Model 2 is the worst of both devices: gone. Model 1 is the worst of one only: it lives on."""
    pool, state = pool_and_state([{0: 0.4, 1: 0.3, 2: 0.3}, {0: 0.5, 1: 0.5}], made=4)
    after, changes = pool.after_round(state, [{0: 0.6, 1: 0.3, 2: 0.1}, {0: 0.5, 1: 0.5}], 1, KEY)
    assert changes.deleted == [2]
    assert [sorted(mine) for mine in after["scores"]] == [[0, 1], [0, 1]]
    pool, state = pool_and_state([{0: 0.4, 1: 0.3, 2: 0.3}, {1: 0.5, 2: 0.5}], made=4)
    after, changes = pool.after_round(state, [{0: 0.6, 1: 0.3, 2: 0.1}, {1: 0.5, 2: 0.5}], 1, KEY)
    assert changes.deleted == []
    assert [sorted(mine) for mine in pool.keeps(after)] == [[0, 1], [1, 2]]


def test_milestones_clone_every_live_model_and_double_the_count():
    """M = 4 models were ever made, 0 and 3 live: their clones are 4 and 7, and M becomes 8."""
    pool, state = pool_and_state([{0: 0.5, 3: 0.5}, {3: 1.0}], made=4, milestones=[5])
    after, changes = pool.after_round(state, [{0: 0.6, 3: 0.4}, {3: 0.5}], 5, KEY)
    assert changes.clones == [(0, 4), (3, 7)]
    assert after["made"] == 8
    assert [sorted(mine) for mine in after["scores"]] == [[0, 3, 4, 7], [3, 7]]
    _, changes = pool.after_round(state, [{0: 0.6, 3: 0.4}, {3: 0.5}], 4, KEY)
    assert changes.clones == []


def test_only_what_survives_the_milestones_deletion_is_cloned():
    pool, state = pool_and_state([{0: 0.4, 1: 0.3, 2: 0.3}], made=4, milestones=[5])
    after, changes = pool.after_round(state, [{0: 0.6, 1: 0.3, 2: 0.1}], 5, KEY)
    assert changes.clones == [(0, 4), (1, 5)]
    assert changes.deleted == [2]
    assert sorted(after["scores"][0]) == [0, 1, 4, 5]


def test_a_clone_scores_one_minus_its_parent_then_all_are_normalised():
    """c = (0.6, 0.4); clones 0.4 and 0.6; the sum is 2: (0.3, 0.2, 0.2, 0.3)."""
    pool, state = pool_and_state([{0: 0.5, 1: 0.5}], made=2, milestones=[5])
    after, _ = pool.after_round(state, [{0: 0.6, 1: 0.4}], 5, KEY)
    assert after["scores"][0] == pytest.approx({0: 0.3, 1: 0.2, 2: 0.2, 3: 0.3})


def test_a_clones_window_starts_empty():
    """After the next round the parent's score has two accuracies behind it, the clone's one."""
    pool, state = pool_and_state([{0: 1.0}], made=1, milestones=[1])
    state, _ = pool.after_round(state, [{0: 0.4}], 1, KEY)
    state, _ = pool.after_round(state, [{0: 0.6, 1: 0.3}], 2, KEY)
    assert state["scores"][0] == pytest.approx({0: 0.5 / 0.8, 1: 0.3 / 0.8})


def test_milestones_5_15_25_make_eight_models():
    pool = in_dicts(clone_and_delete([5, 15, 25], score_noise=0.0, keep_at_least=8))
    state = pool.init(1)
    assert pool.metrics(state, None)["active_models"] == 1
    for round in range(1, 31):
        state, _ = pool.after_round(state, [dict.fromkeys(state["scores"][0], 0.5)], round, KEY)
        if round in (4, 5, 15, 25):
            assert len(state["scores"][0]) == state["made"] == {4: 1, 5: 2, 15: 4, 25: 8}[round]


def test_scores_are_sent_with_noise_of_the_devices_own():
    """At the first milestone c = (1, 0); what is sent is noisy, positive, normalised, and differs between devices."""
    pool, state = pool_and_state([{0: 1.0}] * 200, made=1, milestones=[1], score_noise=0.01)
    after, _ = pool.after_round(state, [{0: 0.5}] * 200, 1, KEY)
    assert after["scores"] == [pytest.approx({0: 1.0, 1: 0.0})] * 200  # what the device itself goes by is exact
    sent = np.array([[mine[0], mine[1]] for mine in after["sent"]])
    np.testing.assert_allclose(sent.sum(axis=1), 1.0)
    assert (sent > 0).all()
    assert len(np.unique(sent[:, 1])) > 90  # about half of the noise is negative and cut off just above 0
    assert 0.001 < sent[:, 1].std() < 0.01
    assert [pool.scores(after, 1, [i])[0] for i in range(3)] == [after["sent"][i][1] for i in range(3)]
    again, _ = pool.after_round(state, [{0: 0.5}] * 200, 1, KEY)
    assert again["sent"] == after["sent"]
    assert pool.after_round(state, [{0: 0.5}] * 200, 1, rng.key(1, "pool"))[0]["sent"] != after["sent"]


def test_the_size_of_the_noise_is_a_setting():
    """Scores 0.5 and 0.5 with noise of std 0.02: the difference, normalised by about 1, has std 0.02 sqrt(2)."""
    pool, state = pool_and_state([{0: 0.5, 1: 0.5}] * 500, made=2, score_noise=0.02)
    after, _ = pool.after_round(state, [{0: 0.5, 1: 0.5}] * 500, 1, KEY)
    difference = np.array([mine[0] - mine[1] for mine in after["sent"]])
    assert difference.std() == pytest.approx(0.02 * 2**0.5, rel=0.1)
    quiet, state = pool_and_state([{0: 0.5, 1: 0.5}], made=2, score_noise=0.0)
    assert quiet.after_round(state, [{0: 0.6, 1: 0.4}], 1, KEY)[0]["sent"] == [pytest.approx({0: 0.6, 1: 0.4})]


def test_a_device_uses_its_best_measured_model_not_an_untried_clone():
    """c = (0.25, 0.4, 0.35): the clone of model 0 gets 0.75 by rule, more than any, yet nobody has tried it."""
    pool, state = pool_and_state([{0: 0.4, 1: 0.3, 2: 0.3}] * 2, made=4, milestones=[5], keep_at_least=3)
    after, _ = pool.after_round(state, [{0: 0.25, 1: 0.4, 2: 0.35}, {0: 0.9, 1: 0.8, 2: 0.7}], 5, KEY)
    assert max(after["scores"][0], key=after["scores"][0].get) == 4
    assert list(pool.choice(after)) == [1, 0]
    assert list(pool.choice(pool.init(2))) == [0, 0]


def test_devices_train_the_models_they_keep():
    pool, state = pool_and_state([{0: 0.5, 1: 0.5}, {1: 1.0}, {0: 1.0}], made=2)
    assert pool.trainers(state, [0, 1]) == {0: [0], 1: [0, 1]}
    assert pool.trainers(state, [2]) == {0: [2]}
    assert list(pool.scores(state, 1, [0, 1])) == [0.5, 1.0]


def test_metrics_by_hand():
    """Devices of groups 0, 0, 1: models kept 2, 1, 1; score std 0.1, 0, 0; choices 0, 1, 1."""
    pool, state = pool_and_state([{0: 0.6, 1: 0.4}, {1: 1.0}, {1: 1.0}], made=2)
    values = pool.metrics(state, [0, 0, 1])
    assert values["active_models"] == 2
    assert values["kept_models"] == 4
    assert values["most_kept_by_a_device"] == 2
    assert values["score_std"] == pytest.approx(0.1 / 3)
    assert values["choice"] == [0, 1, 1]
    assert values["group_choice"] == [0, 1]  # a tie goes to the older model


def test_accuracies_of_zero_score_evenly():
    assert scores_after({0: 0.0, 1: 0.0})[0] == {0: 0.5, 1: 0.5}


@pytest.mark.parametrize(("settings", "message"), [
    ({"window": 0}, "window and keep_at_least must be at least 1, got 0 and 2"),
    ({"keep_at_least": 0}, "must be at least 1"),
    ({"score_noise": -0.1}, "score_noise must not be negative"),
    ({"milestones": [0, 5]}, r"milestones are rounds from 1 on, got \[0, 5\]"),
    ({"milestones": list(range(1, 64))}, "at most 62 milestones, each of which doubles the number of models; got 63"),
])
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(askew.AskewError, match=message):
        clone_and_delete(**settings)


def test_in_a_run_models_are_cloned_weighted_and_forgotten():
    """Archetypes with opposite labels part ways: after the milestone the models differ, and the records fit."""
    recipe = askew.Recipe(population="hierarchical(clients=10)", pool="clone_and_delete(milestones=[2, 4])", rounds=6,
                          server=["mean(weights='score')"], fraction=0.5)
    result = askew.run(recipe)
    active = [record["active_models"] for record in result.records]
    assert active[:2] == [1, 2]
    assert max(active) > 2
    last = result.simulation
    assert set(last.models) == {m for mine in as_dicts(last.pool_state)["scores"] for m in mine}
    assert len(last.models) == active[-1]
    weights = [entry.model.params["fc1.weight"] for entry in last.models.values()]
    assert all(not np.allclose(a, b) for i, a in enumerate(weights) for b in weights[:i])
    assert set(result.records[-1]["choice"]) <= set(last.models)
    assert len(result.records[-1]["group_choice"]) == 10

"""One model for everybody."""

import numpy as np

from askew.core import rng
from askew.pieces.pool import single_model


def test_everybody_trains_and_uses_model_0():
    pool = single_model()
    state = pool.init(4)
    assert pool.trainers(state, [1, 3]) == {0: [1, 3]}
    assert list(pool.scores(state, 0, [1, 3])) == [1.0, 1.0]
    assert list(pool.choice(state)) == [0, 0, 0, 0]
    models, kept = pool.keeps(state)
    assert (models, kept.tolist()) == ([0], [[True]] * 4)
    after, changes = pool.after_round(state, np.zeros((4, 1)), 1, rng.key(0, "pool"))
    assert (after, changes.clones, changes.deleted) == (state, (), ())
    assert pool.metrics(state, None) == {}
    assert not pool.needs_validation

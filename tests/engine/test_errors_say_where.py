"""The reference engine: an error of a network or a piece names client, round and step."""

import pytest
import torch
from torch import nn

import askew


class FailsLater(nn.Module):
    """Fails at the seventh batch."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(64, 10), 0

    def forward(self, x):
        self.calls += self.training and torch.is_grad_enabled()
        if self.calls == 7:
            raise ValueError("the seventh batch")
        return self.layer(x.flatten(1))


def test_the_note_names_client_round_and_step():
    recipe = askew.Recipe(population="iid(clients=4)", batch_size=120, rounds=3)  # 1,437 examples: 3 steps per client
    with pytest.raises(ValueError, match="the seventh batch") as caught:
        askew.run(recipe, model=FailsLater(), engine="sequential")
    assert caught.value.__notes__ == ["askew: client 2, round 1, local step 1 of 3"]

"""A network of your own: any nn.Module that takes a batch and returns logits.

    python examples/own_network.py
"""

import torch
from torch import Tensor, nn

import askew


class Gated(nn.Module):
    """Digits (8 x 8 pixels) through a gate that decides which of 32 features count."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.gate, self.out = nn.Linear(64, 32), nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.out(torch.relu(self.features(x)) * torch.sigmoid(self.gate(x)))


def main() -> None:
    recipe = askew.Recipe(population="shards(clients=10, shards_per_client=2)", client="sgd(lr=0.3)", rounds=10)
    torch.manual_seed(0)  # the network's first weights are yours
    network = Gated()
    # The same numbers, whether clients train one after the other or all as one computation.
    for engine in ("sequential", "vectorised"):
        print(f"{engine}: accuracy {askew.run(recipe, model=network, engine=engine).accuracy:.3f}")


if __name__ == "__main__":
    main()

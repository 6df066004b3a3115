"""Data and clients of your own: tensors in memory, and who owns which example.

    python examples/own_data.py
"""

import torch

import askew
from askew.core import skew


def main() -> None:
    # 600 points around three corners of a square; labels are 0, 1, 2.
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(600) % 3
    corners = torch.tensor([[0.0, 0.0], [0.0, 3.0], [3.0, 0.0]])
    x = corners[y] + torch.randn(600, 2, generator=generator)
    data = askew.Dataset.from_tensors((x[:480], y[:480]), (x[480:], y[480:]), name="corners", classes=("a", "b", "c"))

    # askew's schemes divide any data ...
    recipe = askew.Recipe(population="dirichlet(clients=6, alpha=0.1)", batch_size=16, rounds=5)
    print(f"divided by a Dirichlet draw: accuracy {askew.run(recipe, data=data).accuracy:.3f}")

    # ... or you say whose each example is: here one class per client.
    owned = askew.Ownership.of([[i for i in range(480) if y[i] == label] for label in range(3)])
    population = askew.Population.of(owned, data.train.y.numpy(), data.num_classes)
    result = askew.run(recipe, data=data, population=population)
    print(f"one class per client, EMD {skew.mean_emd(population.counts):.2f}: accuracy {result.accuracy:.3f}")


if __name__ == "__main__":
    main()

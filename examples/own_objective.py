"""A loss and a measure of your own: a time within which nine of ten deliveries arrive.

    python examples/own_objective.py

docs/objectives.md says what else an objective may hold.
"""

import torch
from torch import Tensor, nn

import askew


@askew.piece("objective")
def quantile(q: float = 0.9) -> askew.Objective:
    """The pinball loss, least where a share q of the targets lies below the output; `too_late`: those above."""

    def losses(output: Tensor, target: Tensor) -> Tensor:
        late = (target - output)[:, 0]
        return torch.maximum(q * late, (q - 1) * late)

    def measures(output: Tensor, target: Tensor) -> dict[str, Tensor]:
        return {"pinball": losses(output, target), "too_late": (target > output)[:, 0].float()}

    return askew.Objective(losses, measures, headline="pinball", higher_is_better=False, targets="numbers")


def main() -> None:
    torch.manual_seed(0)
    x = torch.rand(3_000, 4)  # distance, weight, traffic, rain
    y = (2 * x[:, :1] + x[:, 2:3]) * (1 + torch.rand(len(x), 1))
    data = askew.Dataset.from_tensors((x[:2_500], y[:2_500]), (x[2_500:], y[2_500:]), targets="numbers")
    network = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    recipe = askew.Recipe(population="iid(clients=10)", objective="quantile(0.9)", client="sgd(lr=0.1)", rounds=30)
    last = askew.run(recipe, data=data, model=network).records[-1]
    print(f"{last['too_late']:.0%} come later than promised; pinball loss {last['pinball']:.3f}")


if __name__ == "__main__":
    main()

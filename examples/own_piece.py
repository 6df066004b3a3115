"""A step of your own at the server: forget the smallest changes.

    python examples/own_piece.py

docs/add-a-method.md says what else a piece may do, and how one becomes part of askew.
"""

from typing import Any

from torch import Tensor

import askew

Update = dict[str, Tensor]


@askew.piece("server")
def keep_largest(share: float = 0.1) -> askew.ServerPiece:
    """Of each tensor of the mean update keep the largest entries, `share` of them; the rest becomes 0."""

    def update(u: Update, state: Any, ctx: askew.ServerContext) -> tuple[Update, Any]:
        kept = {}
        for name, change in u.items():
            size = change.abs().flatten()
            smallest = size.sort(descending=True).values[max(1, round(share * len(size))) - 1]
            kept[name] = change * (change.abs() >= smallest)
        return kept, state

    return askew.ServerPiece(update)


def main() -> None:
    base = askew.Recipe(population="dirichlet(clients=10, alpha=0.1)", rounds=10)
    for share in (1.0, 0.3, 0.1):
        # A recipe names it like any other piece.
        recipe = base.replace(server=("mean()", f"keep_largest(share={share})"))
        print(f"{share:.0%} of the weights change per round: accuracy {askew.run(recipe).accuracy:.3f}")


if __name__ == "__main__":
    main()

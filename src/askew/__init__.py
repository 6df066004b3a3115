"""askew: federated learning on data that is not identically distributed.

    import askew

    result = askew.run(askew.Recipe(population="dirichlet(clients=10, alpha=0.1)", rounds=20))
    print(result.accuracy)

The pieces are in `askew.client`, `askew.server`, `askew.pool`, `askew.partition`, `askew.data` and `askew.models`;
the methods of the papers in `askew.recipes`.
"""

from typing import Any

from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError, DivergedError
from askew.core.population import Ownership, Population
from askew.core.recipe import Recipe
from askew.core.registry import piece
from askew.core.transform import Context, Transform, chain
from askew.simulate.run import Result, resume, run

__all__ = ["AskewError", "Context", "Dataset", "DivergedError", "Examples", "Ownership", "Population", "Recipe", "Result",
           "Transform", "chain", "piece", "resume", "run"]


def __getattr__(name: str) -> Any:
    """`askew.recipes` without an import of its own; it is loaded when asked for."""
    if name == "recipes":
        import askew.recipes

        return askew.recipes
    raise AttributeError(f"module 'askew' has no attribute {name!r}")

"""askew: federated learning on data that is not identically distributed.

    import askew

    result = askew.run(askew.Recipe(population="dirichlet(clients=10, alpha=0.1)", rounds=20))
    print(result.accuracy)

The pieces are in `askew.pieces`, `askew.partition`, `askew.data` and `askew.models`; the methods of the papers in
`askew.methods`. Nothing is loaded before it is asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from askew.core.dataset import Dataset, Examples
    from askew.core.errors import AskewError, DivergedError
    from askew.core.population import Ownership, Population
    from askew.core.recipe import Recipe
    from askew.core.registry import piece
    from askew.core.transform import Context, Transform, chain
    from askew.pieces import methods
    from askew.runs.result import Result
    from askew.runs.run import resume, run

_HOMES = {"Dataset": "core.dataset", "Examples": "core.dataset", "AskewError": "core.errors", "DivergedError": "core.errors",
          "Ownership": "core.population", "Population": "core.population", "Recipe": "core.recipe", "piece": "core.registry",
          "Context": "core.transform", "Transform": "core.transform", "chain": "core.transform",
          "Result": "runs.result", "resume": "runs.run", "run": "runs.run"}

__all__ = ["AskewError", "Context", "Dataset", "DivergedError", "Examples", "Ownership", "Population", "Recipe", "Result",
           "Transform", "chain", "methods", "piece", "resume", "run"]


def __getattr__(name: str) -> Any:
    if name == "methods":
        return importlib.import_module("askew.pieces.methods")
    if name not in _HOMES:
        raise AttributeError(f"module 'askew' has no attribute {name!r}")
    return getattr(importlib.import_module(f"askew.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

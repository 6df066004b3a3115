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
    from askew import data, models, partition, pieces, privacy, testing, tracking
    from askew.advice.advise import advise
    from askew.core.adversity import Adversity, AdversityContext
    from askew.core.client_piece import ClientContext, ClientPiece, OnGradient, OnUpdate, Optimiser
    from askew.core.dataset import Dataset, Examples
    from askew.core.errors import AskewError, DivergedError
    from askew.core.guard import Guard
    from askew.core.objective import Objective
    from askew.core.ownership import Ownership
    from askew.core.population import Population
    from askew.core.recipe import Recipe
    from askew.core.registry import piece
    from askew.core.server_piece import Aggregator, ServerContext, ServerPiece
    from askew.core.statistic import Senders, Statistic
    from askew.pieces import methods
    from askew.runs.result import Result
    from askew.runs.run import resume, run
    from askew.runs.trained import load

_HOMES = {name: home for home, names in {
    "advice.advise": ("advise",),
    "core.adversity": ("Adversity", "AdversityContext",),
    "core.dataset": ("Dataset", "Examples",),
    "core.errors": ("AskewError", "DivergedError",),
    "core.guard": ("Guard",),
    "core.objective": ("Objective",),
    "core.ownership": ("Ownership",),
    "core.population": ("Population",),
    "core.recipe": ("Recipe",),
    "core.registry": ("piece",),
    "core.client_piece": ("ClientContext", "ClientPiece", "OnGradient", "OnUpdate", "Optimiser",),
    "core.server_piece": ("Aggregator", "ServerContext", "ServerPiece",),
    "core.statistic": ("Senders", "Statistic",),
    "runs.result": ("Result",),
    "runs.run": ("resume", "run",),
    "runs.trained": ("load",),
}.items() for name in names}
_MODULES = {"data": "data", "methods": "pieces.methods", "models": "models", "partition": "partition",
            "pieces": "pieces", "privacy": "privacy", "testing": "testing", "tracking": "tracking"}

__all__ = ["Adversity", "AdversityContext", "Aggregator", "AskewError", "ClientContext", "ClientPiece", "Dataset",
           "DivergedError", "Examples", "Guard", "Objective", "OnGradient", "OnUpdate", "Optimiser", "Ownership",
           "Population", "Recipe", "Result", "Senders", "ServerContext", "ServerPiece", "Statistic", "advise", "data",
           "load", "methods", "models", "partition", "piece", "pieces", "privacy", "resume", "run", "testing",
           "tracking"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"askew.{_MODULES[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module 'askew' has no attribute {name!r}")
    return getattr(importlib.import_module(f"askew.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

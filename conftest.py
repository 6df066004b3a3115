"""Examples in docstrings: they run with the tests, and leave no files."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

# Its files import Flower, which is an extra.
collect_ignore_glob = [] if find_spec("flwr") else ["src/askew/flower/*", "tests/flower/*"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First, for one worker, what is compiled: in each process the first takes 10 s more."""
    items.sort(key=lambda item: "compile" not in item.nodeid)


@pytest.fixture(autouse=True)
def _examples(request: pytest.FixtureRequest) -> Iterator[None]:
    """What an example finds without an import: askew, numpy, torch, pieces, methods, and rounds by hand."""
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    import numpy as np
    import torch

    import askew
    import askew.pieces.adversity
    import askew.pieces.client
    import askew.pieces.guard
    import askew.pieces.methods
    import askew.pieces.server
    import askew.pieces.statistic
    from askew.core import by_hand, registry

    where: Path = request.getfixturevalue("tmp_path")
    monkeypatch = request.getfixturevalue("monkeypatch")
    monkeypatch.chdir(where)
    # Pieces that an example files must not outlive it; askew's own, which file themselves when one is asked for, must.
    registry.names("server")
    monkeypatch.setattr(registry, "_PIECES", {kind: dict(pieces) for kind, pieces in registry._PIECES.items()})
    names = {"askew": askew, "np": np, "torch": torch}
    # Of two pieces with one name, the clients' and the server's quantize, the clients'.
    pieces = askew.pieces
    for module in (pieces.methods, pieces.statistic, pieces.adversity, pieces.guard, pieces.server, pieces.client):
        names |= {name: getattr(module, name) for name in module.__all__}
    by_name = ("adversity_context", "client_context", "client_message", "client_update", "server_context",
               "server_update")
    names |= {name: getattr(by_hand, name) for name in by_name}
    # A name that the example's own module has is the module's.
    request.node.dtest.globs = {**names, **request.node.dtest.globs}
    yield
    assert not list(where.iterdir()), "an example in a docstring must not write files"

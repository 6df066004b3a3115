"""The same recipe on Flower: a ServerApp, a ClientApp, and a federation of real processes to try them with.

Nothing of Flower is imported before one of these is asked for; `pip install 'askew[flower]'` brings it.
"""

from __future__ import annotations

import importlib
from typing import Any

_PLACES = {"server_app": "askew.flower.server", "client_app": "askew.flower.client",
           "NodeData": "askew.flower.node_data"}

__all__ = ["NodeData", "client_app", "server_app"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'askew.flower' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)

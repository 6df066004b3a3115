"""Recipes of earlier versions: their keys and calls as this version writes them.

Old names of pieces and arguments stand here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from askew.core.registry import Spec, read_call


def migrate(values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a recipe file, whichever version wrote it, as this version has them.

    Format 2 had a rate's schedule among the arguments of `sgd`.

    Example:
        >>> migrate({"step": ["sgd(lr=0.1, lr_decay=0.992)"], "rounds": 3})
        {'step': ['sgd(lr=decay(start=0.1, factor=0.992))'], 'rounds': 3}
    """
    return {key: _each(value, _with_schedule) if key == "step" else value for key, value in values.items()}


def _each(value: Any, change: Callable[[str], str]) -> Any:
    """Every text of a field that holds one piece or a list of them."""
    if isinstance(value, list | tuple):
        return [change(item) if isinstance(item, str) else item for item in value]
    return change(value) if isinstance(value, str) else value


def _with_schedule(call: str) -> str:
    """`sgd` with `lr_decay`, `lr_drops` and `lr_drop`, in any order or by position, as `sgd` with a schedule."""
    name, positional, named = read_call("client", call)
    order = ("lr", "momentum", "weight_decay", "lr_decay", "lr_drops", "lr_drop", "nesterov")
    by_position = len(positional) > 3 and not isinstance(positional[3], bool)  # now the fourth is nesterov
    if name != "sgd" or not (by_position or any(key in named for key in ("lr_decay", "lr_drops", "lr_drop"))):
        return call
    args = {**dict(zip(order, positional, strict=False)), **named}
    decay, drops, factor = args.pop("lr_decay", 1.0), args.pop("lr_drops", []), args.pop("lr_drop", 0.1)
    rate: Any = args.pop("lr", 0.1)
    if decay != 1:
        rate = Spec("decay", {"start": rate, "factor": decay})
    if drops:
        rate = Spec("drops", {"start": rate, "at": drops, "factor": factor})
    return str(Spec(name, {"lr": rate, **args}))

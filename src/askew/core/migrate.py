"""Recipes of earlier versions: their keys and calls as this version writes them.

Old names of pieces and arguments stand here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from askew.core.calls import read_call
from askew.core.registry import Spec

FIELDS_OF_COMBINATORS = ("hold_out", "hold_out_use", "share", "validation")
FIELDS_OF_CLIENTS = ("step", "upload")
# A piece's name then -> now.
RENAMED = {"askew.simulate.judge:accuracy_on_devices_of": "accuracy_on_devices_of",
           "askew.runs.judge:accuracy_on_devices_of": "accuracy_on_devices_of"}
DROPPED = {"accuracy_on_devices_of": ("of",)}  # arguments that say nothing any more
FIRST_STEP = "sgd(lr=0.1)"
FIRST_POPULATION = "shards(clients=10, shards_per_client=2)"  # these two: the defaults of recipes that had such fields


def migrate(values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a recipe file, whichever version wrote it, as this version has them.

    Format 2 had a rate's schedule among the arguments of `sgd`, four fields for what are combinators now, and modules'
    names in those of pieces; format 3 two fields, `step` and `upload`, for a client's pieces.

    Example:
        >>> migrate({"step": ["sgd(lr=0.1, lr_decay=0.992)"], "population": "iid(clients=4)", "hold_out": 0.1})
        {'population': 'iid(clients=4) + hold_out(fraction=0.1)', 'client': ['sgd(lr=decay(start=0.1, factor=0.992))']}
        >>> migrate({"upload": "quantize(8)"})
        {'client': ['sgd(lr=0.1)', 'quantize(8)']}
    """
    rest = {key: value for key, value in values.items() if key not in FIELDS_OF_COMBINATORS}
    if len(rest) < len(values) and isinstance(population := values.get("population", FIRST_POPULATION), str):
        rest["population"] = " + ".join([population, *_combinators(values)])
    if "client" not in rest and any(key in rest for key in FIELDS_OF_CLIENTS):
        rest["client"] = [*_listed(rest.pop("step", FIRST_STEP)), *_listed(rest.pop("upload", []))]
    changes = {"client": _with_schedule, "probes": _renamed}
    return {key: _each(value, changes[key]) if key in changes else value for key, value in rest.items()}


def _listed(value: Any) -> Sequence[Any]:
    """The pieces of a field, of which a single one may stand alone."""
    return value if isinstance(value, list | tuple) else [value]


def _combinators(values: Mapping[str, Any]) -> list[str]:
    """What the four fields said, in the order in which it happened; 0 was nothing."""
    held, use, shared, kept = (values.get(key) or None for key in FIELDS_OF_COMBINATORS)
    parts = {"hold_out": {"fraction": held, "use": use} if held else {},
             "share": {"fraction": shared}, "validation": {"fraction": kept}}
    specs = [Spec(name, {key: value for key, value in args.items() if value is not None})
             for name, args in parts.items()]
    return [str(spec) for spec in specs if spec.args]


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
    decay, drops, factor = args.pop("lr_decay", 1.0), args.pop("lr_drops", []), args.pop("lr_drop", None)
    rate: Any = args.pop("lr", 0.1)
    if decay != 1:
        rate = Spec("decay", {"start": rate, "factor": decay})
    if drops:
        rate = Spec("drops", {"start": rate, "at": drops} | ({} if factor is None else {"factor": factor}))
    return str(Spec(name, {"lr": rate, **args}))


def _renamed(call: str) -> str:
    """A piece by the name that it has now."""
    name, _, named = read_call("probe", call)  # only programs wrote these, with arguments by name
    if name not in RENAMED:
        return call
    return str(Spec(RENAMED[name], {key: value for key, value in named.items() if key not in DROPPED[RENAMED[name]]}))

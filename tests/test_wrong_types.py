"""Every public callable takes anything for any argument: it works, or says in one line why not."""

from __future__ import annotations

import importlib
import inspect
import math
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import askew
from askew.advice import candidates
from askew.core import registry
from askew.core.dataset import Source
from askew.core.population_spec import PopulationSpec
from askew.core.registry import Spec
from askew.core.skew import emd
from askew.pieces.client import sgd
from askew.pieces.pool import clone_and_delete
from askew.pieces.schedule import decay, drops
from askew.pieces.start import pretrained
from askew.runs.sweep import grid

WRONG = [None, "", "x", -1, 0, 1.5, math.nan, math.inf, 10**30, True, [], {}, object(), b"", np.array([]),
         np.array(["x"]), torch.tensor(1.0), len, Path(".")]
# Beyond askew.__all__: modules of which everything with a public name is for users.
MODULES = ("data", "models", "partition", "core.skew", "runs.sweep", "privacy", "testing")
# What users do not call, but engines, at every step, with their own tensors; and what is there to be overridden.
OF_ENGINES = ("Adversity.strikes", "AdversityContext.of", "Objective.loss", "Objective.scores",
              "Objective.check_output", "Statistic.", "runs.compare.write_table")
# Python's own answer to a wrong number of arguments, also of a function that was given (`on_round=len`).
NUMBER_OF_ARGUMENTS = re.compile(r"argument|positional")

TINY = askew.Recipe(population="iid(clients=2)", model="mlp(hidden=[2])", batch_size=0, rounds=1)
X, Y = torch.zeros(8, 2), torch.arange(8) % 2
DATA = askew.Dataset.from_tensors((X, Y), (X, Y))
SOURCE = Source.of(DATA)
POPULATION = askew.partition.draw("iid(clients=2)", SOURCE)
EXAMPLES = [(torch.zeros(3), 0), (torch.ones(3), 1)]
COUNTS = np.array([[2, 1], [0, 3]])


class Rows(list):
    """What `from_huggingface` reads."""

    column_names = ("image", "label")

    def select_columns(self, names: Any) -> Rows:
        return self

    def __getitem__(self, at: Any) -> Any:
        return [row[at] for row in self] if isinstance(at, str) else super().__getitem__(at)


ROWS = Rows([{"image": [0.0], "label": 0}, {"image": [1.0], "label": 1}])
# A value for each parameter that has no default, by name or by `callable.name`. A new one needs a line here.
SAMPLES: dict[str, Any] = {
    "recipe": TINY, "recipes": [TINY], "compare.recipes": {"a": TINY}, "base": TINY, "seeds": [0],
    "axes": {"seed": [0, 1]}, "settings": {"seed": 1}, "address": "seed", "value": 1, "values": {"seed": 1},
    "text": "seed = 1",
    # data
    "data": DATA, "load.spec": "digits", "examples": DATA.train, "train": DATA.train, "test": DATA.test, "x": X, "y": Y,
    "from_tensors.train": (X, Y), "from_tensors.test": (X, Y), "from_torch_dataset.train": EXAMPLES,
    "from_torch_dataset.test": EXAMPLES, "from_huggingface.train": ROWS, "from_huggingface.test": ROWS,
    "name": "x", "label": "x", "path": "missing", "folder": "missing", "save.path": "kept.npz", "device": "cpu",
    # federations
    "source": SOURCE, "population": POPULATION, "draw.population": "iid(clients=2)", "clients": 2, "alpha": 1.0,
    "spec": PopulationSpec.of("iid(clients=2)"), "accuracy_on_devices_of.population": "iid(clients=2)",
    "partition.emd.emd": 0.5, "fraction": 0.5, "shards_per_client": 1, "classes": 1, "Dataset.classes": ("a", "b"),
    "Population.train": POPULATION.train, "Population.of.train": POPULATION.train, "parts": [[0], [1]],
    "indices": np.arange(2), "offsets": np.array([0, 1, 2]), "owner": np.array([0, 1]), "num_clients": 2,
    "labels": np.arange(8) % 2, "positions": np.arange(8), "correct": np.ones(8), "class_accuracy": np.ones(2),
    "level": 0.1, "chance_level.measure": emd,
    "counts": COUNTS, "sizes": np.array([3, 3]), "reference": np.array([0.5, 0.5]),
    # networks
    "num_classes": 2, "input_shape": (1, 32, 32), "hello_edge_cnn.input_shape": (1, 50, 10),
    "bag_of_words.input_shape": (5,),
    "mcmahan_mnist_cnn.input_shape": (1, 28, 28), "fednnnn_mnist_cnn.input_shape": (1, 28, 28),
    "mcmahan_cifar_cnn.input_shape": (3, 24, 24),
    # pieces
    "piece": "scale(lr=0.5)", "mu": 0.1, "length": 1.0, "radius": 1.0, "std": 0.1, "names": ["a"], "multiplier": 0.1,
    "theta": 1.0, "start": 0.1, "to": 0.1, "at": [1], "factor": 0.5, "rounds": 3, "noise": 1.0, "delta": 1e-5,
    "losses": lambda output, target: (output - target).square(), "update": lambda u, state, ctx: (u, state),
    # what engines make
    "target": 0.5, "score": 0.5, "records": [{"round": 1, "accuracy": 0.5, "loss": 1.0}], "model": {}, "seconds": 1.0,
    "message": "x", "round": 0, "params": {}, "key": torch.tensor(0), "cohort": None, "steps": torch.ones(2),
    "struck": lambda ctx: ctx.clients > 0, "refuses": lambda lengths: {}, "epochs": 1, "federation": 2, "groups": None,
    "lasting_key": torch.tensor(0), "what": "train", "size": 8, "other": POPULATION.train,
    "scores": torch.ones(2), "Senders.clients": [0, 1], "Senders.losses": torch.ones(2),
}
# What is given besides, so that a call that works is short; what takes seconds where it works; what half a minute.
BESIDES = {"testing.check_piece": {"recipe": TINY, "compiled": False},
           "advise": {"base": TINY.replace(population="iid(clients=2) + subset(0.05)"), "methods": ["fedavgm"],
                      "budget": 1e-6}}  # minutes: no contest is begun
SLOW, SLOWEST = {"advise", "testing.check_piece"}, {("testing.check_piece", "compiled")}
SELF: dict[str, Any] = {"Dataset": DATA, "Examples": DATA.train, "Ownership": POPULATION.train,
                        "Population": POPULATION, "Recipe": TINY,
                        "Objective": askew.Objective(lambda output, target: output),
                        "Result": askew.Result(TINY, [{"round": 1, "accuracy": 0.5, "loss": 1.0}], {}, 1.0)}


def functions(module: Any, label: str) -> Iterator[tuple[str, Any]]:
    public = getattr(module, "__all__", [name for name, value in vars(module).items() if not name.startswith("_")
                                         and inspect.isfunction(value) and value.__module__ == module.__name__])
    for name in public:
        value = getattr(module, name)
        if inspect.isclass(value):
            yield f"{label}{name}", value
            for method, raw in vars(value).items():
                own = inspect.isfunction(raw) or isinstance(raw, classmethod)
                if own and not method.startswith("_") and method not in getattr(value, "__dataclass_fields__", {}):
                    yield f"{label}{name}.{method}", getattr(SELF.get(name, value), method)
        elif callable(value):
            yield f"{label}{name}", value


def callables() -> dict[str, Callable[..., Any]]:
    found = dict(functions(askew, ""))
    for name in MODULES:
        found |= functions(importlib.import_module(f"askew.{name}"), f"{name}.")
    found["runs.compare.compare"] = importlib.import_module("askew.runs.compare").compare
    for kind in registry.KINDS:
        for name in registry.names(kind):
            if registry.find(kind, name).__module__.startswith("askew."):
                found[f"{kind}: {name}"] = registry.find(kind, name)
    return {label: call for label, call in found.items() if not label.startswith(OF_ENGINES)}


CALLABLES = callables()


def sample(label: str, name: str) -> Any:
    place = re.split(r"[.: ]+", label)
    for key in (f"{'.'.join(place[-2:])}.{name}", f"{place[-1]}.{name}", name):
        if key in SAMPLES:
            return SAMPLES[key]
    raise AssertionError(f"{label} has a parameter {name!r}: give it a value in SAMPLES")


def arguments(label: str) -> dict[str, inspect.Parameter]:
    return {name: p for name, p in inspect.signature(CALLABLES[label]).parameters.items()
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def attempt(label: str, given: dict[str, Any]) -> str | None:
    """None where it works or says why not in one line; else what it raised."""
    try:
        CALLABLES[label](**given)
    except askew.AskewError as error:
        return f"more than one line: {error}" if "\n" in str(error) or not str(error) else None
    except TypeError as error:
        return None if NUMBER_OF_ARGUMENTS.search(str(error)) else f"TypeError: {error}"
    except AssertionError as error:  # of check_piece: what it is there to say
        return None if label.endswith("check_piece") and "\n" not in str(error) else f"AssertionError: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASKEW_DATA", str(tmp_path))
    # A contest that is held all the same has two settings of each method.
    monkeypatch.setattr(candidates, "RATES", (1.0,))
    monkeypatch.setattr(candidates, "FINE_RATES", (1.0, 3.0))


@pytest.mark.parametrize("label", [pytest.param(label, marks=[pytest.mark.slow] * (label in SLOW))
                                   for label in CALLABLES])
def test_anything_for_any_argument_works_or_gets_one_line(label: str) -> None:
    base = {name: sample(label, name) for name, p in arguments(label).items() if p.default is p.empty}
    base, wrong = base | BESIDES.get(label, {}), []
    for name in [name for name in arguments(label) if (label, name) not in SLOWEST]:
        for value in WRONG:
            with warnings.catch_warnings(record=True):
                if (said := attempt(label, {**base, name: value})) is not None:
                    wrong.append(f"{label}({name}={value!r}): {said}"[:300])
    assert not wrong, "\n" + "\n".join(wrong)


WELCOME = {
    "whole numbers of numpy": ({"rounds": np.int64(3), "seed": np.uint8(2)}, {"rounds": 3, "seed": 2}),
    "whole numbers of torch": ({"rounds": torch.tensor(3)}, {"rounds": 3}),
    "fractions of numpy": ({"fraction": np.float32(0.5)}, {"fraction": 0.5}),
    "a rate of numpy": ({"client": sgd(lr=np.float64(0.25))}, {"client": "sgd(lr=0.25)"}),
    "a rate of torch": ({"client": sgd(lr=torch.tensor(0.25))}, {"client": "sgd(lr=0.25)"}),
    "rates inside rates": ({"client": sgd(lr=decay(torch.tensor(0.25), np.float32(0.5)))},
                           {"client": "sgd(lr=decay(0.25, 0.5))"}),
    "an array of rounds": ({"client": sgd(lr=drops(0.1, at=np.array([2, 3])))},
                           {"client": "sgd(lr=drops(0.1, at=[2, 3]))"}),
    "a tuple, a range": ({"model": Spec("mlp", {"hidden": (4, 2)}), "client": sgd(lr=drops(0.1, at=range(2)))},
                         {"model": "mlp(hidden=[4, 2])", "client": "sgd(lr=drops(0.1, at=[0, 1]))"}),
    "milestones": ({"pool": clone_and_delete(np.array([1, 2]))}, {"pool": "clone_and_delete(milestones=[1, 2])"}),
    "a path": ({"start": pretrained(Path("a") / "b")}, {"start": "pretrained(path='a/b')"}),
    "words of numpy": ({"judge": np.str_("global"), "server": np.array(["mean()"])}, {"judge": "global"}),
    "truth of numpy": ({"client": sgd(0.1, momentum=0.5, nesterov=np.bool_(True))},
                       {"client": "sgd(0.1, momentum=0.5, nesterov=True)"}),
}


@pytest.mark.parametrize(("given", "plain"), WELCOME.values(), ids=WELCOME)
def test_numbers_of_numpy_and_torch_and_paths_are_welcome(given: dict[str, Any], plain: dict[str, Any]) -> None:
    """The recipe is the same value as one with plain numbers, and survives the trip through a file."""
    recipe = askew.Recipe(**given)
    assert recipe == askew.Recipe(**plain)
    assert recipe.fingerprint == askew.Recipe(**plain).fingerprint
    assert askew.Recipe.from_toml(recipe.to_toml()) == recipe


def test_a_grid_of_numpy_numbers_is_that_of_plain_ones() -> None:
    of_arrays = grid(TINY, {"sgd.lr": np.array([0.1, 0.2]), "seed": np.arange(2)})
    assert of_arrays == grid(TINY, {"sgd.lr": [0.1, 0.2], "seed": [0, 1]})


@pytest.mark.parametrize(("changes", "message"), [
    ({"batch_size": 10**18}, "batch_size must be at most 1,000,000,000"),
    ({"rounds": 10**30}, "rounds must be at most 1,000,000,000"),
    ({"seed": 2**64}, "seed must be a number of 64 bits"),
    ({"epochs": 10**9}, "epochs: 1,000,000,000 over 719 examples make a client's round of 719,000,000,000 examples; "
     "take fewer"),
    ({"population": f"iid(clients={10**12})"}, "iid: clients=1000000000000 but there are only 1437 examples"),
    ({"population": "power_law(clients=10, exponent=1e30)"}, "the smallest of 10 clients would have nothing"),
    ({"model": f"mlp(hidden=[{10**10}])"}, r"mlp\(hidden=\[10000000000\]\) would have 3,000.0 GB of weights, and this "
     r"machine can spare"),
    ({"model": f"mlp(hidden=[{10**18}])"}, "model: .* cannot be built: "),
    ({"preprocess": "random_crop(padding=1000000000)"}, "random_crop: padding=1000000000 is more than the images of 8 "
     "x 8"),
    ({"client": "sgd(lr=drops(0.1, at=[0, 0], factor=1e300))"}, r"drops: factor must be in \[0, 1\], got 1e\+300"),
])
def test_huge_numbers_are_refused_before_any_memory_is_taken(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(askew.AskewError, match=message):
        askew.run(TINY.replace(**changes))

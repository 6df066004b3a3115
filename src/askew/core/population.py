"""Who owns which examples: the result of every partition, the input of every diagnostic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from askew.core import skew
from askew.core.arguments import check_fields, checked
from askew.core.arrays import read_arrays
from askew.core.bounds import Count
from askew.core.dataset import Dataset
from askew.core.errors import AskewError, first_line, shown
from askew.core.files import check_new, written
from askew.core.ownership import Ownership, has_twice, whole_numbers

FORMAT = "askew population 1"


@dataclass(frozen=True)
class Population:
    """A federation: what each client owns, and how it was drawn.

    Args:
        train: indices into the training examples.
        counts: training examples per client and class.
        scheme: how it was drawn, as a recipe writes it.
        seed: the seed it was drawn with.
        validation: each device's validation examples (indices into the *training* examples, disjoint from `train`),
            for schemes that give it some.
        test: each device's own test examples (indices into the *test* examples), likewise.
        server: training examples that stay with the server and belong to no client.
        groups: the archetype of each client, where the scheme has archetypes.
        class_totals: examples of each class in the whole training set that was divided; EMD compares with it.
        noise: standard deviation of the noise on each client's inputs, where there is some (`feature_noise`).
        noise_mixed: the levels of `noise` go to examples in turn, whoever has them; else each client has its own.
    """

    train: Ownership
    counts: np.ndarray
    scheme: str = ""
    seed: int = 0
    validation: Ownership | None = None
    test: Ownership | None = None
    server: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    groups: np.ndarray | None = None
    class_totals: np.ndarray | None = None
    noise: np.ndarray | None = None
    noise_mixed: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        clients = len(self.train)
        if clients == 0:
            raise AskewError("a population needs at least one client")
        fits = self.counts.ndim == 2 and len(self.counts) == clients
        if not fits or (self.counts.sum(axis=1) != self.train.sizes).any():
            raise AskewError(f"population: counts of shape {self.counts.shape} are not those of {clients} clients with "
                             f"{len(self.train.indices)} examples")
        for name in ("validation", "test", "groups", "class_totals"):
            wanted = self.num_classes if name == "class_totals" else clients
            length = wanted if getattr(self, name) is None else len(getattr(self, name))
            if length != wanted:
                raise AskewError(f"population: {name} has {length} entries; {wanted} are needed")
        if self.noise is not None and (self.noise.ndim != 1 or not len(self.noise) or not np.isfinite(self.noise).all()
                                       or self.noise.min() < 0 or not (self.noise_mixed or len(self.noise) == clients)):
            raise AskewError(f"population: noise must hold one standard deviation for each of {clients} clients, not "
                             f"{shown(self.noise)}")
        empty = np.flatnonzero(self.train.sizes == 0)
        if len(empty):
            raise AskewError(f"{self.scheme or 'population'}: client {empty[0]} has no examples "
                             f"({len(empty)} of {len(self.train)} are empty); ask for fewer clients or less skew")

    @classmethod
    @checked
    def of(cls, train: Ownership, labels: np.ndarray, num_classes: Count, **rest: Any) -> Population:
        """From the training indices and the labels they point to."""
        labels = whole_numbers("population: labels", labels)
        train.check_below("train", len(labels), "these labels")
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < num_classes:
            raise AskewError(f"population: labels {labels.min()}..{labels.max()} are not those of {num_classes} "
                             "classes")
        totals = np.bincount(labels, minlength=num_classes)
        return cls(train, train.counts(labels, num_classes), class_totals=totals, **rest)

    @property
    def num_clients(self) -> int:
        return len(self.train)

    @property
    def num_classes(self) -> int:
        return int(self.counts.shape[1])

    @property
    def sizes(self) -> np.ndarray:
        """Training examples of each client."""
        return self.train.sizes

    @property
    def emd(self) -> np.ndarray:
        """Each client's earth mover's distance from the whole (zhao2018)."""
        return skew.emd(self.counts, self.class_totals)

    @property
    def mean_emd(self) -> float:
        """The plain mean of the clients' EMD."""
        return float(self.emd.mean())

    @property
    def entropy(self) -> np.ndarray:
        """Entropy of each client's class distribution, in bits."""
        return skew.entropy(self.counts)

    @property
    def classes_per_client(self) -> np.ndarray:
        """How many classes each client has examples of."""
        return skew.classes_per_client(self.counts)

    @checked
    def names(self, data: Dataset) -> list[str]:
        """The clients' names: of their natural owners, where each has what one owner alone has; else their numbers.

        Examples that several clients have (the server's, handed out) say nothing of their owner.

        Example:
            >>> x, y = torch.zeros(3, 2), torch.tensor([0, 1, 1])
            >>> data = askew.Dataset("visits", askew.Examples(x, y), askew.Examples(x, y), ("ill", "well"),
            ...                      np.array([1, 0, 1]), client_names=("north", "south"))
            >>> Population.of(Ownership.of([[0, 2], [1]]), y.numpy(), 2).names(data)
            ['south', 'north']
            >>> Population.of(Ownership.of([[0, 1], [2]]), y.numpy(), 2).names(data)
            ['0', '1']
        """
        self.train.check_below("train", len(data.train), data.name)
        if data.client_ids is not None:
            ids, code = np.unique(data.client_ids, return_inverse=True)
            times = np.bincount(self.train.indices, minlength=len(data.train))
            owner = np.repeat(np.arange(self.num_clients), self.sizes)
            unshared = times[self.train.indices] == 1
            pairs = np.unique(np.stack([owner[unshared], code[self.train.indices[unshared]]]), axis=1)
            if pairs.shape[1] == self.num_clients == len(np.unique(pairs[0])) == len(np.unique(pairs[1])):
                return [str(i) if data.client_names is None else data.client_names[i] for i in ids[pairs[1]].tolist()]
        return [str(client) for client in range(self.num_clients)]

    @property
    def is_one_place(self) -> bool:
        """Whether one client has all training examples: nothing is federated.

        Example:
            >>> Population.of(Ownership.of([[0, 1, 2]]), np.array([0, 1, 1]), 2).is_one_place
            True
        """
        return (self.num_clients == 1 and self.class_totals is not None
                and int(self.sizes[0]) == int(self.class_totals.sum()))

    @checked
    def accuracies(self, correct: np.ndarray, class_accuracy: np.ndarray) -> np.ndarray:
        """Each client's accuracy with one model.

        On its own test examples where the population gives it some; otherwise on the test set, its classes weighted as
        in the client's training data (exact for a client whose inputs differ from the others' only in their labels).
        NaN where others have test examples of their own and a client has none, or where the test set has none of its
        classes: nothing is known of it.

        Args:
            correct: whether the model is right, per test example.
            class_accuracy: its accuracy on the test examples of each class; NaN of a class without any, which counts
                for nobody.

        Example:
            >>> two = Population.of(Ownership.of([[0, 1], [2, 3]]), np.array([0, 0, 0, 1]), 2)
            >>> two.accuracies(np.zeros(0), np.array([0.9, 0.5])).tolist()  # the second: (0.9 + 0.5) / 2
            [0.9, 0.7]
        """
        if self.test is None:
            if class_accuracy.shape != (self.num_classes,):
                raise AskewError(f"population: accuracies of {self.num_classes} classes are needed, not "
                                 f"{class_accuracy.shape}")
            known = ~np.isnan(class_accuracy)
            shares = skew.class_shares(self.counts * known)
            return np.where(shares.any(axis=1), shares @ np.where(known, class_accuracy, 0.0), np.nan)
        owner = np.repeat(np.arange(self.num_clients), self.test.sizes)
        sums = np.bincount(owner, weights=correct[self.test.indices], minlength=self.num_clients)
        return np.where(self.test.sizes > 0, sums / np.maximum(self.test.sizes, 1), np.nan)

    @property
    def num_tested(self) -> int:
        """How many clients can be judged: those with test examples of their own, or all where nobody has any."""
        return self.num_clients if self.test is None else int((self.test.sizes > 0).sum())

    @checked
    def at(self, positions: np.ndarray) -> Population:
        """Indices of a subset turned into indices of the whole training set."""
        validation = None if self.validation is None else self.validation.at(positions)
        return replace(self, train=self.train.at(positions), validation=validation, server=positions[self.server])

    def describe(self) -> Mapping[str, Any]:
        """Scheme, seed and sizes: what a report says about where the federation came from."""
        return {"scheme": self.scheme, "seed": self.seed, "clients": self.num_clients, "classes": self.num_classes,
                "examples": int(self.sizes.sum()), "server_examples": len(self.server)}

    @property
    def shares(self) -> bool:
        """Whether a training example is in two places: with two clients, or with one and the server."""
        held = [] if self.validation is None else [self.validation.indices]
        return has_twice(np.concatenate([self.train.indices, self.server, *held]))

    @checked
    def check_data(self, data: Dataset) -> None:
        """Refuse a population that was not drawn for these data, or is not what it says."""
        if self.num_classes != data.num_classes:
            raise AskewError(f"population: it has {self.num_classes} classes, {data.name} has {data.num_classes}; "
                             "it was drawn for other data")
        for name, part, size in (("train", self.train, len(data.train)), ("test", self.test, len(data.test)),
                                 ("validation", self.validation, len(data.train)),
                                 ("server", Ownership(self.server, np.array([0, len(self.server)])), len(data.train))):
            if part is not None:
                part.check_below(name, size, data.name)
                part.check_once()
        labels = data.labels_of(data.train)
        for first, part in self.train.chunks():
            said, counted = self.counts[first : first + len(part)], part.counts(labels, self.num_classes)
            wrong = np.flatnonzero((said != counted).any(axis=1))
            if len(wrong):
                raise AskewError(f"population: the classes of client {first + wrong[0]} are others in {data.name} than "
                                 "it counts; it was drawn for other data: Population.of counts anew")
        if self.validation is not None:
            self.train.joined(self.validation).check_once()  # a client is not validated on what it trains on

    @checked
    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write one small file (numpy's compressed archive).

        Args:
            overwrite: whether a file that is there may be replaced.
        """
        check_new(path, "population file", "name another file, or say overwrite=True", overwrite)
        arrays: dict[str, np.ndarray] = {"counts": self.counts, "server": self.server}
        for name in ("train", "validation", "test"):
            part: Ownership | None = getattr(self, name)
            if part is not None:
                arrays[f"{name}_indices"], arrays[f"{name}_offsets"] = part.indices, part.offsets
        for name in ("groups", "class_totals"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        if self.noise is not None:
            arrays["noise"] = self.noise
        about = json.dumps({"format": FORMAT, "scheme": self.scheme, "seed": self.seed, "shares": self.shares,
                            **({"noise_mixed": self.noise_mixed} if self.noise is not None else {})})
        with written(path) as aside, aside.open("wb") as file:
            np.savez_compressed(file, about=np.array(about), **{k: _narrow(v) for k, v in arrays.items()})  # type: ignore[arg-type]

    @classmethod
    @checked
    def load(cls, path: str | Path) -> Population:
        """Read what `save` wrote; a file that contradicts itself is refused."""
        arrays = read_arrays(path, "population file, as 'askew partition --save' writes it")
        try:
            return cls._from_arrays(arrays)
        except KeyError as error:
            raise AskewError(f"{str(path)!r} is not a population file (it has no {error}); "
                             "write one with 'askew partition --save'") from None
        except (ValueError, TypeError, RecursionError) as error:  # ours among them
            raise AskewError(f"{str(path)!r} is not a population file ({first_line(error)}); "
                             "write one with 'askew partition --save'") from None

    @classmethod
    def _from_arrays(cls, arrays: dict[str, np.ndarray]) -> Population:
        about = json.loads(str(arrays["about"]))
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise AskewError(f"its format is not {FORMAT!r}")
        scheme, seed = about["scheme"], about["seed"]
        if not isinstance(scheme, str) or type(seed) is not int:
            raise AskewError("scheme and seed are not a text and a whole number")
        numbers = {name: whole_numbers(name, array, 2 if name == "counts" else 1)
                   for name, array in arrays.items() if name not in ("about", "noise")}
        if "noise" in arrays and arrays["noise"].dtype != np.float64:
            raise AskewError("noise holds no numbers of 64 bits")
        for name in ("counts", "server", "class_totals"):
            if name in numbers and numbers[name].size and int(numbers[name].min()) < 0:
                raise AskewError(f"{name} has the negative number {int(numbers[name].min())}")
        parts = {name: Ownership(numbers[f"{name}_indices"], numbers[f"{name}_offsets"])
                 for name in ("train", "validation", "test") if f"{name}_indices" in numbers}
        for part in parts.values():
            part.check_once()
        population = cls(train=parts["train"], counts=numbers["counts"], scheme=scheme, seed=seed,
                         validation=parts.get("validation"), test=parts.get("test"), server=numbers["server"],
                         groups=numbers.get("groups"), class_totals=numbers.get("class_totals"),
                         noise=arrays.get("noise"), noise_mixed=about.get("noise_mixed") is True)
        if about.get("shares") is False and population.shares:  # files of the first version do not say
            raise AskewError("it says that no example is in two places, but one is")
        return population


def _narrow(array: np.ndarray) -> np.ndarray:
    """int64 as int32 where it fits: half the file."""
    fits = array.dtype == np.int64 and (array.size == 0 or (abs(array.min()) < 2**31 and array.max() < 2**31))
    return array.astype(np.int32) if fits else array

"""What is known of a federation before anything is tried: how skewed its labels, sizes and features are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from askew.advice.feature_skew import FeatureSkew, feature_skew
from askew.core import skew
from askew.core.dataset import Dataset
from askew.core.population import Population


@dataclass(frozen=True)
class Facts:
    """Measures of skew, each with what chance alone would give clients of these sizes.

    Args:
        mean_emd, hellinger, jensen_shannon: means over clients of the distance between a client's classes and the
            whole's; None where targets are not classes.
        lacking: clients without an example of some class that others have.
        largest, smallest: examples of a client.
        gini: of the sizes: 0 equal, near 1 one client has all.
        features: what a test of the inputs says; None where there is none.
        norm_ratio: N/E of the clients' updates in the first rounds of FedAvg: 1 all pull one way, near 0 they cancel
            out; it sees skew of labels and of features. None before anything has been trained.
    """

    clients: int
    classes: int
    largest: int
    smallest: int
    gini: float
    mean_emd: float | None = None
    chance_emd: float | None = None
    hellinger: float | None = None
    chance_hellinger: float | None = None
    jensen_shannon: float | None = None
    chance_jensen_shannon: float | None = None
    lacking: int = 0
    features: FeatureSkew | None = None
    norm_ratio: float | None = None

    def as_mapping(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self) -> Iterator[tuple[str, str]]:
        """What was measured, in words."""
        yield "clients", f"{self.clients:,}, of {self.smallest:,} to {self.largest:,} examples (Gini {self.gini:.2f})"
        for name, value, chance in (("mean EMD of labels", self.mean_emd, self.chance_emd),
                                    ("Hellinger distance", self.hellinger, self.chance_hellinger),
                                    ("Jensen-Shannon distance", self.jensen_shannon, self.chance_jensen_shannon)):
            if value is not None:
                yield name, f"{value:.2f} (by chance alone {chance:.2f})"
        if self.mean_emd is not None:
            yield "clients that lack a class", f"{self.lacking:,} of {self.clients:,}"
        if self.features is not None:
            p = f"p = {self.features.p:.3f}"
            yield "inputs of one class differ between clients", (
                f"yes, {p}, {self.features.share:.1%} of their variance" if self.features.is_seen else f"not seen, {p}")
        if self.norm_ratio is not None:
            yield "N/E of FedAvg's first rounds", f"{self.norm_ratio:.2f} (1: updates agree, 0: they cancel out)"


def facts_of(population: Population, data: Dataset, seed: int = 0) -> Facts:
    """Of a federation whose examples are at hand."""
    sizes, counts = population.sizes, population.counts
    plain: dict[str, Any] = {"clients": population.num_clients, "classes": population.num_classes,
                             "largest": int(sizes.max()), "smallest": int(sizes.min()), "gini": round(gini(sizes), 4)}
    if data.targets == "classes":
        plain |= label_skew(counts, population.class_totals)
    return Facts(**plain, features=feature_skew(data, population, seed))


def label_skew(counts: np.ndarray, totals: np.ndarray | None) -> dict[str, Any]:
    """Of a table of counts."""
    p, sizes = skew.reference_shares(counts, totals), counts.sum(axis=1)
    distances = {"hellinger": skew.hellinger, "jensen_shannon": skew.jensen_shannon}
    present = int((counts.sum(axis=0) > 0).sum())
    return {"mean_emd": skew.mean_emd(counts, totals), "chance_emd": float(skew.chance_emd(sizes, p).mean()),
            **{name: float(measure(counts, totals).mean()) for name, measure in distances.items()},
            **{f"chance_{name}": skew.chance_level(measure, sizes, p) for name, measure in distances.items()},
            "lacking": int((skew.classes_per_client(counts) < present).sum())}


def gini(sizes: np.ndarray) -> float:
    """How unequal sizes are.

    Example:
        >>> gini(np.array([5, 5])), gini(np.array([0, 10]))
        (0.0, 0.5)
    """
    ranked = np.sort(sizes)
    places = np.arange(1, len(ranked) + 1)
    return float((2 * places - len(ranked) - 1) @ ranked / (len(ranked) * ranked.sum()))

"""What a skew costs: accuracy that FedAvg lost at eight EMDs in a published measurement, interpolated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from askew.core.skew import largest_emd

SOURCE = "Zhao et al. 2018, 'Federated Learning with Non-IID Data', table 2"

# Test accuracy of FedAvg (%), mean over 5 distributions; 10 clients, 10 classes, 500 rounds, B = 100 (KWS: 50).
EMD = (0.0, 0.36, 0.72, 1.08, 1.44, 1.62, 1.764, 1.8)
ACCURACY = {
    "MNIST": (98.57, 98.60, 98.52, 98.35, 97.99, 97.56, 96.20, 92.20),
    "CIFAR-10": (80.99, 80.90, 80.17, 78.17, 73.79, 69.05, 54.38, 43.96),
    "keyword spotting": (84.96, 84.61, 84.13, 83.31, 79.79, 75.65, 58.27, 44.75),
}
_TABLE_CLASSES = 10
# Up to which fraction of the largest possible EMD a federation is called what.
_DEGREES = ((0.1, "hardly skewed"), (0.4, "mildly skewed"), (0.7, "clearly skewed"), (0.9, "strongly skewed"),
            (np.inf, "about as skewed as can be"))


@dataclass(frozen=True)
class Cost:
    """What FedAvg is expected to lose.

    Args:
        emd: the mean EMD asked about.
        table_emd: where it falls in the ten-class table (scaled, for another number of classes).
        points: percentage points of test accuracy lost against no skew, for each task of the table.
        scaled: whether the number of classes differs from the table's.
    """

    emd: float
    table_emd: float
    points: dict[str, float]
    scaled: bool


def expected_loss(emd: float, num_classes: int = _TABLE_CLASSES) -> Cost:
    """Linear interpolation in the table; other numbers of classes are scaled by the largest possible EMD.

    Args:
        emd: mean EMD of the federation.
        num_classes: C; the scaling 1.8 / (2 (1 - 1/C)) keeps "no skew" and "one class per client" where they are, and
            is an assumption: the paper measured ten classes only.

    Returns:
        The loss for each task, never below 0.

    Example:
        >>> round(expected_loss(1.44).points["CIFAR-10"], 2)
        7.2
    """
    scaled = num_classes != _TABLE_CLASSES
    at = emd * largest_emd(_TABLE_CLASSES) / largest_emd(num_classes) if scaled else emd
    at = min(at, EMD[-1])
    points = {task: max(0.0, float(accuracy[0] - np.interp(at, EMD, accuracy))) for task, accuracy in ACCURACY.items()}
    return Cost(emd, at, points, scaled)


def verdict(plain: float, weighted: float, num_classes: int, by_chance: float) -> str:
    """The skew of a federation and its price, in a few plain sentences.

    Args:
        plain: mean EMD over clients.
        weighted: the same, weighted by their examples.
        num_classes: C.
        by_chance: weighted mean EMD that clients of these sizes would have without any skew.
    """
    cost = expected_loss(weighted, num_classes)
    ratio = weighted / largest_emd(num_classes)
    degree = next(word for limit, word in _DEGREES if ratio < limit)
    mean = f"mean EMD {weighted:.2f}"
    if abs(plain - weighted) >= 0.005:
        mean += f" weighted by examples ({plain:.2f} over clients)"
    lost = cost.points["CIFAR-10"]
    loss = "no accuracy to speak of" if lost < 0.5 else f"about {lost:.0f} point{'s' if round(lost) != 1 else ''}"
    text = f"{degree.capitalize()}: {mean}: expect FedAvg to lose {loss} on CIFAR-10-like tasks ({SOURCE})."
    if cost.scaled:
        text += (f" The table holds for 10 classes; for {num_classes} the EMD is scaled to {cost.table_emd:.2f} by the "
                 f"largest possible one, {largest_emd(num_classes):.2f}, which is an assumption.")
    if by_chance >= weighted > 0:
        text += f" Clients this small would be at {by_chance:.2f} by chance alone: these counts show no skew."
    elif by_chance > 0.5 * weighted:
        text += f" Clients are so small that chance alone would give {by_chance:.2f}: the skew is less than it seems."
    return text

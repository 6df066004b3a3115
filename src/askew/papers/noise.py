"""How far a number of ours may be off by chance: the standard error that verdicts and claims reckon with.

With several seeds it is their standard error. One seed has no spread; what its number may be off by is measured by the
same run (the swing of its last ten evaluations), and in any case by what results with several seeds show:

- Accuracies: over seeds they spread by about as much as a test set of that size allows, sqrt(p (1 - p) / n). In
  `results/compare.json` (13 methods, 3 seeds, 360 test images) the spread is 0.26 to 1.99 times that, 0.69 in the
  median; in zhao2018's table 2 (24 settings, 5 runs each) 0.07 to 1.94 times, 0.45 in the median. It is 0.1 points at
  99% of 10,000 images and 0.5 at 50%.
- Other numbers: 25% of the value. In zhao2018's figure 4 (112 rows of 10 seeds or more) the spread is 5 to 25% of the
  mean from the first to the ninth tenth of the rows, 13% in the median, which half of them exceed. 0 for what a
  method's own rules bring about in every run.

Runs with the same seed share clients, first weights and test images, so that their difference is surer than this says.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from askew.core.errors import AskewError, suggest
from askew.core.recipe import Recipe
from askew.papers.measure import Columns, Measure

# Test images, or test clips of the ten words (Speech Commands 0.01, the version that the items use).
TEST_EXAMPLES = {"mnist": 10_000, "cifar10": 10_000, "digits": 360, "speech_commands": 2_567}
RELATIVE = 0.25  # of a number that is not an accuracy, of one seed
ENOUGH = 5  # seeds that tell their spread by themselves
CLASSES = 10  # of every data set that the items use
# Accuracy in percent up to which a run has learnt nothing; MNIST's largest class is 11.35%.
CHANCE = 1.2 * 100 / CLASSES


def of_test_set(measure: Measure, recipe: Recipe, accuracy: float) -> float:
    """The standard error, in points, of an accuracy that is measured on so few examples; 0 for other numbers.

    Example: 90% of 10,000 images: sqrt(90 * 10 / 10,000) = 0.3 points.
    """
    if measure.accuracies is None:
        return 0.0
    if recipe.data.name not in TEST_EXAMPLES:
        raise AskewError(f"how many test examples {recipe.data.name!r} has is not known; "
                         f"{suggest(recipe.data.name, TEST_EXAMPLES)}")
    return math.sqrt(max(accuracy * (100 - accuracy), 0.0) / TEST_EXAMPLES[recipe.data.name])


def of_one_run(measure: Measure, recipe: Recipe, value: float, columns: Columns) -> float:
    """The noise of a number of one run."""
    if measure.accuracies is None:
        return 0.0 if measure.fixed else RELATIVE * abs(value)
    return max(of_test_set(measure, recipe, value), measure.swing(columns))


def of_seeds(values: Sequence[float], least: float, of_one: float = 0.0) -> float:
    """The standard error of a mean over several seeds, at least that of the test set, which all of them share.

    Args:
        of_one: the noise of one of them; fewer than five, which may agree by chance, have at least their share of it.
    """
    few = of_one / math.sqrt(len(values)) if len(values) < ENOUGH else 0.0
    return max(statistics.stdev(values) / math.sqrt(len(values)), least, few)


def at_chance(measure: Measure, value: float) -> bool:
    """Whether an accuracy is what guessing reaches."""
    return measure.accuracies is not None and value <= CHANCE

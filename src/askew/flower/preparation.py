"""A recipe on its way to a deployment: what it measures on its own data is measured now; later, no one place has all.

What goes along are numbers and words over all training examples (means, spreads, categories), never an example.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from askew.core import registry
from askew.core.columns import Columns
from askew.core.dataset import Dataset
from askew.core.errors import AskewError, first_line
from askew.core.recipe import Recipe
from askew.core.registry import Spec


@dataclass(frozen=True)
class Prepared:
    """What is deployed.

    Args:
        recipe: with numbers in place of what would have to be measured.
        schema: how the table that it names becomes inputs, so that nodes' tables do alike; None where it names none.
        without: why there is no schema, where its data are a table that cannot be read here.
    """

    recipe: Recipe
    schema: Columns | None = None
    without: str | None = None


def prepare(recipe: Recipe) -> Prepared:
    """Measure what a recipe measures, on the data that it names, if it measures anything or they are a table."""
    measures = [spec for spec in recipe.preprocess if _measures(spec)]
    if not measures and not takes_schema(recipe.data):
        return Prepared(recipe)
    try:
        data = registry.build("data", recipe.data)
    except AskewError as error:
        if measures:
            raise AskewError(f"preprocess: {measures[0].name} measures the data, which no one place has in a "
                             f"deployment, and the recipe's own cannot be read here ({first_line(error)}); write "
                             "its numbers into the recipe, or deploy where that data lie") from None
        return Prepared(recipe, without=first_line(error))
    return Prepared(recipe.replace(preprocess=[_with_numbers(spec, data) for spec in recipe.preprocess]), data.columns)


def takes_schema(data: Spec) -> bool:
    """Whether data of this kind can be encoded as a schema says."""
    return "like" in inspect.signature(registry.find("data", data.name)).parameters


def _measures(spec: Spec) -> bool:
    try:
        registry.build("preprocess", spec)
    except AskewError:
        return True
    return False


def _with_numbers(spec: Spec, data: Dataset) -> Spec:
    step = registry.build("preprocess", spec, data=data)
    return spec.with_args(**{name: _short(value) for name, value in step.measured.items()})


def _short(value: Any) -> Any:
    """Numbers of 32 bits with the digits that tell them apart, and no more."""
    return [_short(number) for number in value] if isinstance(value, list) else float(str(np.float32(value)))

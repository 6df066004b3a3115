"""What to call runs beside each other: the method's name, or the settings in which those of one name differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from askew.core.population_spec import PopulationSpec
from askew.core.recipe import Recipe
from askew.core.registry import Spec
from askew.report.page.blocks import cut

_LONGEST = 60


def labels(recipes: Sequence[Recipe]) -> list[str]:
    """One text for each recipe, short, and different where recipes are.

    Example:
        >>> labels([Recipe(name="a"), Recipe(name="b", rounds=3)])
        ['a', 'b']
        >>> labels([Recipe(rounds=5).with_setting("sgd.lr", lr) for lr in (0.1, 0.2)])
        ['sgd.lr=0.1', 'sgd.lr=0.2']
    """
    names = [recipe.name for recipe in recipes]
    texts = []
    for recipe in recipes:
        alike = [other for other in recipes if other.name == recipe.name]
        apart = differing(alike)
        words = ", ".join(f"{key}={value}" for key, value in settings(recipe).items() if key in apart)
        parts = [*([recipe.name] if len(alike) < len(names) or not words else []), *([words] if words else [])]
        texts.append(": ".join(parts))
    return _told_apart([cut(text, _LONGEST) for text in texts])


def differing(recipes: Sequence[Recipe]) -> list[str]:
    """The settings that are not the same in all."""
    flat = [settings(recipe) for recipe in recipes]
    keys = dict.fromkeys(key for one in flat for key in one)
    return [key for key in keys if len({one.get(key) for one in flat}) > 1]


def settings(recipe: Recipe) -> dict[str, str]:
    """A recipe as addresses and values, the way `--set` has them, without name and seed."""
    return {key: value for field in dataclasses.fields(recipe) if field.name not in ("name", "seed")
            for key, value in _flat(field.name, getattr(recipe, field.name))}


def _flat(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, PopulationSpec):
        value = (value.scheme, *value.combinators)
    if isinstance(value, Spec):
        value = (value,)
    if isinstance(value, tuple) and all(isinstance(item, Spec) for item in value):
        yield key, " + ".join(spec.name for spec in value) or "none"
        for spec in value:
            for argument, inner in spec.args.items():
                yield from _flat(f"{spec.name}.{argument}", inner)
    else:
        yield key, str(value)


def _told_apart(texts: list[str]) -> list[str]:
    """Those that are equal get a number."""
    return [text if texts.count(text) == 1 else f"{text} ({texts[: at + 1].count(text)})"
            for at, text in enumerate(texts)]

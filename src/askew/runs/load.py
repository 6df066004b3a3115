"""Recipes from files and from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from askew.core import registry
from askew.core.errors import AskewError
from askew.core.recipe import Recipe, parse_value, read_file


def load_recipe(file: Path | None = None, settings: Sequence[str] = (), method: str | Sequence[str] | None = None,
                defaults: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe from a file, then a method, then single settings.

    Args:
        file: TOML with the fields of `Recipe`, and `method`: one method or a list of them, applied in order.
        settings: `key=value` each, where key is a field, `method`, or piece.argument.
        method: takes the place of the file's.
        defaults: fields under those of the file.
    """
    values = {**(defaults or {}), **(read_file(file) if file else {})}
    pairs = [_split(setting) for setting in settings]
    methods = values.pop("method", None)
    for key, value in pairs:
        if key == "method":
            methods = value
    methods = method or methods or []
    # Plain fields are set before the method (it may look at them), arguments of pieces after it (it brings pieces).
    recipe = Recipe.from_mapping(values).replace(**{key: value for key, value in pairs if key != "method" and "." not in key})
    if not isinstance(methods, str) and not (isinstance(methods, Sequence) and all(isinstance(m, str) for m in methods)):
        raise AskewError(f"method must be the name of a method, or a list of them, not {methods!r}")
    for name in [methods] if isinstance(methods, str) else methods:
        recipe = registry.build("method", name, base=recipe)
    for key, value in pairs:
        if "." in key:
            recipe = recipe.with_setting(key, value)
    return recipe


def _split(setting: str) -> tuple[str, Any]:
    key, equals, text = setting.partition("=")
    if not equals:
        raise AskewError(f"--set takes key=value, got {setting!r}")
    return key.strip(), parse_value(text.strip())

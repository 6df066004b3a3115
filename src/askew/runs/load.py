"""Recipes from files and from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from askew.core import registry
from askew.core.arguments import checked
from askew.core.errors import AskewError, shown
from askew.core.recipe import Recipe, parse_value, read_file


@checked
def load_recipe(file: Path | None = None, settings: Sequence[str] = (), method: str | Sequence[str] | None = None,
                defaults: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe from a file, then a method, then single settings.

    Args:
        file: TOML with the fields of `Recipe`, and `method`, as below. An empty one is the default recipe.
        settings: `key=value` each, where key is a field, `method`, or piece.argument; each key once.
        method: one method, several with + between (`fedprox(mu=0.1)+fedavgm`), or a list, applied in order; takes the
            place of the file's.
        defaults: fields under those of the file.
    """
    values = {**(defaults or {}), **(read_file(file) if file else {})}
    pairs = [_split(setting) for setting in settings]
    keys = [key for key, _ in pairs]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise AskewError(f"--set: {twice[0]!r} is set twice; keep one of them")
    in_file = values.pop("method", ())
    methods = method or dict(pairs).get("method", in_file)
    # Plain fields are set before the method (it may look at them), arguments of pieces after it (it brings pieces).
    recipe = Recipe.from_mapping(values).replace(**{key: value for key, value in pairs
                                                    if key != "method" and "." not in key})
    if not isinstance(methods, str) and not (isinstance(methods, Sequence)
                                             and all(isinstance(m, str) for m in methods)):
        raise AskewError(f"method must be the name of a method, or a list of them, not {shown(methods)}")
    for text in [methods] if isinstance(methods, str) else methods:
        for call in method_calls(text):
            recipe = registry.build("method", call, base=recipe)
    for key, value in pairs:
        if "." in key:
            recipe = recipe.with_setting(key, value)
    return recipe


def method_calls(text: str) -> list[str]:
    """A method, or a combination of some, as its calls in order.

    Example:
        >>> method_calls("fedprox(mu=0.1) + fedavgm")
        ['fedprox(mu=0.1)', 'fedavgm']
    """
    return places("method", text, "+")


def places(option: str, text: str, separator: str) -> list[str]:
    """What stands between separators, none of it empty."""
    parts = split_outside_brackets(text, separator)
    if not all(parts):
        raise AskewError(f"{option} {shown(text)} has an empty place; put one {separator!r} between two names, as in "
                         f"fedavg{separator}fednnnn")
    return parts


def split_outside_brackets(text: str, separator: str) -> list[str]:
    """Split `a,b(c=1, d=[2, 3])` at the separators that stand in no brackets and no quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in (*parts, text[start:])]


def _split(setting: str) -> tuple[str, Any]:
    key, equals, text = setting.partition("=")
    if not equals:
        raise AskewError(f"--set takes key=value, got {setting!r}")
    return key.strip(), parse_value(text.strip())

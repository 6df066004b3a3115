"""A recipe as a Flower app in a folder: what `askew deploy init` writes."""

from __future__ import annotations

import os
import re
from importlib import metadata, resources
from pathlib import Path

from askew.core.columns import Columns
from askew.core.errors import AskewError
from askew.core.files import write_text
from askew.core.recipe import Recipe
from askew.data.schema import SCHEMA, schema_text
from askew.flower.server_task import check_recipe

OLDEST = "1.41.0"  # the oldest version of Flower with which the deployment's tests have passed
PACKAGE, RECIPE = "federation", "recipe.toml"
# file of the app -> the template it is made from
FILES = {"pyproject.toml": "pyproject.toml.in", "README.md": "README.md.in", "LICENSE": "LICENSE.in",
         "keys.sh": "keys.sh", ".gitignore": "gitignore.in",
         f"{PACKAGE}/server_app.py": "server_app.py.in", f"{PACKAGE}/client_app.py": "client_app.py.in"}


def write_app(folder: Path, recipe: Recipe, schema: Columns | None = None, parts: bool = False) -> list[Path]:
    """Write the app; refuses a folder that holds anything.

    Args:
        recipe: with all numbers that it needs (`prepare` sees to that).
        schema: how nodes' tables become inputs.
        parts: whether its clients are those of the recipe's own federation, to try it out.

    Returns:
        the files, in the order in which a person would look at them.
    """
    check_recipe(recipe, parts)
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise AskewError(f"{str(folder)!r} exists already and is not an empty folder; name a new one")
    name = re.sub(r"[^a-z0-9]+", "-", recipe.name.lower()).strip("-") or "recipe"
    filled = {"NAME": f"askew-{name}"[:60], "OLDEST": OLDEST, "FLWR": metadata.version("flwr"), "PUBLISHER": "local",
              "OUT": (folder / "run").absolute().as_posix(), "RECIPE": recipe.name,
              "SCHEMA": "" if schema is None else SCHEMA,
              "FILES": "".join(f', "{PACKAGE}/{name}"' for name in (RECIPE, *([SCHEMA] if schema else [])))}
    templates = resources.files("askew.flower") / "app"
    texts = {file: _filled((templates / template).read_text(encoding="utf-8"), filled)
             for file, template in FILES.items()}
    texts |= {f"{PACKAGE}/__init__.py": '"""A recipe of askew on Flower."""\n', f"{PACKAGE}/{RECIPE}": recipe.to_toml()}
    if schema is not None:
        texts[f"{PACKAGE}/{SCHEMA}"] = schema_text(schema)
    try:
        (folder / PACKAGE).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AskewError(f"{str(folder)!r} cannot be made: {error.strerror}; name another folder") from None
    for file, text in texts.items():
        write_text(folder / file, text)
    return [folder / file for file in texts]


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"@([A-Z]+)@", lambda match: values[match[1]], text)

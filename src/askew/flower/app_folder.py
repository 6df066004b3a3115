"""A recipe as a Flower app in a folder: what `askew deploy init` writes."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from importlib import metadata, resources
from pathlib import Path

from askew.core.columns import Columns
from askew.core.errors import AskewError
from askew.core.files import read_text, write_text
from askew.core.recipe import Recipe
from askew.data.schema import SCHEMA, schema_text
from askew.flower.server_task import check_recipe

OLDEST = "1.41.0"  # the oldest version of Flower with which the deployment's tests have passed
PACKAGE, RECIPE = "federation", "recipe.toml"
# file of the app -> the template it is made from
FILES = {"pyproject.toml": "pyproject.toml.in", "README.md": "README.md.in", "LICENSE": "LICENSE.in",
         "keys.sh": "keys.sh", ".gitignore": "gitignore.in",
         f"{PACKAGE}/server_app.py": "server_app.py.in", f"{PACKAGE}/client_app.py": "client_app.py.in"}


def write_app(folder: Path, recipe: Recipe, schema: Columns | None = None, parts: bool = False,
              modules: Sequence[str] = ()) -> list[Path]:
    """Write the app; refuses a folder that holds anything.

    Args:
        recipe: with all numbers that it needs (`prepare` sees to that).
        schema: how nodes' tables become inputs.
        parts: whether its clients are those of the recipe's own federation, to try it out.
        modules: imported ones, with pieces of the user's own: a file of this folder goes along with the app, any other
            has to be installed on all machines.

    Returns:
        the files, in the order in which a person would look at them.
    """
    check_recipe(recipe, parts)
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise AskewError(f"{str(folder)!r} exists already and is not an empty folder; name a new one")
    name = re.sub(r"[^a-z0-9]+", "-", recipe.name.lower()).strip("-") or "recipe"
    along = {module: path for module in modules if (path := _file_here(module)) is not None}
    lines = [f"from {PACKAGE} import {module}" if module in along else f"import {module}" for module in modules]
    filled = {"NAME": f"askew-{name}"[:60], "OLDEST": OLDEST, "FLWR": metadata.version("flwr"), "PUBLISHER": "local",
              "RECIPE": recipe.name,
              "OUT": json.dumps((folder / "run").absolute().as_posix(), ensure_ascii=False)[1:-1],
              "IMPORTS": "".join(f"{line}  # noqa: F401 - its pieces file themselves\n" for line in lines),
              "SCHEMA": "" if schema is None else SCHEMA,
              "FILES": "".join(f', "{PACKAGE}/{name}"' for name in (RECIPE, *([SCHEMA] if schema else [])))}
    templates = resources.files("askew.flower") / "app"
    texts = {file: _filled((templates / template).read_text(encoding="utf-8"), filled)
             for file, template in FILES.items()}
    texts |= {f"{PACKAGE}/__init__.py": '"""A recipe of askew on Flower."""\n', f"{PACKAGE}/{RECIPE}": recipe.to_toml()}
    for module, path in along.items():
        if f"{PACKAGE}/{module}.py" in texts:
            raise AskewError(f"--import {module}: the app has a file of that name; give the module another")
        texts[f"{PACKAGE}/{module}.py"] = read_text(path, "module")
    if schema is not None:
        texts[f"{PACKAGE}/{SCHEMA}"] = schema_text(schema)
    try:
        (folder / PACKAGE).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AskewError(f"{str(folder)!r} cannot be made: {error.strerror}; name another folder") from None
    for file, text in texts.items():
        write_text(folder / file, text)
    return [folder / file for file in texts]


def _file_here(module: str) -> Path | None:
    """The file of an imported module, where it is one in this folder."""
    file = getattr(sys.modules.get(module), "__file__", None)
    path = None if file is None else Path(file).resolve()
    return path if path is not None and path.parent == Path.cwd().resolve() and path.suffix == ".py" else None


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"@([A-Z]+)@", lambda match: values[match[1]], text)

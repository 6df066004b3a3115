"""Imports point one way, and a piece's name stands in its own file only: read from the source, not from a run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import askew
from askew.core import registry

SOURCE = Path(askew.__file__).parent
BASIC = {"core"}
MATHS = BASIC | {"pieces", "data", "partition", "models", "catalogue"}
# room -> the other rooms that its files may import. Rooms of one level do not know each other, but for what is said
# here.
MAY_IMPORT = {
    "core": set(),
    "privacy": BASIC,
    "pieces": BASIC,
    "data": BASIC,
    "partition": BASIC,
    "models": BASIC,
    "catalogue": MATHS,
    "engine": MATHS,
    "rounds": MATHS | {"engine"},
    "runs": MATHS | {"engine", "rounds"},
    "advice": MATHS | {"engine", "rounds", "runs"},
    "papers": MATHS | {"engine", "rounds", "runs"},
    "tracking": MATHS | {"engine", "rounds", "runs"},
    "report": MATHS | {"engine", "rounds", "runs", "advice", "papers"},
    "testing": MATHS | {"engine", "rounds", "runs", "papers", "report"},
    "cli": MATHS | {"engine", "rounds", "runs", "advice", "papers", "report", "testing", "tracking", "flower"},
    "__main__": {"cli"},
    "flower": MATHS | {"engine", "rounds", "runs", "papers", "report", "testing"},
}
# file -> rooms that it imports against the order, each with the reason. To be emptied, not to be added to.
# which imports all of askew's pieces, when the first one is asked for by name
# which draws itself, when it is asked to: `result.plot()` and `result.report()`
KNOWN_IMPORTS = {"core/registry.py": {"catalogue"}, "runs/result.py": {"report"}}


def room_of(module: str) -> str:
    """The room of a dotted name: `askew.engine.task` -> `engine`; of `askew` itself, an empty name."""
    return module.split(".")[1] if "." in module else ""


BY_STRING = ("import_module", "__import__")


def imports(tree: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    """Line and name of every module of askew that a file imports: at the top, in functions, for types, by a string.

    Args:
        package: dotted name of the file's folder, which relative imports start from.
    """
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rpartition(".")[2] in BY_STRING:
            names = [first_words(node.args[0])]
        yield from ((node.lineno, name) for name in names if name == "askew" or name.startswith("askew."))


def first_words(node: ast.expr) -> str:
    """What a string begins with, as far as it is known without running it."""
    while isinstance(node, ast.JoinedStr | ast.BinOp):
        node = node.left if isinstance(node, ast.BinOp) else node.values[0]
    return str(node.value) if isinstance(node, ast.Constant) else ""


def forbidden(path: str, text: str) -> list[str]:
    """One line per import of a file that points the wrong way.

    Args:
        path: below `src/askew`.
    """
    room = path.split("/")[0].removesuffix(".py")
    if room == "__init__":  # the front door opens on everything, when asked
        return []
    package = ".".join(("askew", *path.split("/")[:-1]))
    allowed = MAY_IMPORT[room] | {room} | KNOWN_IMPORTS.get(path, set())
    return [f"{path}:{line} imports {name}: {room} may not import {room_of(name) or 'askew itself'}, "
            f"only {', '.join(sorted(allowed))}"
            for line, name in imports(ast.parse(text), package) if room_of(name) not in allowed]


def sources() -> dict[str, str]:
    return {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(SOURCE.rglob("*.py"))}


def test_every_room_has_a_place_in_the_order() -> None:
    assert {path.split("/")[0].removesuffix(".py") for path in sources()} - {"__init__"} <= set(MAY_IMPORT)


def test_imports_point_one_way() -> None:
    wrong = [line for path, text in sources().items() for line in forbidden(path, text)]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(("path", "line", "room"), [
    ("engine/task.py", "from askew.rounds.simulation import Loop", "rounds"),
    ("core/rng.py", "def f():\n    import askew.data.digits", "data"),
    ("rounds/loop.py", "if TYPE_CHECKING:\n    from askew.runs import run", "runs"),
    ("runs/sweep.py", "importlib.import_module(f'askew.papers.{paper}.items')", "papers"),
    ("models/mlp.py", "from ..engine import task", "engine"),
    ("pieces/client/sgd.py", "from ...data import digits", "data"),
    ("data/digits.py", "import askew", "askew itself"),
])
def test_a_wrong_import_is_named_with_file_line_and_room(path: str, line: str, room: str) -> None:
    number = line.count("\n") + 1
    [message] = forbidden(path, line)
    assert message.startswith(f"{path}:{number} imports askew")
    assert f"may not import {room}, only " in message


KINDS = ("client", "server", "pool", "start", "partition", "adversity", "guard")
# Where names of pieces belong: compositions, the papers' experiments, what `askew compare` and `askew.testing` run by
# default, and old recipes.
AT_HOME = ("pieces/methods.py", "papers/", "runs/default_job.py", "testing/check.py", "core/migrate.py")
# file -> words that are a piece's name, but mean something else there.
OTHER_MEANINGS = {
    "cli/compare.py": {"emd"},  # the measure of skew
    "advice/advice.py": {"iid", "mean"},  # where FedAvg is measured; of scores
    "advice/advise.py": {"iid"},
    "cli/advise.py": {"iid"},
    "report/page/advice.py": {"iid", "mean"},
    "cli/diagnose.py": {"emd", "classes_per_client"},
    "cli/partition.py": {"emd", "classes_per_client"},
    "report/comparison_table.py": {"emd"},
    "report/page/skew_cost.py": {"emd"},
    "report/page/clients.py": {"median"},  # of scores, in a plot
    "pieces/preprocess/normalise.py": {"mean"},  # of the pixels
    "core/columns.py": {"mean"},  # of a column's numbers
    "cli/common.py": {"mean"},
    "core/recipe.py": {"shards", "random", "single_model", "sgd", "mean"},  # the values of a recipe that says nothing
}
# file -> names of pieces that it knows. To be emptied, not to be added to: a piece states what others want to know of
# it.
KNOWN_NAMES: dict[str, set[str]] = {}


def homes() -> dict[str, set[str]]:
    """Name of a piece -> the files that define it."""
    found: dict[str, set[str]] = {}
    for kind in KINDS:
        for name in registry.names(kind):
            module = registry.find(kind, name).__module__
            if module.startswith("askew."):  # not the tests' own
                found.setdefault(name, set()).add(module.removeprefix("askew.").replace(".", "/") + ".py")
    return found


def names_in(text: str, known: set[str]) -> Iterator[tuple[int, str]]:
    """Line and name of each piece in a file's strings (not `__all__`): `"sgd"`, `"sgd(lr=1)"`, `"sgd.lr"`."""
    tree = ast.parse(text)
    beside = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)
              or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")]
    left_out = {id(part) for value in beside if isinstance(value, ast.Constant | ast.List) for part in ast.walk(value)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            name = re.split(r"[(.]", node.value, maxsplit=1)[0]
            if name in known:
                yield node.lineno, name


def knows_pieces(path: str, text: str, pieces: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Name of a piece that stands where it should not -> a line that says so."""
    if path.startswith(AT_HOME):
        return []
    return [(name, f"{path}:{line} names the piece {name!r} of {', '.join(sorted(pieces[name]))}; "
                   "let the piece state the property that is meant")
            for line, name in names_in(text, set(pieces)) if path not in pieces[name]
            and name not in OTHER_MEANINGS.get(path, set())]


def test_no_name_of_a_piece_stands_outside_its_own_file() -> None:
    pieces = homes()
    wrong = [line for path, text in sources().items() for name, line in knows_pieces(path, text, pieces)
             if name not in KNOWN_NAMES.get(path, set())]
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_list_of_known_names_shrinks() -> None:
    pieces, texts = homes(), sources()
    gone = [f"{path}: {name!r} is no longer named there: remove it from KNOWN_NAMES"
            for path, names in KNOWN_NAMES.items()
            for name in sorted(names - {name for name, _ in knows_pieces(path, texts.get(path, ""), pieces)})]
    assert not gone, "\n" + "\n".join(gone)


def test_a_name_is_found_however_it_is_written() -> None:
    text = ('"""sgd in a docstring"""\n__all__ = ["sgd"]\n'
            'if name == "sgd" or spec.startswith("sgd(") or f"sgd.{key}" or "not sgd": ...')
    assert list(names_in(text, {"sgd"})) == [(3, "sgd")] * 3
    assert knows_pieces("engine/new.py", "name == 'sgd'", {"sgd": {"pieces/client/sgd.py"}})[0][1].startswith(
        "engine/new.py:1 names the piece 'sgd' of pieces/client/sgd.py; ")
    assert not knows_pieces("pieces/client/sgd.py", "name == 'sgd'", {"sgd": {"pieces/client/sgd.py"}})

"""Every function of the package that opens a file has a line in the table of readers, or a reason why not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from fuzzing.readers import NOT_HERE, READERS

import askew

SOURCE = Path(askew.__file__).parent
# The last word of a call that opens a file: Python's, numpy's, torch's, other libraries', ours.
OPENERS = {"open", "read_text", "read_bytes", "fromfile", "memmap", "loadtxt", "genfromtxt", "load_file", "safe_open",
           "ZipFile", "is_zipfile", "ParquetFile", "read_table", "read_parquet", "read_csv", "Unpickler", "read_json",
           "read_arrays"}
DOTTED = {"np.load", "numpy.load", "torch.load", "tomllib.load", "json.load", "pickle.load", "wave.open", "gzip.open"}
CLASSES = {"RunFolder"}  # whose `open` is a function of ours; what it does itself is looked at where it stands


def opening(text: str) -> Iterator[tuple[str, int]]:
    """Function (or `module`) and line of each call that opens a file to read it."""
    tree = ast.parse(text)
    inside = {id(part): node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
              for part in ast.walk(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        modes = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
        writes = any(isinstance(mode, ast.Constant) and mode.value in ("w", "wb", "a", "ab", "x", "xb")
                     for mode in modes)
        first, _, last = called.rpartition(".")
        if (last in OPENERS or called in DOTTED) and first not in CLASSES and not writes:
            yield inside.get(id(node), "module"), node.lineno


@cache
def found() -> set[str]:
    return {f"{path.relative_to(SOURCE).as_posix()}:{function}" for path in sorted(SOURCE.rglob("*.py"))
            for function, _ in opening(path.read_text(encoding="utf-8"))}


def reason(place: str) -> bool:
    return any(place.startswith(prefix) for prefix in NOT_HERE)


def test_every_reader_is_in_the_table_or_has_a_reason() -> None:
    known = {place for reader in READERS for place in reader.opens}
    wrong = [f"{place} opens a file: add it to READERS or NOT_HERE in tests/support/fuzzing/readers.py"
             for place in sorted(found() - known) if not reason(place)]
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_table_names_only_what_is_there() -> None:
    places = found()
    gone = [place for reader in READERS for place in reader.opens if place not in places]
    gone += [prefix for prefix in NOT_HERE if not any(place.startswith(prefix) for place in places)]
    assert not gone, f"no longer there: {gone}"


def test_a_reader_is_found_however_it_is_written() -> None:
    text = ("def a(p):\n    with open(p) as f: ...\ndef b(p):\n    return p.read_text()\n"
            "def c(p):\n    return np.load(p)\ndef d(p):\n    p.open('w')\n    json.loads(p)\nzipfile.ZipFile(x)\n")
    assert sorted(name for name, _ in opening(text)) == ["a", "b", "c", "module"]

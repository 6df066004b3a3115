"""Names are nouns that say what a thing is, and rates are told with "per"."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import askew

ROOT = Path(askew.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
# Where a syntax tree holds identifiers.
FIELDS: dict[type, tuple[str, ...]] = {
    ast.Name: ("id",), ast.Attribute: ("attr",), ast.arg: ("arg",), ast.keyword: ("arg",), ast.FunctionDef: ("name",),
    ast.ClassDef: ("name",), ast.alias: ("name", "asname"), ast.MatchAs: ("name",), ast.MatchStar: ("name",)}
# Words that point at a thing instead of naming it.
POINTING = {"mine", "own", "found", "their", "theirs", "its", "here", "there"}
# "one label an input", "100 images a client"; not "the number of a client", "0 where a client has finished".
NUMBER = r"(?:one|two|three|four|five|ten)(?: {noun})?|(?:number of|\d+) {noun}".format(
    noun=r"(?!(?:in|into|of|where|whatever|with)\b)[a-z]+")
UNIT = "bytes|classes|images|labels|ms|operations|outputs|samples|seconds|steps|times|values|weights"
RATE = re.compile(rf"\b(?:{NUMBER}|{UNIT}) an? (?:round|client|step|epoch|model|label|input|example|class|device|agent"
                  r"|row|channel|tensor|file|second|node)\b")
# Where rows and claims are written by which stored results are found again.
KEYS = {*(ROOT / "papers").glob("*/items.py"), ROOT / "runs" / "default_job.py"}


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        for field in FIELDS.get(type(node), ()):
            if (name := getattr(node, field)) is not None:
                yield node.lineno, name


def pointing(text: str) -> list[tuple[int, str]]:
    return [(line, name) for line, name in identifiers(ast.parse(text)) if name in POINTING]


def rates(text: str) -> list[tuple[int, str]]:
    """Comments, docstrings and messages that tell a rate with "a"."""
    if not RATE.search(text):  # nearly always: saves reading the tokens
        return []
    return [(token.start[0], match[0]) for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type in (tokenize.COMMENT, tokenize.STRING) and (match := RATE.search(token.string))]


@pytest.mark.parametrize(("text", "names"), [
    ("mine = 1", ["mine"]), ("def f(own): return own", ["own", "own"]), ("f(x.found, its=2)", ["found", "its"]),
    ("from a import b as there", ["there"]), ("own_data, founder = f'{here}', 'mine'", ["here"])])
def test_pointing_words_are_seen(text: str, names: list[str]) -> None:
    assert sorted(name for _, name in pointing(text)) == sorted(names)


@pytest.mark.parametrize(("text", "rate"), [
    ("# one label an input", "one label an input"), ("'at most 100 images a client'", "100 images a client"),
    ("f'{n}: one a channel'", "one a channel"), ("'number of classes a client'", "number of classes a client"),
    ("# as many steps a round", "steps a round"),
    ("'one label per input, the number of a client, 0 where a client has none, three in a row'", None)])
def test_rates_with_a_are_seen(text: str, rate: str | None) -> None:
    assert [match for _, match in rates(text)] == ([rate] if rate else [])


def test_identifiers_name_what_they_hold() -> None:
    """A reader of `mine`, `found` or `there` has to look elsewhere for what it is."""
    assert [f"{path.relative_to(ROOT)}:{line}: {name}" for path in FILES
            for line, name in pointing(path.read_text())] == []


def test_rates_are_told_with_per() -> None:
    assert [f"{path.relative_to(ROOT)}:{line}: {rate}" for path in FILES if path not in KEYS
            for line, rate in rates(path.read_text())] == []

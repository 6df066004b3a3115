"""Mutated calls and recipes: each can be built, or is refused in one line.

A thousand of each; `ASKEW_LONG=1` takes 10,000. A case that fails says how to get it back:
`ASKEW_CASE=17 pytest tests/fuzz/test_expressions.py`.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator

import pytest
from conform.pieces import PIECES

import askew
from askew.core import registry
from askew.core.errors import AskewError
from askew.core.population_spec import PopulationSpec
from askew.core.recipe import parse_value
from askew.runs.load import load_recipe

CASES = 10_000 if os.environ.get("ASKEW_LONG") else 1000
SLOWEST = 2.0  # seconds that one case may take
BUILT = ("client", "server", "schedule", "objective", "pool", "start", "probe", "combinator")  # they need no data
CALLS_OF = [(kind, call) for kind, names in PIECES.items() for calls in names.values() for call in calls]
RECIPES = [registry.build("method", call).to_toml() for _, calls in sorted(PIECES["method"].items()) for call in calls]
# What stands in the place of something else: all kinds of values of Python and of TOML, and what breaks parsers.
VALUES = ["", "0", "-1", "1e999", "-inf", "nan", "inf", "1" * 5000, "0x10", "1_000", "True", "none", "None", "'x'",
          '"', "''", "[]", "[[]]", "{}", "{[1]: 2}", "{1, 2}", "(1,)", "1j", "...", "b'x'", "f'{x}'", "lambda: 1",
          "x if y else z", "a.b", "a[0]", "*a", "**a", "not 1", "1 + 1", ":f", "builtins:int", "decay(0.1, 0.5)",
          "decay(decay(1, 1), 1)", "iid(clients=10)", "1979-05-27", "07:32:00", "{a = 1}", "[1, [2, ['x']]]",
          "-" * 3000 + "1", "[" * 300, "(" * 3000, "[" * 3000 + "]" * 3000, "\0", "\ud800", "\udcff", "\u202e", "\n",
          "\r\n", "\x1b[2J", "[/x]", "#", "é" * 3, "x" * 200_000, "10**9", str(10**18), str(10**30), "{task}", "%s",
          "$(id)", "../../x"]
SEPARATORS = "()[]{},=+-.:'\"#\n \\"


def mutated(text: str, draw: random.Random) -> str:
    """The text with one to three accidents."""
    for _ in range(draw.randint(1, 3)):
        at, end = sorted(draw.randint(0, len(text)) for _ in range(2))
        word = draw.choice(VALUES)
        rest = text[min(end, at + 12):]
        text = draw.choice([text[:at] + word + text[at:], text[:at] + word + rest, text[:at] + rest,
                            text[:at] + draw.choice(SEPARATORS) + text[at:], text[:end] + text[at:],
                            replaced_value(text, word, draw)])
    return text


def replaced_value(text: str, word: str, draw: random.Random) -> str:
    """Another value behind one of the equals signs."""
    places = [i for i, character in enumerate(text) if character == "="]
    if not places:
        return word
    at = draw.choice(places) + 1
    end = min((i for i in (text.find(stop, at) for stop in ",)\n") if i >= 0), default=len(text))
    return text[:at] + word + text[end:]


def build_call(kind: str, text: str) -> None:
    """As a recipe's field and as an argument on the command line are read."""
    if kind in ("partition", "combinator"):
        PopulationSpec.of(text if kind == "partition" else f"iid(clients=10) + {text}")
    else:
        spec = registry.parse(kind, text)
        assert registry.parse(kind, str(spec)) == spec, "what is written is not what was read"
        if kind in BUILT:
            registry.build(kind, spec)
    parse_value(text)


def build_recipe(text: str, path: str) -> None:
    """From a file, and back."""
    with open(path, "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
    load_recipe(path)  # type: ignore[arg-type]
    recipe = askew.Recipe.from_toml(text)
    assert askew.Recipe.from_toml(recipe.to_toml()) == recipe, "what is written is not what was read"


def cases() -> Iterator[int]:
    chosen = os.environ.get("ASKEW_CASE")
    yield from [int(chosen)] if chosen else range(CASES)


def failures(what: str, attempt: Callable[[random.Random], tuple[str, Callable[[], None]]]) -> list[str]:
    """One line for each case that neither is built nor refused in one line."""
    found, built = [], 0
    for case in cases():
        text, build = attempt(random.Random(f"{what} {case}"))
        began = time.process_time()
        try:
            build()
            built += 1
            said = ""
        except AskewError as error:
            fine = str(error) and "\n" not in str(error) and len(str(error)) <= 2000
            said = "" if fine else f"a message of another form: {error}"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        if not said and (took := time.process_time() - began) > SLOWEST:
            said = f"it took {took:.1f} s"
        if said:
            found.append(f"ASKEW_CASE={case} ({what}) {ascii(text)[:200]}: {said[:300]}")
    if not os.environ.get("ASKEW_CASE"):
        assert 0 < built < CASES, f"{built} of {CASES} were built: the accidents are too bad, or none"
    return found


def test_calls_of_all_pieces() -> None:
    def attempt(draw: random.Random) -> tuple[str, Callable[[], None]]:
        kind, call = draw.choice(CALLS_OF)
        text = mutated(call, draw)
        return f"{kind} {text}", lambda: build_call(kind, text)

    found = failures("call", attempt)
    assert not found, "\n" + "\n".join(found[:20])


def test_recipes_of_all_methods(tmp_path: pytest.TempPathFactory) -> None:
    def attempt(draw: random.Random) -> tuple[str, Callable[[], None]]:
        text = mutated(draw.choice(RECIPES), draw)
        return text, lambda: build_recipe(text, f"{tmp_path}/recipe.toml")

    found = failures("recipe", attempt)
    assert not found, "\n" + "\n".join(found[:20])


def test_values_as_settings() -> None:
    """Every value for every field, and for an argument, as `--set` would have it."""
    fields = [*askew.Recipe.__dataclass_fields__, "method", "sgd.lr", "client.sgd.lr", "population.clients", "", ".",
              "a.b.c.d", "shards."]

    def attempt(draw: random.Random) -> tuple[str, Callable[[], None]]:
        setting = f"{draw.choice(fields)}={draw.choice(VALUES)}"
        return setting, lambda: (load_recipe(settings=[setting]), None)[1]

    found = failures("setting", attempt)
    assert not found, "\n" + "\n".join(found[:20])

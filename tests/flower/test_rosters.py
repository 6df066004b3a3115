"""Lists of clients that no server has written, and keys of any length: one line each."""

import json

import pytest

pytest.importorskip("flwr")

from askew.flower.roster import Roster
from askew.flower.settings import NodeSettings

ABOUT = {"examples": 8, "validation": 0, "test": 2, "shape": [2], "dtype": "float32", "targets": "classes",
         "target_shape": [], "inputs": "", "client": "north", "node": 7}


@pytest.mark.parametrize(("clients", "says"), [
    ([], "it names no clients"),
    ([{**ABOUT, "classes": ["ill", "dead"], "labels": [5, 3]}], "not in"),
    ([{**ABOUT, "classes": ["ill", "well"], "labels": [5]}], "1 counts of labels"),
])
def test_a_list_that_contradicts_itself_is_damaged(tmp_path, refused, clients, says):
    (tmp_path / "clients.json").write_text(json.dumps({"run": "0", "classes": ["ill", "well"], "clients": clients}))
    with refused(f"clients.json' is damaged: .*{says}"):
        Roster.read(tmp_path)


@pytest.mark.parametrize(("text", "says"), [("data-" + "x" * 9_000 + " = 1", "unknown key 'data-xxx"),
                                            (f"client = \"{'n' * 9_000}\"", "client: 'nnn.* is no name")])
def test_long_words_are_quoted_in_short(tmp_path, refused, text, says):
    (tmp_path / "node.toml").write_text(text + "\n")
    with refused(rf"^(?=.{{1,600}}$).*{says}"):
        NodeSettings.read(tmp_path / "node.toml")

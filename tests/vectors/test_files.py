"""The files in vectors/ are what their generator writes, cover everything, and can be checked without askew."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from askew.core.registry import parse
from askew.pieces import client, methods, server

FOLDER = Path(__file__).parents[2] / "vectors"
INDEX = json.loads((FOLDER / "index.json").read_text())
FILES = {entry["name"]: json.loads((FOLDER / f"{entry['name']}.json").read_text()) for entry in INDEX["files"]}


def test_the_generator_writes_these_files(tmp_path: Path) -> None:
    subprocess.run([sys.executable, FOLDER / "make.py", tmp_path], check=True)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in FOLDER.glob("*.json")}
    for path in tmp_path.iterdir():
        near_enough(json.loads(path.read_text()), json.loads((FOLDER / path.name).read_text()))


def near_enough(a: object, b: object) -> None:
    """Equal but for the last digits, in which numpy's builds may differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        assert list(a) == list(b)
        for name in a:
            near_enough(a[name], b[name])
    elif isinstance(a, list) and isinstance(b, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            near_enough(x, y)
    else:
        assert a == (pytest.approx(b, rel=1e-12, abs=1e-12) if isinstance(b, float) else b)


def test_every_method_has_a_file_or_a_reason() -> None:
    shown = {parse("method", data["method"]).name for data in FILES.values() if data["method"]}
    assert shown.isdisjoint(INDEX["methods_without"])
    assert shown | set(INDEX["methods_without"]) == set(methods.__all__)


@pytest.mark.parametrize(("kind", "pieces"), [("client", client.__all__), ("server", server.__all__)])
def test_every_piece_is_in_a_file(kind: str, pieces: list[str]) -> None:
    shown = {parse(kind, text).name for data in FILES.values() for text in data.get(kind, [])}
    assert shown == set(pieces)


def test_no_file_imports_askew() -> None:
    assert not [path.name for path in FOLDER.rglob("*.py")
                if "import askew" in path.read_text() or "from askew" in path.read_text()]


def test_a_stranger_can_check_four_methods_without_askew() -> None:
    done = subprocess.run([sys.executable, "-I", FOLDER / "check.py"], capture_output=True, text=True, check=True)
    assert done.stdout == "fedavg, fedavgm, fedadam, scaffold: all numbers agree\n"


def test_the_check_notices_a_wrong_number(tmp_path: Path) -> None:
    for name in ("fedavg", "fedavgm", "fedadam", "scaffold"):
        (tmp_path / f"{name}.json").write_text((FOLDER / f"{name}.json").read_text())
    wrong = (FOLDER / "scaffold.json").read_text().replace('"control": {"body": [-0.5, 1.5, -0.5]',
                                                           '"control": {"body": [-0.5, 1.5, -0.4]')
    (tmp_path / "scaffold.json").write_text(wrong)
    done = subprocess.run([sys.executable, FOLDER / "check.py", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("scaffold.json, round 0, client 0, control: ")


def test_scaffold_as_printed_is_scaffold_as_measured_for_plain_sgd_and_not_with_momentum() -> None:
    near_enough(FILES["scaffold"]["rounds"], FILES["scaffold_printed"]["rounds"])
    measured, printed = (FILES[f"scaffold_momentum_{form}"]["rounds"][0]["local"] for form in ("measured", "printed"))
    near_enough(measured[0]["sent"], printed[0]["sent"])  # one step: momentum has not begun
    for m, p in zip(measured[1:], printed[1:], strict=True):
        near_enough(m["sent"]["update"], p["sent"]["update"])
        with pytest.raises(AssertionError):
            near_enough(m["sent"]["control"], p["sent"]["control"])

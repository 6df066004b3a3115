"""`askew predict` keeps all columns apart, whatever the table calls its client and its label."""

import csv
import json
import sys

import pytest

import askew
from askew.cli.app import main

NAMES = ["row", "run", "file", "row_", "hospital"]


@pytest.mark.parametrize(("client", "label"), [(a, b) for a in NAMES for b in NAMES if a != b][::3])
def test_no_column_takes_the_place_of_another(client, label, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [f"h{i % 2},{i % 7},{'yn'[i % 3 == 0]}" for i in range(30)]
    (tmp_path / "t.csv").write_text("\n".join([f"{client},a,{label}", *lines]) + "\n")
    recipe = askew.Recipe(data=f"table('t.csv', label='{label}', client='{client}')", population="natural()",
                          model="mlp(hidden=[2])", rounds=1)
    askew.run(recipe, out="trained")

    def predicted(*more):
        monkeypatch.setattr(sys, "argv", ["askew", "predict", "trained", "t.csv", *more])
        with pytest.raises(SystemExit):
            main()
        return capsys.readouterr().out

    capsys.readouterr()
    header, *rows = csv.reader(predicted().splitlines())
    assert header[1:] == [client, label]
    assert len(set(header)) == 3
    assert [row[:2] for row in rows] == [[str(i + 1), f"h{i % 2}"] for i in range(30)]
    found = json.loads(predicted("--json"))
    assert len(found) == 5
    assert found[client] == [f"h{i % 2}" for i in range(30)]
    assert found[label] == [row[2] for row in rows]
    assert "trained" in found.values()
    assert "t.csv" in found.values()

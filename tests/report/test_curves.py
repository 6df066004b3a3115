"""Pictures of runs: that they hold the numbers they are given, and refuse what they cannot draw."""

import itertools
import re
import subprocess
import sys

import pytest

import askew
from askew.core.errors import AskewError
from askew.report.canvas import line_styles
from askew.report.curves import plot_curves, plot_norms

RUNS = {"fedavg": [{"round": 1, "accuracy": 0.5}, {"round": 2}, {"round": 3, "accuracy": 0.75}],
        "fedavgm": [{"round": 1, "accuracy": 0.25}, {"round": 2, "accuracy": None}, {"round": 3, "accuracy": 0.8125}]}


@pytest.fixture
def svg_text(monkeypatch):
    """SVG files with text as text, so that a test can read it."""
    from askew.report import canvas

    monkeypatch.setitem(canvas._STYLE, "svg.fonttype", "none")
    return lambda path: re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text())


def test_the_legend_lists_runs_by_their_last_value(tmp_path, svg_text):
    plot_curves(RUNS, tmp_path / "a.svg")
    words = svg_text(tmp_path / "a.svg")
    assert [word for word in words if "fedavg" in word] == ["81.2%  fedavgm", "75.0%  fedavg"]
    assert "accuracy" in words
    assert "round" in words


def test_other_numbers_are_drawn_as_they_are(tmp_path, svg_text):
    plot_curves({"a": [{"round": 1, "N/E": 0.25}]}, tmp_path / "a.svg", what="N/E")
    words = svg_text(tmp_path / "a.svg")
    assert "0.250  a" in words
    assert not any("%" in word for word in words)


def test_thirty_six_lines_all_differ(tmp_path):
    runs = {f"run {i}": [{"round": 1, "accuracy": i / 50}, {"round": 2, "accuracy": i / 40}] for i in range(36)}
    plot_curves(runs, tmp_path / "a.svg")
    lines = re.findall(r'<path d="[^"]*" clip-path="[^"]*" style="(fill: none;[^"]*stroke-width: 1.4[^"]*)"',
                       (tmp_path / "a.svg").read_text())
    assert len(lines) == len(set(lines)) == 36


@pytest.mark.parametrize("without", [(), ("#bd1f01",)])
def test_neighbours_differ_in_dashes_too_and_gaps_lie_above(without):
    styles = line_styles(32, without)
    assert len({(style["color"], str(style["linestyle"])) for style in styles}) == 32
    assert not set(without) & {style["color"] for style in styles}
    for one, other in itertools.pairwise(styles[:9]):
        assert one["color"] != other["color"]
        assert one["linestyle"] != other["linestyle"]
    solid = [style["zorder"] for style in styles if style["linestyle"] == "-"]
    assert max(solid) < min(style["zorder"] for style in styles if style["linestyle"] != "-")


def test_the_same_records_write_the_same_bytes(tmp_path):
    for ending in ("png", "svg"):
        for name in ("a", "b"):
            plot_curves(RUNS, tmp_path / f"{name}.{ending}")
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_runs_without_the_number_are_refused(tmp_path):
    with pytest.raises(AskewError, match="run 'x' has no rounds with 'accuracy' to draw"):
        plot_curves({**RUNS, "x": [{"round": 1}]}, tmp_path / "a.png")
    with pytest.raises(AskewError, match="there are no rounds"):
        plot_curves({}, tmp_path / "a.png")
    with pytest.raises(AskewError, match="must end in"):
        plot_curves(RUNS, tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


def norms_of(**changes):
    recipe = askew.Recipe(model="small_cnn()", rounds=2, population="iid(clients=3)", batch_size=100, **changes)
    return askew.run(recipe).records


def test_norms_of_a_run(tmp_path, svg_text):
    plot_norms(norms_of(probes=["update_norms()"]), tmp_path / "a.svg", title="fedavg")
    words = svg_text(tmp_path / "a.svg")
    assert {"whole model", "conv", "fc", "fedavg"} <= set(words)
    assert "E: mean length of the clients' updates" in words
    assert "step that the server takes" not in words  # under FedAvg it is N


def test_the_servers_step_is_drawn_where_it_is_another(tmp_path, svg_text):
    records = norms_of(probes=["update_norms(per='layer')"], server=["mean()", "scale(0.5)"])
    plot_norms(records, tmp_path / "a.svg")
    words = svg_text(tmp_path / "a.svg")
    assert "step that the server takes" in words
    assert {"conv1", "conv2", "fc1", "fc2"} <= set(words)


def test_norms_need_the_probe(tmp_path):
    with pytest.raises(AskewError, match=r"run with the probe update_norms\(\)"):
        plot_norms(RUNS["fedavg"], tmp_path / "a.png")


def test_importing_does_not_import_matplotlib():
    code = "import sys, askew.report.curves; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_picture_that_is_there_is_kept(tmp_path, refused):
    (tmp_path / "a.png").write_text("a figure of somebody's")
    with refused("plot file: .*a.png' exists already; name another file, or say overwrite=True"):
        plot_curves(RUNS, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_text() == "a figure of somebody's"
    plot_curves(RUNS, tmp_path / "a.png", overwrite=True)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")

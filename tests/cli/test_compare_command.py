"""`askew compare`, as a user types it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conform.forms import LONG
from forked import Forked

import askew
from askew.cli.app import main
from askew.cli.compare import make_recipes
from askew.core import registry
from askew.runs import default_job
from askew.runs.load import load_recipe, split_outside_brackets

Run = Callable[..., tuple[int, str, str]]
SMALL = ("--rounds", "3", "--seeds", "2")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Call `askew compare` with arguments, in an empty folder; exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["askew", "compare", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        text = capsys.readouterr()
        return int(ended.value.code or 0), text.out, text.err

    return call


def test_json_is_what_the_runs_give_by_themselves(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("--methods", "fedavg, fedprox(mu=0.1)", *SMALL, "--json", "--out", "here")
    assert code == 0
    said = json.loads(out)
    assert [row["name"] for row in said["methods"]] == ["fedavg", "fedprox(mu=0.1)"]
    assert said["seeds"] == [0, 1]
    assert said["population"] == default_job.ONE_CLASS
    for row, method in zip(said["methods"], ("fedavg", "fedprox(mu=0.1)"), strict=True):
        recipe = load_recipe(None, ["rounds=3"], method, default_job.JOB)
        assert row["accuracies"] == [askew.run(recipe.replace(seed=seed)).accuracy for seed in (0, 1)]
        assert row["accuracy_mean"] == pytest.approx(sum(row["accuracies"]) / 2)
        assert {"accuracy_std", "rounds_to_target", "bytes", "seconds"} <= set(row)
        assert row["settings"]["rounds"] == 3
    written = {path.name for path in Path("here").iterdir()}
    assert {"table.json", "curves.png", "curves.svg", "fedavg-seed0", "fedavg-seed1"} <= written
    assert json.loads(Path("here/table.json").read_text())["methods"] == said["methods"]


def test_the_table_names_methods_target_and_fairness(run: Run) -> None:
    code, out, _ = run("--methods", "fedavg,fednnnn,centralised", *SMALL, "--target", "0.4", "--plot", "picture.svg")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    methods = [line[0] for line in lines if line and line[0] in ("fedavg", "fednnnn", "centralised")]
    assert methods[0] == "centralised"
    assert "40.0%" in out
    assert "same data, clients, first weights and rounds" in " ".join(out.split())
    assert Path("picture.svg").read_text().startswith("<?xml")
    folder = Path(out.split("run folder:")[1].split("page:")[0].strip())
    assert folder.parent == Path("runs")
    assert folder.name.endswith("-compare")
    assert (folder / "curves.png").is_file()
    assert out.endswith(f"page: {folder / 'report.html'}\n")
    assert (folder / "report.html").is_file()


def test_a_method_that_diverges_is_shown_as_such(run: Run) -> None:
    code, out, _ = run("--methods", "fedavg,fednnnn(beta=1e30)", *SMALL)
    assert code == 0
    said = " ".join(out.split())
    assert "fednnnn(beta=1e+30) diverged in 2 of 2 seeds: seed 0, round" in said
    assert "lower the learning rate" in said


def test_nothing_but_divergence_has_the_exit_code_of_divergence(run: Run) -> None:
    code, out, _ = run("--methods", "fednnnn(beta=1e30)", *SMALL, "--json")
    assert code == 3
    assert json.loads(out)["methods"][0]["accuracy_mean"] is None


def test_with_fedcd_the_table_says_that_all_are_judged_by_device(run: Run) -> None:
    code, out, _ = run("--methods", "fedavg,fedcd(milestones=[1])", *SMALL)
    assert code == 0
    said = " ".join(out.split())
    assert "accuracy on accuracy on" in said
    assert "all are judged so, since under fedcd each client has a model of its own" in said
    assert "most frequent class would score 98." in said
    assert "a validation set on each device" in said


def test_a_file_is_what_all_methods_start_from(run: Run) -> None:
    Path("base.toml").write_text('population = "iid(clients=4)"\nrounds = 2\nseed = 5\nbatch_size = 50\n')
    code, out, _ = run("base.toml", "--methods", "fedavg,fedavgm", "--seeds", "1", "--set", "sgd.lr=0.05", "--json")
    assert code == 0
    said = json.loads(out)
    assert said["seeds"] == [5]
    assert said["population"] == "iid(clients=4)"
    assert all(row["settings"]["batch_size"] == 50 for row in said["methods"])
    assert all(row["settings"]["client"] == ["sgd(lr=0.05)"] for row in said["methods"])


@pytest.mark.parametrize(("arguments", "message"), [
    (["--methods", "fedavg,fedproxx"], "unknown method 'fedproxx'; did you mean 'fedprox'?"),
    (["--methods", "fedprox(nu=1)"], "has no argument 'nu'; did you mean 'mu'?"),
    (["--methods", "fedavg,,fednnnn"], "has an empty place"),
    (["--methods", "fedavg,fedavg"], "names fedavg twice"),
    (["--methods", "sign_agreement(theta=50)"], "sign_agreement(theta=50): server: mask_by_sign_agreement: theta = 50"),
    (["--methods", "fedavg", "--seeds", "0"], "--seeds must be at least 1, got 0"),
    (["--methods", "fedavg", "--target", "90"], "target must be an accuracy in (0, 1], got 90"),
    (["--methods", "fedavg", "--rounds", "0"], "rounds must be at least 1, got 0"),
    (["--methods", "fedavg", "--set", "method=fednnnn"], "compare takes --methods"),
    (["--methods", "fedavg", "--data", "digitz"], "did you mean 'digits'?"),
    (["--methods", "fedavg", "--population", "iid(clients=0)"], "iid"),
    (["--methods", "fedavg", "--engine", "warp"], "unknown engine 'warp'"),
    (["--methods", "fedavg", "--plot", "picture.doc"], "must end in .png, .svg, .pdf"),
    (["nowhere.toml"], "no recipe file 'nowhere.toml'"),
])
def test_bad_input_is_one_line_and_writes_nothing(run: Run, arguments: list[str], message: str, tmp_path: Path) -> None:
    code, out, err = run(*arguments, "--json")
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_empty_is_refused(run: Run) -> None:
    Path("full").mkdir()
    Path("full/thesis.tex").write_text("years of work")
    code, _, err = run("--methods", "fedavg", "--out", "full")
    assert code == 2
    assert "is not empty" in err
    assert [p.name for p in Path("full").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(("text", "parts"), [
    ("fedavg", ["fedavg"]),
    (" fedavg , fednnnn ", ["fedavg", "fednnnn"]),
    ("fednnnn(beta=0.7, gamma=0.8),fedcd([5, 15])", ["fednnnn(beta=0.7, gamma=0.8)", "fedcd([5, 15])"]),
    ("projected(2.0, centre='start'),a(b='x,(y')", ["projected(2.0, centre='start')", "a(b='x,(y')"]),
])
def test_commas_in_brackets_do_not_separate(text: str, parts: list[str]) -> None:
    assert split_outside_brackets(text, ",") == parts


def test_a_plus_makes_a_combination() -> None:
    made = make_recipes(None, ["rounds=2"], "fedprox(mu=0.5)+fedavgm(beta=0.7),fedavg")
    assert list(made) == ["fedprox(mu=0.5)+fedavgm(beta=0.7)", "fedavg"]
    both = made["fedprox(mu=0.5)+fedavgm(beta=0.7)"]
    assert [str(spec) for spec in both.client] == ["add_proximal(mu=0.5)", "sgd(lr=0.3)"]
    assert both.server[-1].args == {"beta": 0.7, "nesterov": True}


def test_the_default_job_has_every_method_once() -> None:
    """Of those that the five papers compare; of later ones `--methods` takes as many as wanted."""
    names = [call.partition("(")[0] for call in default_job.METHODS]
    later = {"scaffold", "fednova", "feddyn", "fedadam", "fedyogi", "fedadagrad", "fedexp", "median", "trimmed_mean",
             "kept_momentum", "dp_fedavg", "fedper", "fedbn"}
    assert sorted(names) == sorted(set(registry.names("method")) - later)
    assert list(default_job.SKEWS.values())[-1] == default_job.JOB["population"]


def test_arguments_made_for_the_digits_are_not_used_on_other_data() -> None:
    on_digits, on_mnist = make_recipes(None, [], None), make_recipes(None, ["data=mnist"], None)
    assert "server_momentum(beta=0.9)" in on_digits
    assert list(on_mnist) == [call.partition("(")[0] for call in default_job.METHODS]
    assert str(on_mnist["fedavg"].population) == default_job.ONE_CLASS
    assert on_mnist["fedavg"].client == askew.Recipe().client


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_ctrl_c_prints_what_was_finished(tmp_path: Path) -> None:
    """A process of its own and a real signal, once the first run is on disk."""
    process = Forked(tmp_path, "compare", "--methods", "fedavg,fednnnn", "--rounds", "10", "--set", "batch_size=40",
                     "--seeds", "50", "--out", "c")
    end = time.monotonic() + 60
    while not (tmp_path / "c" / "fednnnn-seed0" / "summary.json").exists() and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "fednnnn" in out
    assert "interrupted: this is what was finished" in err
    saved = json.loads((tmp_path / "c" / "table.json").read_text())
    assert saved["interrupted"]
    assert all(0 in row["seeds"] and len(row["seeds"]) < 50 for row in saved["methods"])


@pytest.mark.slow
def test_the_default_job_shows_the_loss_and_the_remedies(run: Run) -> None:
    """The story that the README tells; in the long run on all three seeds that it reports."""
    code, out, _ = run("--engine", "vectorised", "--seeds", "3" if LONG else "1", "--json")
    assert code == 0
    said = json.loads(out)
    rows = {row["method"]: row for row in said["methods"]}
    assert len(rows) == 13
    alike, two, one = (row["accuracy_mean"] for row in said["skew"][1:])
    ceiling = said["skew"][0]["accuracy_mean"]
    assert abs(alike - ceiling) < 0.02
    assert alike > two + 0.02
    assert two > one + 0.04
    assert rows["fednnnn"]["gap_closed"] > 0.8  # 0.87 with one seed, 0.91 with three; 0.74 and 0.73 without rescaling
    assert rows["ozdayi_combination"]["gap_closed"] > 0.7
    assert rows["fedcd"]["accuracy_mean"] > rows["fedavg"]["accuracy_mean"] + 0.05
    assert rows["fedcd"]["test_accuracy_mean"] < 0.6  # each device's model knows little beyond the device's own class

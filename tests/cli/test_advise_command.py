"""`askew advise` on small federations of every kind: what always holds, whoever wins; bad input; folders; counts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

import askew
from askew.advice import candidates, planning
from askew.advice.contest import Plan
from askew.cli.app import main
from askew.core.dataset import Dataset, Examples

Run = Callable[..., tuple[int, str, str]]
FEW = "--methods", "fedavgm,fedprox", "--rounds", "2"


@pytest.fixture(autouse=True)
def smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest contest, however much time there is: a test is about what comes out, not about who wins. Each method
    has four settings, of which one stays, of FedAvg two; tests/advice looks at all eight."""
    monkeypatch.setattr(planning, "plans", lambda rounds: [Plan(rounds, keep=1, selection=1, comparison=2,
                                                                confirmation=2)])
    monkeypatch.setattr(candidates, "RATES", (1.0, 3.0))
    monkeypatch.setattr(candidates, "FINE_RATES", (1 / 3, 1.0, 3.0, 10.0))


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["askew", "advise", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        text = capsys.readouterr()
        return int(ended.value.code or 0), text.out, text.err

    return call


def check(advice: dict[str, Any]) -> None:
    """What every advice keeps."""
    gains = [row["gain"] for row in advice["ranking"] if row["gain"] is not None]
    assert gains == sorted(gains, reverse=True)
    struck = {row["method"] for row in advice["struck"]}
    ranked = [row["method"] for row in advice["ranking"]]
    assert not struck & set(ranked)
    assert "fedavg" not in ranked
    for row in advice["ranking"]:
        assert {"method", "gain", "gain_std", "low", "high", "demands", "chance_best"} <= row.keys()
        assert row["low"] is None or row["low"] <= row["gain"] <= row["high"]
    chances = [advice["opponent"]["chance_best"], *(row["chance_best"] for row in advice["ranking"])]
    assert sum(chances) == pytest.approx(1, abs=1e-6) or any(row["broke_off"] for row in advice["ranking"])
    chosen = advice["decision"]["method"]
    assert chosen is None or chosen in ranked
    if chosen is not None:
        row = next(row for row in advice["ranking"] if row["method"] == chosen)
        assert row["low"] > advice["decision"]["margin"]
        assert row["confirmed"]
    recipe = askew.Recipe.from_toml(advice["recipe"])
    assert recipe.name == (chosen or "fedavg").partition("(")[0]
    assert {"here", "iid", "centralised", "lost_to_skew", "lost_to_federation"} <= advice["cost"].keys()


@pytest.mark.slow
def test_a_folder_gets_advice_recipe_page_and_journal_and_can_be_gone_on_with(cli: Run, tmp_path: Path) -> None:
    options = ("--population", "shards(clients=5, shards_per_client=2) + subset(0.3)", *FEW, "--out", "advice",
               "--quiet")
    code, out, _ = cli(*options, "--json")
    advice = json.loads(out)
    assert code == 0
    check(advice)
    assert advice["skew"]["mean_emd"] > 1
    assert 0 < advice["skew"]["norm_ratio"] < 1
    assert sorted(p.name for p in (tmp_path / "advice").iterdir()) == [
        "advice.json", "askew.json", "plan.json", "recipe.toml", "report.html", "trials.jsonl"]
    assert "What skew costs FedAvg" in (tmp_path / "advice" / "report.html").read_text()
    trained = askew.run(askew.Recipe.from_toml((tmp_path / "advice" / "recipe.toml").read_text()))
    assert trained.finished
    code, _, err = cli(*options)
    assert code == 2
    assert "is not empty; name another folder, or add --resume to continue the advice in it" in err
    journal = (tmp_path / "advice" / "trials.jsonl").read_text()
    code, out, _ = cli(*options, "--resume", "--json")
    again = json.loads(out)
    assert code == 0
    assert (again["ranking"], again["decision"]) == (advice["ranking"], advice["decision"])
    assert (tmp_path / "advice" / "trials.jsonl").read_text() == journal, "a trial was trained again"


@pytest.mark.slow
def test_a_person_reads_facts_ranking_decision_and_recipe_and_nothing_is_written(cli: Run, tmp_path: Path) -> None:
    code, out, _ = cli("--population", "iid(clients=4) + subset(0.3)", *FEW, "--quiet", "--no-server-data")
    assert code == 0
    for text in ("mean EMD of labels", "N/E of FedAvg's first rounds", "the same clients without skew", "95% interval",
                 "chance of being best", "fedprox", "remedy is needed here", 'subset(fraction=0.3)"'):
        assert text in out, text
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_counts_alone_say_so_first(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "clinics.csv").write_text("clinic,ill,well\nnorth,80,20\nsouth,10,90\neast,30,30\n")
    code, out, _ = cli("--counts", "clinics.csv", *FEW, "--quiet", "--out", "advice")
    assert code == 0
    assert out.startswith("From the counts in clinics.csv alone: the same label skew on digits, in place of your data.")
    advice = json.loads((tmp_path / "advice" / "advice.json").read_text())
    assert advice["from_counts"] == "clinics.csv"
    assert advice["clients"] == 3
    shares = np.array([[0.8, 0.2], [0.1, 0.9], [0.5, 0.5]])
    p = np.array([120, 140]) / 260
    assert advice["skew"]["mean_emd"] == pytest.approx(np.abs(shares - p).sum(axis=1).mean(), abs=0.05)


@pytest.mark.parametrize(("options", "says"), [
    (["--population", "pooled()"], "the federation has one client, so there is no skew to remedy; train it with askew"),
    (["--population", "iid(clients=1)"], "the federation has one client"),
    (["--budget", "0.00001", *FEW], "minutes are left for trials, and the smallest contest of 3 methods takes about"),
    (["--budget", "-1"], "--budget must be a number of minutes above 0, got -1"),
    (["--margin", "-1"], "--margin must be 0 or more, got -1"),
    (["--methods", "scaffold,feddyn", "--stateless-clients", "--rounds", "2"],
     "the demands leave no method but FedAvg: scaffold: clients remember 1 x the model between rounds"),
    (["--methods", "fedprox,fedprox"], "--methods names fedprox twice"),
    (["--methods", "nosuch"], "unknown method 'nosuch'"),
    (["--upload-budget", "0"], "--upload-budget must be a number of megabytes above 0, got 0"),
    (["--counts", "none.csv"], "none.csv"),
    (["--population", "dirichlet(clients=1000, alpha=0.1)", *FEW], "two are needed, one to train and one to validate"),
    (["--set", "client=[\"sgd(lr=0.1)\", \"nosuch()\"]"], "unknown client 'nosuch'"),
    (["--resume"], "--resume needs --out with the folder of an interrupted advice")])
def test_bad_input_is_one_line(cli: Run, options: list[str], says: str, tmp_path: Path) -> None:
    code, out, err = cli(*options, "--quiet")
    assert (code, out) == (2, "")
    lines = [line for line in err.splitlines() if line.startswith("askew: ")]
    assert says in lines[-1]
    assert not list(tmp_path.iterdir()), "bad input writes nothing"


def federation(number: int) -> tuple[askew.Recipe, Dataset]:
    """A small federation of any kind: classes, numbers or several labels; owners or a scheme; equal or unequal."""
    draw = Random(number)
    clients, examples = draw.randint(2, 6), draw.randint(60, 140)
    noise = np.random.default_rng(number)
    x = noise.normal(size=(examples + 40, draw.choice((2, 7)))).astype(np.float32)
    kind = draw.choice(("classes", "numbers", "labels"))
    classes = draw.randint(2, 4)
    y: Any
    if kind == "classes":
        y = torch.from_numpy(np.digitize(x[:, 0], np.linspace(-1, 1, classes - 1) if classes > 2 else [0.0]))
    elif kind == "numbers":
        y = torch.from_numpy(x[:, :1] * 2 + 1)
    else:
        y = torch.from_numpy((x[:, :2] > 0).astype(np.float32))
    names = tuple(map(str, range(classes if kind == "classes" else y.shape[1])))
    ids = noise.integers(0, clients, examples)
    ids[: 4 * clients] = np.arange(4 * clients) % clients  # nobody has fewer than four
    train, test = (Examples(torch.from_numpy(x[part]), y[part]) for part in (slice(examples), slice(examples, None)))
    data = Dataset(f"federation {number}", train, test, names, client_ids=ids, targets=kind)  # type: ignore[arg-type]
    schemes = ["natural()", f"iid(clients={clients})", f"dirichlet_sizes(clients={clients}, beta=2.0, min_examples=4)",
               f"power_law(clients={clients}, min_examples=4)", f"iid(clients={clients}) + feature_noise(0.5)"]
    if kind == "classes":
        schemes += [f"shards(clients={clients}, shards_per_client=2)", f"dirichlet(clients={clients}, alpha=0.5)"]
    objective = {"classes": "cross_entropy()", "numbers": "mean_squared_error()", "labels": "binary_cross_entropy()"}
    return askew.Recipe(population=draw.choice(schemes), model="mlp(hidden=[4])", rounds=draw.choice((1, 2, 3)),
                        objective=objective[kind], batch_size=draw.choice((0, 5, 8)), client="sgd(lr=0.05)",
                        fraction=draw.choice((1.0, 0.5)), seed=number), data


@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
def test_federations_of_every_kind(number: int) -> None:
    recipe, data = federation(number)
    known = ["fedavgm", "fednnnn", "fedprox", "fednova", "scaffold", "feddyn", "server_training"]
    methods = Random(number).sample(known, 2)
    advice = askew.advise(recipe, data=data, methods=methods)
    check(json.loads(json.dumps(advice.as_mapping(), default=float).replace("NaN", "null").replace("-Infinity", "null")
                     .replace("Infinity", "null")))
    assert {entry.method for entry in advice.contest.entries} | set(advice.struck) == set(methods)
    assert (advice.facts.mean_emd is None) == (data.targets != "classes")
    assert advice.unit == ("points" if data.targets != "numbers" else "% of mean squared error")


@pytest.mark.slow
def test_the_same_seed_gives_the_same_advice() -> None:
    recipe, data = federation(1)
    one, other = (askew.advise(recipe, data=data, methods=["fedavgm"]).as_mapping() for _ in range(2))
    assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.mark.slow
def test_models_of_clients_own_take_part_where_clients_are_judged_by_their_own_data() -> None:
    base = askew.Recipe(population="shards(clients=4, shards_per_client=2)", rounds=2)
    globally = askew.advise(base, methods=["fedper", "fedavgm"])
    assert "it gives each client a model of its own" in globally.struck["fedper"]
    by_devices = askew.advise(base.replace(judge="devices"), methods=["fedper"])
    assert [entry.method for entry in by_devices.contest.entries] == ["fedper"]
    assert by_devices.contest.entry("fedper").gain.mean > 5

"""evaluation.json: the measures of the final models, on the examples and with the weights that the run is judged by."""

import json
import shutil

import numpy as np
import pytest
import torch
from sklearn import metrics

import askew
from askew.core.pool import MANY_CLIENTS
from askew.engine.evaluate import outputs
from askew.pieces.methods import fedcd
from askew.runs.evaluation import EVALUATION, read_evaluation
from askew.runs.judge import majority_accuracy
from askew.runs.run_folder import RunFolder
from askew.runs.sweep import sweep

BASE = askew.Recipe(rounds=2, population="dirichlet_per_class(clients=5, alpha=0.3)", batch_size=40)
KEYS = ["format", "round", "task", "judged_on", "headline", "higher_is_better", "measures", "classes", "by_class",
        "confusion", "clients", "models", "skew"]


def data_of(targets, examples=60, outputs=3):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(examples, 4, generator=draw)
    y = {"classes": torch.arange(examples) % outputs, "numbers": torch.randn(examples, outputs, generator=draw),
         "labels": (torch.rand(examples, outputs, generator=draw) > 0.5).float(),
         "tokens": torch.randint(0, outputs, (examples, 4), generator=draw)}[targets]
    return askew.Dataset.from_tensors((x, y), (x[:30], y[:30]), targets=targets)


@askew.piece("model")
def places(input_shape, num_classes):
    """Outputs at each of four places."""
    return torch.nn.Sequential(torch.nn.Linear(4, 4 * num_classes), torch.nn.Unflatten(1, (4, num_classes)))


def outputs_of(result):
    task = result.simulation.task
    return torch.cat(list(outputs(task, result.simulation.view(0), task.data.test.x))).double().numpy()


def test_a_classifier_on_the_whole_test_set():
    result = askew.run(BASE)
    got, y = result.evaluation, result.simulation.task.data.test.y.numpy()
    outputs = outputs_of(result)
    shares = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    answers = shares.argmax(axis=1)
    assert list(got) == KEYS
    assert (got["task"], got["judged_on"]) == ("classification", "the whole test set (360 examples)")
    assert got["measures"] == pytest.approx({
        "accuracy": result.accuracy, "balanced_accuracy": metrics.balanced_accuracy_score(y, answers),
        "macro_f1": metrics.f1_score(y, answers, average="macro"),
        "auroc": metrics.roc_auc_score(y, shares, multi_class="ovr"), "log_loss": metrics.log_loss(y, shares),
        "calibration_error": got["measures"]["calibration_error"], "loss": result.records[-1]["loss"]}, rel=1e-6)
    assert 0 < got["measures"]["calibration_error"] < 1
    assert got["measures"]["accuracy"] == result.accuracy  # to the last bit
    assert got["confusion"] == metrics.confusion_matrix(y, answers).tolist()
    assert got["by_class"]["examples"] == np.bincount(y).tolist()
    assert got["by_class"]["recall"] == pytest.approx(metrics.recall_score(y, answers, average=None))
    assert got["clients"]["score"] == result.simulation.device_scores().tolist()
    assert got["clients"]["label_counts"] == result.simulation.task.population.counts.tolist()
    assert got["models"] == {"0": {"clients": 5, "score": result.accuracy, "parent": None, "born": 0, "died": None}}
    assert got["skew"]["mean_emd"] == result.simulation.task.population.mean_emd


FEDERATIONS = {
    "own test data, two models": fedcd(BASE.replace(population="hierarchical(clients=10)", rounds=4), milestones=[1]),
    "classes weigh the test set": BASE.replace(judge="devices"),
    "two models on the whole test set": fedcd(BASE.replace(rounds=3, judge="global"), milestones=[1]),
    "own last layers": BASE.replace(client=["sgd(0.1)", "stay_local(['fc2.*'])"], model="mlp(hidden=[8])"),
    "own last layers, whole test set": BASE.replace(client=["sgd(0.1)", "stay_local(['fc2.*'])"],
                                                    model="mlp(hidden=[8])", judge="global"),
}


@pytest.mark.parametrize("name", FEDERATIONS)
def test_the_headline_and_the_clients_are_those_of_the_record(name):
    result = askew.run(FEDERATIONS[name])
    got, record = result.evaluation, result.records[-1]
    assert got["measures"]["accuracy"] == record["accuracy"]
    assert np.mean(got["clients"]["score"]) == record["device_accuracy_mean"]
    assert min(got["clients"]["score"]) == record["device_accuracy_min"]
    confusion = np.array(got["confusion"])
    assert confusion.sum() == pytest.approx(360)
    # The accuracy of all examples together, as they are weighted, is the mean over clients.
    assert np.trace(confusion) / 360 == pytest.approx(record["accuracy"], abs=1e-5)
    recall = np.diag(confusion) / confusion.sum(axis=1)
    assert got["by_class"]["recall"] == pytest.approx(recall.tolist(), abs=1e-5)
    assert got["measures"]["balanced_accuracy"] == pytest.approx(recall.mean(), abs=1e-5)
    by_devices = FEDERATIONS[name].judge != "global"
    assert ("clients" in got["judged_on"]) == by_devices
    assert got["judged_on"] == result.judged_on


def test_what_other_targets_are_judged_by():
    for targets, objective, model, task, names in (
            ("numbers", "mean_squared_error()", "mlp(hidden=[4])", "regression",
             {"r2", "mean_absolute_error", "root_mean_squared_error", "mean_squared_error", "loss"}),
            ("labels", "binary_cross_entropy()", "mlp(hidden=[4])", "multilabel",
             {"macro_f1", "auroc", "label_accuracy", "exact_match", "loss"}),
            ("tokens", "next_token()", "places()", "tokens", {"token_accuracy", "loss"})):
        recipe = askew.Recipe(rounds=1, population="iid(clients=3)", objective=objective, model=model)
        result = askew.run(recipe, data=data_of(targets))
        got, y = result.evaluation, result.simulation.task.data.test.y.numpy()
        assert (got["task"], set(got["measures"])) == (task, names)
        assert got["measures"][got["headline"]] == result.score
        assert got["confusion"] is got["skew"] is got["clients"]["label_counts"] is None
        assert got["clients"]["score"] == pytest.approx([result.score] * 3)
        if targets == "numbers":
            assert got["measures"]["r2"] == pytest.approx(metrics.r2_score(y, outputs_of(result)), abs=1e-6)
            assert got["by_class"] is got["classes"] is None
        if targets == "labels":
            assert got["measures"]["auroc"] == pytest.approx(metrics.roc_auc_score(y, outputs_of(result)))
            assert got["measures"]["macro_f1"] == pytest.approx(metrics.f1_score(
                y, outputs_of(result) > 0, average="macro", zero_division=np.nan))
            assert got["by_class"]["examples"] == y.sum(axis=0).tolist()


def test_an_objective_of_ones_own_is_judged_by_its_own_measures():
    @askew.piece("objective")
    def margin():
        """Two classes told apart by the sign of one output."""
        return askew.Objective(lambda o, y: torch.relu(1 - o[:, 0] * (2 * y - 1)))

    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1))
    result = askew.run(askew.Recipe(rounds=1, population="iid(clients=3)", objective=margin()),
                       data=data_of("classes", outputs=2), model=network)
    assert (result.evaluation["task"], result.evaluation["measures"]) == ("other", {"loss": result.score})


def test_a_class_without_an_example_is_left_out_of_means_and_null_in_lists():
    data = data_of("classes")
    gone = askew.Dataset.from_tensors((data.train.x, data.train.y), (data.test.x[:1], data.test.y[:1]))
    got = askew.run(askew.Recipe(rounds=1, population="iid(clients=3)"), data=gone).evaluation
    assert got["by_class"]["recall"][1:] == [None, None]
    assert got["measures"]["auroc"] is None
    assert got["measures"]["balanced_accuracy"] == got["by_class"]["recall"][0]


def test_more_than_a_hundred_classes_have_no_matrix():
    x, y = torch.randn(202, 3), torch.arange(202) % 101
    got = askew.run(askew.Recipe(rounds=1, population="iid(clients=2)"),
                    data=askew.Dataset.from_tensors((x, y), (x, y))).evaluation
    assert got["confusion"] is got["measures"]["auroc"] is None
    assert len(got["by_class"]["f1"]) == 101


def test_many_clients_are_left_out():
    many = MANY_CLIENTS + 1
    x, y = torch.randn(many, 2), torch.arange(many) % 2
    got = askew.run(askew.Recipe(rounds=1, population=f"iid(clients={many})", fraction=0.001),
                    data=askew.Dataset.from_tensors((x, y), (x[:10], y[:10]))).evaluation
    assert got["clients"] is None
    assert got["models"]["0"]["clients"] == many


def test_clients_are_called_by_the_datas_own_ids():
    x, y, owners = torch.randn(6, 2), torch.arange(6) % 2, np.array([7, 7, 3, 3, 40, 40])
    plain = askew.Dataset.from_tensors((x, y), (x, y))
    data = askew.Dataset("own", plain.train, plain.test, plain.classes, client_ids=owners)
    for population, names in (("natural()", ["3", "7", "40"]), ("iid(clients=2)", ["0", "1"])):
        got = askew.run(askew.Recipe(rounds=1, population=population), data=data).evaluation
        assert got["clients"]["name"] == names


def test_the_models_of_a_pool_have_a_genealogy():
    recipe = fedcd(askew.Recipe(rounds=6, population="hierarchical(clients=10)"), milestones=[1, 2, 3])
    for name, value in (("late_round", 3), ("late_score", 0.6)):  # every device keeps one of its two in the end
        recipe = recipe.with_setting(f"clone_and_delete.{name}", value)
    result = askew.run(recipe)
    models = result.evaluation["models"]
    assert {n: (m["parent"], m["born"]) for n, m in models.items()} == {
        "0": (None, 0), "1": (0, 1), "2": (0, 2), "3": (1, 2), "4": (0, 3), "5": (1, 3), "6": (2, 3), "7": (3, 3)}
    assert sum(model["clients"] for model in models.values()) == 10
    for number, model in models.items():
        assert (model["died"] is None) == (int(number) in result.simulation.models)
        assert (model["score"] is None) == (model["clients"] == 0)
    assert any(model["died"] for model in models.values())


def test_the_folder_holds_it_and_says_so(tmp_path):
    result = askew.run(BASE, out=tmp_path / "run")
    whole = read_evaluation(tmp_path / "run" / EVALUATION)
    assert result.evaluation == whole == askew.run(BASE).evaluation
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["judged_on"] == whole["judged_on"]
    assert set(summary["files"]) == {"metrics.jsonl", "model.json", "model.safetensors", EVALUATION}
    folder = RunFolder.open(tmp_path / "run")
    (tmp_path / "run" / EVALUATION).write_text((tmp_path / "run" / EVALUATION).read_text().replace("360", "361"))
    with pytest.raises(askew.AskewError, match=r"evaluation.json' is damaged: its bytes have changed"):
        folder.check_whole()
    askew.run(BASE, out=tmp_path / "run", overwrite=True)
    assert read_evaluation(tmp_path / "run" / EVALUATION) == whole


def test_interrupted_runs_have_none_before_their_end(tmp_path):
    def stop(record, recipe):
        if record["round"] == 1:
            raise KeyboardInterrupt

    stopped = askew.run(BASE, out=tmp_path / "run", on_round=stop)
    assert not (tmp_path / "run" / EVALUATION).exists()
    assert stopped.evaluation["round"] == 1  # of the models that there are
    went_on = askew.resume(tmp_path / "run")
    assert read_evaluation(tmp_path / "run" / EVALUATION) == went_on.evaluation == askew.run(BASE).evaluation


def test_a_sweep_writes_them_and_reads_those_of_an_earlier_one(tmp_path):
    recipes, folders = [BASE, BASE.replace(seed=1)], [tmp_path / "0", tmp_path / "1"]
    first = [result.evaluation for result in sweep(recipes, folders=folders)]
    again = sweep(recipes, folders=folders)
    assert [result.evaluation for result in again] == first == [result.evaluation for result in sweep(recipes)]
    assert again[0].judged_on == "the whole test set (360 examples)"


def test_a_folder_without_one_says_so_in_one_line(tmp_path):
    askew.run(BASE, out=tmp_path / "run")
    earlier = tmp_path / "earlier"
    shutil.copytree(tmp_path / "run", earlier)
    (earlier / EVALUATION).unlink()
    with pytest.raises(askew.AskewError, match=r"has no evaluation.json: .* earlier version"):
        read_evaluation(earlier / EVALUATION)
    for text, problem in (('{"format": 99}', "newer version of askew"), ("[]", "damaged"), ("{}", "damaged")):
        (earlier / EVALUATION).write_text(text)
        with pytest.raises(askew.AskewError, match=problem):
            read_evaluation(earlier / EVALUATION)


def test_a_run_whose_models_cannot_be_judged_ends_all_the_same(tmp_path, monkeypatch):
    def none(*_):
        raise MemoryError("no room")

    monkeypatch.setattr("askew.runs.running.evaluate_run", none)
    with pytest.warns(UserWarning, match=r"gets no evaluation.json: no room"):
        result = askew.run(BASE, out=tmp_path / "run")
    assert result.finished
    assert RunFolder.open(tmp_path / "run").is_finished


def test_ctrl_c_while_it_is_judged_leaves_a_run_to_go_on_with(tmp_path, monkeypatch):
    def strike(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("askew.runs.running.evaluate_run", strike)
        assert askew.run(BASE, out=tmp_path / "run").interrupted
    assert not RunFolder.open(tmp_path / "run").is_finished
    went_on = askew.resume(tmp_path / "run")
    assert (went_on.finished, went_on.evaluation) == (True, askew.run(BASE).evaluation)


def odd_federation(seed, classes=4, clients=5):
    """Clients with and without test examples of their own, classes that the test set lacks, clients of one class."""
    draw = np.random.default_rng(seed)
    y, tests = draw.integers(0, classes, 80), draw.integers(0, draw.integers(1, classes + 1), 24)
    owner = np.concatenate([np.arange(clients), draw.integers(0, clients, 75)])
    y[owner == 0] = classes - 1
    x = draw.normal(size=(104, 3)).astype(np.float32)
    data = askew.Dataset(f"odd {seed}", askew.Examples(torch.tensor(x[:80]), torch.tensor(y)),
                         askew.Examples(torch.tensor(x[80:]), torch.tensor(tests)), tuple("abcd"))
    owned = None
    if seed % 3:  # of the test examples, some are nobody's
        whose = draw.integers(0, 2 * clients, 24)
        owned = askew.Ownership.of([np.flatnonzero(whose == k) if k % 2 else [] for k in range(clients)])
    train = askew.Ownership.of([np.flatnonzero(owner == k) for k in range(clients)])
    return data, askew.Population.of(train, y, classes, test=owned)


def plain_score(right, tests, y, own):
    """By the book: on its own test examples, where clients have some; else on its classes in the test set; or none."""
    if own is not None:
        return right[own].mean() if len(own) else None
    weights = {c: (y == c).sum() for c in set(y.tolist()) & set(tests.tolist())}
    return sum(n * right[tests == c].mean() for c, n in weights.items()) / sum(weights.values()) if weights else None


@pytest.mark.parametrize("seed", range(9))
def test_clients_without_test_examples_and_classes_that_the_test_set_lacks(seed):
    data, population = odd_federation(seed)
    recipe = askew.Recipe(rounds=2, judge="devices", model="mlp(hidden=[4])",
                          client=["sgd(0.1)", "stay_local(['fc2.*'])"] if seed % 2 else ["sgd(0.1)"])
    result = askew.run(recipe, data=data, population=population)
    simulation, got, tests = result.simulation, result.evaluation, data.test.y.numpy()
    wanted, floor = [], []
    for client in range(population.num_clients):
        model = simulation.view(0)
        if seed % 2:
            model = simulation.task.client.enter(model, simulation.memory.row(0, client))
        found = torch.cat(list(outputs(simulation.task, model, data.test.x)))
        y, own = data.train.y.numpy()[population.train[client]], population.test[client] if population.test else None
        wanted.append(plain_score((found.argmax(1).numpy() == tests).astype(float), tests, y, own))
        floor.append(plain_score((tests == np.bincount(y, minlength=4).argmax()).astype(float), tests, y, own))
    assert [score is None for score in got["clients"]["score"]] == [score is None for score in wanted]
    known = [score for score in wanted if score is not None]
    assert [score for score in got["clients"]["score"] if score is not None] == pytest.approx(known)
    assert result.accuracy == got["measures"]["accuracy"] == pytest.approx(np.mean(known))
    assert majority_accuracy(population, tests) == pytest.approx(np.mean([f for f in floor if f is not None]))

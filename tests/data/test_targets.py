"""Targets that are not classes, wherever data come from: kept as they are, or one line that says what is wrong."""

import math

import numpy as np
import pytest
import torch

import askew
from askew.core import registry
from askew.core.dataset import Dataset, Examples, Source
from askew.core.errors import AskewError
from askew.data import from_torch_dataset
from askew.data.npz import npz
from askew.data.table import table

X = np.arange(60, dtype=np.float32).reshape(20, 3)
Y = {
    "numbers": np.linspace(-1, 2.7, 40).reshape(20, 2),
    "labels": (np.arange(60).reshape(20, 3) % 7 < 3),
    "tokens": np.arange(80).reshape(20, 4) % 9,
}
TYPES = {"numbers": torch.float32, "labels": torch.float32, "tokens": torch.int64}


def as_tensors(y, targets, tmp_path):
    return Dataset.from_tensors((X, y), (X, y), targets=targets)


def as_npz(y, targets, tmp_path):
    np.savez(tmp_path / "own.npz", x_train=X, y_train=y, x_test=X, y_test=y)
    return npz(str(tmp_path / "own.npz"), targets=targets)


def as_one_npz(y, targets, tmp_path):
    np.savez(tmp_path / "own.npz", x=X, y=y)
    return npz(str(tmp_path / "own.npz"), targets=targets)


def as_csv(y, targets, tmp_path):
    columns = [f"y{i}" for i in range(y.shape[1])]
    rows = [",".join(map(str, (*x, *map(float, row)))) for x, row in zip(X.tolist(), y.tolist(), strict=True)]
    (tmp_path / "own.csv").write_text("\n".join([",".join(["a", "b", "c", *columns]), *rows]))
    return table(str(tmp_path / "own.csv"), label=columns, targets=targets)


def as_pairs(y, targets, tmp_path):
    pairs = [(torch.from_numpy(x), torch.as_tensor(row)) for x, row in zip(X, y, strict=True)]
    return from_torch_dataset(pairs, pairs, targets=targets)


WAYS = {"from_tensors": as_tensors, "npz": as_npz, "npz to be split": as_one_npz, "csv": as_csv,
        "torch data set": as_pairs}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("targets", Y)
def test_targets_are_kept_with_their_examples(targets, way, tmp_path):
    data = WAYS[way](Y[targets], targets, tmp_path)
    assert data.targets == targets
    for split in (data.train, data.test):
        assert split.y.dtype == TYPES[targets]
        row = (split.x[:, 0] / 3).long().numpy()  # the inputs tell which example it is
        np.testing.assert_allclose(split.y.numpy(), Y[targets][row].astype(np.float64), rtol=1e-6)
    assert (data.num_classes, data.num_outputs) == (1, {"numbers": 2, "labels": 3, "tokens": 9}[targets])
    if way == "csv" and targets != "tokens":
        assert data.classes == tuple(f"y{i}" for i in range(Y[targets].shape[1]))


@pytest.mark.parametrize("way", [way for way in WAYS if way != "csv"])
def test_one_number_per_example_is_a_column(way, tmp_path):
    y = Y["numbers"][:, 0]
    data = WAYS[way](y, "numbers", tmp_path)
    assert data.train.y.shape == (len(data.train), 1)
    assert data.num_outputs == 1


def test_a_column_of_a_table_is_a_number_to_learn(tmp_path):
    (tmp_path / "houses.csv").write_text("rooms,town,price\n"
                                         + "".join(f"{i},{'n' if i % 2 else 's'},{i / 4}\n" for i in range(20)))
    data = table(str(tmp_path / "houses.csv"), label="price", client="town", targets="numbers")
    assert data.classes == ("price",)
    assert (len(data.train), len(data.test)) == (16, 4)
    assert torch.equal(data.train.y, data.train.x / 4)
    assert sorted(set(data.client_ids)) == [0, 1]
    with pytest.raises(AskewError, match="column 'town' holds 's' in row 1; targets must be numbers"):
        table(str(tmp_path / "houses.csv"), label="town", features=["rooms"], targets="numbers")
    with pytest.raises(AskewError, match=r"label 0\.25 of example 1 is no class.*say targets='numbers'"):
        table(str(tmp_path / "houses.csv"), label="price", client="town")
    with pytest.raises(AskewError, match=r"names 2 columns; classes are one column"):
        table(str(tmp_path / "houses.csv"), label=["price", "town"])
    with pytest.raises(AskewError, match="label 'price' is also among the features"):
        table(str(tmp_path / "houses.csv"), label=["price"], features=["price"], targets="numbers")


def test_tokens_stay_whole_numbers_on_both_sides(tmp_path):
    x, y = np.arange(40, dtype=np.uint8).reshape(10, 4) % 5, np.arange(40).reshape(10, 4) % 5
    np.savez(tmp_path / "text.npz", x=x, y=y)
    assert npz(str(tmp_path / "text.npz"), targets="tokens").train.x.dtype == torch.int64
    pairs = [(torch.from_numpy(a), torch.from_numpy(b)) for a, b in zip(x, y, strict=True)]
    assert from_torch_dataset(pairs, pairs, targets="tokens").train.x.dtype == torch.int64
    assert from_torch_dataset([(a, 0) for a, _ in pairs], [(a, 0) for a, _ in pairs]).train.x.dtype == torch.uint8


def test_padding_is_no_token_and_the_vocabulary_may_be_larger():
    y = torch.tensor([[1, 2, -100], [0, 3, 1]])
    # The largest, 4, stands in the test examples.
    data = Dataset.from_tensors((y, y), (y, y + (y >= 0)), targets="tokens")
    assert data.num_outputs == 5
    assert Dataset.from_tensors((y, y), (y, y), targets="tokens", classes=list("abcdefg")).num_outputs == 7


@pytest.mark.parametrize(("targets", "y", "message"), [
    ("classes", [0.0, 2.7],
     "label 2.7 of example 1 is no class; labels must be whole numbers; for numbers to be learnt say targets='num"),
    ("classes", [[0, 1], [1, 1]], "for several labels per example say targets='labels'"),
    ("numbers", [0.0, math.nan], "target nan of example 1 is not a finite number; clean the data first"),
    ("numbers", [0.0, 1e300], "target inf of example 1 is not a finite number"),
    ("numbers", [[[0.0]], [[1.0]]], r"numbers must be \[examples\] or \[examples, numbers\], not \(2, 1, 1\)"),
    ("numbers", [1 + 1j, 2], "not torch.complex"),
    ("labels", [[0, 1], [2, 0]], "label 2 of example 1 is neither 0 nor 1"),
    ("labels", [0, 1],
     r"labels must be \[examples, labels\] of 0 and 1, not \(2,\); one class per example is targets='classes'"),
    ("tokens", [0, 1], r"tokens must be \[examples, places\], not \(2,\); fill short rows up with -100"),
    ("tokens", [[0, 1.5], [1, 1]], "token 1.5 of example 0 is no token"),
    ("tokens", [[0, -1], [1, 1]], r"token -1 is outside the 2 tokens 0\.\.1"),
    ("tokens", [[-100, -100], [-100, -100]], "every token is -100, which stands for none"),
    ("words", [0, 1], "targets must be 'classes' or 'numbers' or 'labels' or 'tokens', not 'words'"),
])
def test_what_cannot_be_learnt_is_refused(targets, y, message):
    x = torch.zeros(2, 3)
    y = torch.tensor(y, dtype=torch.float64) if 1e300 in y else torch.tensor(y)
    with pytest.raises(AskewError, match=message) as error:
        Dataset.from_tensors((x, y), (x, y), targets=targets)
    assert "\n" not in str(error.value)


def test_what_a_data_set_is_given_directly_is_looked_at_too():
    x = torch.zeros(2, 3)
    for targets, y, message in (("numbers", torch.zeros(2),
                                 r"numbers must be float32 \[examples, numbers\], not \(2,\)"),
                                ("numbers", torch.zeros(2, 2), "2 numbers per example, but names for 1"),
                                ("numbers", torch.full((2, 1), math.nan), "target nan of example 0"),
                                ("tokens", torch.zeros(2, 2), r"tokens must be int64 \[examples, places\]")):
        with pytest.raises(AskewError, match=message):
            Dataset("mine", Examples(x, y), Examples(x, y), ("a",), targets=targets)


def test_pairs_whose_targets_are_no_numbers_are_refused():
    with pytest.raises(AskewError, match="all must be numbers of one shape"):
        from_torch_dataset([(torch.zeros(2), "word")] * 2, [(torch.zeros(2), "word")] * 2, targets="numbers")
    with pytest.raises(AskewError, match="all must be numbers of one shape"):
        from_torch_dataset([(torch.zeros(2), [1]), (torch.zeros(2), [1, 2])], [(torch.zeros(2), [1])],
                           targets="numbers")


ANY_DATA = {"dirichlet_sizes": "clients=4, beta=2.0, min_examples=1",
            "iid": "clients=4", "natural": "", "pooled": "", "power_law": "clients=4"}
BY_CLASS = {"classes_per_client": "clients=4, classes=2", "dirichlet": "clients=4, alpha=1.0",
            "dirichlet_per_class": "clients=4, alpha=1.0, min_examples=1", "emd": "clients=4, emd=0.5",
            "hierarchical": "clients=4", "hypergeometric": "clients=6", "label_blocks": "clients=1",
            "shards": "clients=4, shards_per_client=2"}


@pytest.mark.parametrize("targets", Y)
@pytest.mark.parametrize("scheme", registry.names("partition"))
def test_every_scheme_divides_such_data_or_says_that_it_needs_classes(scheme, targets):
    data = Dataset.from_tensors((X, Y[targets]), (X, Y[targets]), targets=targets)
    source = Source.of(Dataset(data.name, data.train, data.test, data.classes, np.arange(20) % 5, targets=targets))
    if scheme in ANY_DATA:
        population = askew.partition.draw(f"{scheme}({ANY_DATA[scheme]}) + hold_out(0.2) + share(0.5)", source)
        assert sorted({*population.train.indices.tolist(), *population.server.tolist()}) == list(range(20))
        assert population.counts.shape == (population.num_clients, 1)
        assert population.mean_emd == 0
        return
    with pytest.raises(AskewError,
                       match=f"{scheme}: it divides examples by their classes, and these data have {targets} to learn"):
        askew.partition.draw(f"{scheme}({BY_CLASS[scheme]})", source)


def test_a_power_law_within_classes_needs_classes():
    source = Source(np.zeros(20, np.int64), 1, targets="numbers")
    with pytest.raises(AskewError, match="power_law: it divides examples by their classes"):
        askew.partition.draw("power_law(clients=4, classes=1)", source)

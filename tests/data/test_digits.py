import subprocess
import sys

import numpy as np
import pytest
import torch

from askew.core import registry
from askew.data import digits, load


def test_shapes_and_split():
    data = digits()
    assert data.train.x.shape == (1437, 1, 8, 8)
    assert data.test.x.shape == (360, 1, 8, 8)
    assert data.train.x.dtype == torch.uint8
    assert data.test.y.bincount().tolist() == [36] * 10
    assert data.classes == tuple("0123456789")
    assert "digits" in registry.names("data")


def test_they_are_the_digits_of_scikit_learn():
    datasets = pytest.importorskip("sklearn.datasets")
    images, labels = datasets.load_digits(return_X_y=True)
    data = digits()
    x = torch.cat([data.train.x, data.test.x]).flatten(1).numpy()
    y = torch.cat([data.train.y, data.test.y]).numpy()
    ours = sorted((label, *image) for label, image in zip(y.tolist(), x.tolist(), strict=True))
    pixels = (15 * images).astype(int).tolist()
    theirs = sorted((label, *image) for label, image in zip(labels.tolist(), pixels, strict=True))
    assert ours == theirs


def test_the_labels_belong_to_the_images():
    """The nearest of ten class means is right far more often than chance."""
    data = digits()
    means = torch.stack([data.train.x[data.train.y == c].float().mean(0).flatten() for c in range(10)])
    nearest = torch.cdist(data.test.x.float().flatten(1), means).argmin(1)
    assert (nearest == data.test.y).float().mean() > 0.85


def test_imports_are_light():
    heavy = ["sklearn", "pooch", "requests", "PIL", "pyarrow", "pandas", "matplotlib", "typer", "rich"]
    code = f"import sys, askew.data; askew.data.digits(); print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_load_takes_a_spec_and_a_folder(refused, tmp_path):
    assert np.array_equal(load("digits").test.x, digits().test.x)
    with refused("mnist: no folder mnist or MNIST/raw in .*--data-dir"):
        load("mnist", data_dir=tmp_path)
    with refused("unknown data 'digts'; did you mean 'digits'"):
        load("digts")

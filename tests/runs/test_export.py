"""Exported models: the same outputs as the module's, for any number of examples, of every network."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conform.forms import LONG
from torch import Tensor, nn

import askew
from askew.core import registry
from askew.runs import export as exporting
from askew.runs.export import export_onnx, export_torch

SHAPES = {"hello_edge_cnn": (1, 50, 10), "mcmahan_mnist_cnn": (1, 28, 28), "fednnnn_mnist_cnn": (1, 28, 28),
          "mcmahan_cifar_cnn": (3, 24, 24), "mlp": (5,), "bag_of_words": (5,)}
# Their layers are those of others, resnet20's those of resnet20_fixup and hello_edge_cnn; the long run has them, too.
ALIKE = () if LONG else ("fedcd_cnn", "fednnnn_cifar_cnn", "fednnnn_mnist_cnn", "mcmahan_mnist_cnn", "mlp",
                         "resnet20")
NETWORKS = [name for name in registry.names("model") if registry.find("model", name).__module__.startswith("askew.")
            and name not in ALIKE]
RECIPE = askew.Recipe(population="iid(clients=2)", rounds=1, batch_size=0)


def trained(folder: Path, x: Tensor, recipe: askew.Recipe, **given: Any) -> Any:
    y = torch.arange(len(x)) % 2
    askew.run(recipe, data=askew.Dataset.from_tensors((x, y), (x, y)), out=folder, **given)
    return askew.load(folder, **given)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_gives_the_same_outputs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = pytest.importorskip("onnxruntime")
    if not LONG:
        monkeypatch.setattr(exporting, "_program", cache(exporting._program))  # one graph, of which both files are made
        # Of its three blocks per stage, which are alike, the first.
        monkeypatch.setattr(import_module("askew.models.resnet20_fixup"), "_BLOCKS_PER_STAGE", 1)
    shape = SHAPES.get(name, (3, 32, 32))
    x = torch.randint(0, 256, (9, *shape), generator=torch.Generator().manual_seed(0),
                      dtype=torch.int64 if name == "bag_of_words" else torch.uint8)
    steps = [] if name == "bag_of_words" else ["normalise()"]
    model = trained(tmp_path / "run", x, RECIPE.replace(model=f"{name}()", preprocess=steps))
    export_torch(model, tmp_path / "m.pt2")
    export_onnx(model, tmp_path / "m.onnx")
    program = torch.export.load(tmp_path / "m.pt2").module()
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for some in (x, x[:1], x[:4]):
        expected = model.module(some)
        torch.testing.assert_close(program(some), expected)
        np.testing.assert_allclose(session.run(["outputs"], {"x": some.numpy()})[0], expected.numpy(), rtol=1e-3,
                                   atol=1e-4)


class Branching(nn.Module):
    """A network that looks at its inputs, which a graph cannot do."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) if float(x.sum()) > 0 else self.fc(-x)


def test_what_cannot_be_exported_is_one_line_and_leaves_nothing(tmp_path: Path, refused: Any) -> None:
    model = trained(tmp_path / "run", torch.rand(8, 3), RECIPE, model=Branching())
    for export in (export_torch, export_onnx):
        with refused("the network cannot be taken down as a graph .* use askew.load.folder..module in Python"):
            export(model, tmp_path / "m.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]

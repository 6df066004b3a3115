"""A trained model as a file that other programs read: ONNX, or a program of PyTorch's own; preprocessing is in it."""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from askew.core.errors import AskewError, first_line
from askew.core.files import written
from askew.runs.model_file import About
from askew.runs.trained import Trained

INPUT, OUTPUT = "x", "outputs"  # their names in an ONNX file


def export_torch(model: Trained, path: Path, client: str | None = None) -> None:
    """Write what `torch.export.load(path).module()` gives back without askew: stored inputs to outputs."""
    program = _program(model, client)
    with written(path) as aside, _quiet():
        torch.export.save(program, aside)


def export_onnx(model: Trained, path: Path, client: str | None = None) -> None:
    """Write an ONNX file from `x`, stored inputs [examples, ...], to `outputs`; classes and columns stand in its
    metadata."""
    try:
        import onnx
        import onnxscript  # noqa: F401 - the exporter's own
    except ImportError:
        raise AskewError("--onnx needs onnx and onnxscript; install them with 'pip install askew[onnx]'") from None
    program = _program(model, client)
    with written(path) as aside:
        try:
            with _quiet():
                torch.onnx.export(program, (), str(aside), input_names=[INPUT], output_names=[OUTPUT],
                                  external_data=False, verbose=False)
        except Exception as error:  # of many types: torch's, onnxscript's
            raise AskewError(f"--onnx: the network cannot be written as ONNX ({first_line(error)})") from None
        network = onnx.load(str(aside))
        onnx.helper.set_model_props(network, {"askew": json.dumps(_props(model.about))})
        onnx.save(network, str(aside))


def _props(about: About) -> dict[str, Any]:
    return {"classes": about.classes, "targets": about.targets, "data": about.data, "recipe": about.recipe,
            "fingerprint": about.fingerprint, "askew": about.askew,
            "inputs": None if about.table is None else about.table.inputs}


def _program(model: Trained, client: str | None) -> Any:
    """The module as a graph, for any number of examples."""
    module = model.module_for(client)
    x = torch.zeros(2, *model.about.input_shape, dtype=model.about.dtype)
    module(x)  # steps copy their numbers to the device at their first call, which must not be the recorded one
    try:
        with _quiet():
            return torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("examples")},))
    except Exception as error:  # whatever stands in a network of one's own
        raise AskewError(f"export: the network cannot be taken down as a graph ({first_line(error)}); use "
                         "askew.load(folder).module in Python") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what exporters say about packages that are not there."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(before)

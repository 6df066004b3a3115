"""Weights from a file."""

from __future__ import annotations

import os

import torch

from askew.core.errors import AskewError, first_line
from askew.core.registry import piece
from askew.core.start import Start, StartContext
from askew.core.tensors import ModelState


@piece("start")
def pretrained(path: str) -> Start:
    """Weights from a safetensors file, such as the `model.safetensors` of an earlier run.

    Args:
        path: the file.
    """

    def make(ctx: StartContext) -> ModelState:
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        if not os.path.isfile(path):
            raise AskewError(f"start: no weights file {path!r}")
        try:
            tensors = load_file(path)
        except (SafetensorError, OSError) as error:
            raise AskewError(f"start: {path!r} is not a safetensors file: {first_line(error)}") from None
        fresh = ctx.fresh
        for name, wanted in {**fresh.params, **fresh.buffers, **ctx.frozen}.items():
            if name not in tensors or tensors[name].shape != wanted.shape:
                shape = tuple(tensors[name].shape) if name in tensors else "nothing"
                raise AskewError(f"start: {path!r} does not fit the network: "
                                 f"{name} must be {tuple(wanted.shape)}, found {shape}")
        with torch.no_grad():
            for name, old in ctx.frozen.items():
                old.copy_(tensors[name])  # the network's own: they are no part of what is trained
        fill = {name: tensors[name].to(old.device, old.dtype)
                for name, old in {**fresh.params, **fresh.buffers}.items()}
        return ModelState({name: fill[name] for name in fresh.params}, {name: fill[name] for name in fresh.buffers})

    return Start(make)

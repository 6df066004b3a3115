"""Operations that a compiler takes as they are: kernels of our own, and arithmetic that it would get wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Opaque:
    """A function of tensors as an operation of torch, `torch.ops.askew.<name>`.

    What `torch.library.custom_op` makes of it, without its wrapper: that imports the whole compiler at the first call,
    which takes longer than many a run.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._path = f"askew::{name}"
        torch.library.define(self._path, torch.library.infer_schema(function, mutates_args=()))
        torch.library.impl(self._path, "default", function)
        self._operation = getattr(torch.ops.askew, name)
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any) -> Any:
        return self._operation(*args)

    def register_fake(self, fake: Callable[..., Any]) -> None:
        """The same for tensors without values: shapes and types of the results."""
        torch.library.register_fake(self._path, fake)

    def register_vmap(self, rule: Callable[..., Any]) -> None:
        torch.library.register_vmap(self._path, rule)

    def register_autograd(self, backward: Callable[..., Any], setup_context: Callable[..., None]) -> None:
        torch.library.register_autograd(self._path, backward, setup_context=setup_context)


def opaque(name: str) -> Callable[[Callable[..., Any]], Opaque]:
    """File a function as an operation of that name."""
    return lambda function: Opaque(name, function)

"""What is tried, and what it means that two runs of it agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from askew.core.dataset import Dataset
from askew.core.recipe import Recipe
from askew.core.tensors import Tree, form_of
from askew.engine.build import build_task
from askew.engine.task import Task

REFERENCE = "one client after the other"


@dataclass(frozen=True)
class Trial:
    """A piece in a recipe.

    Args:
        name: of the piece.
        tolerance: how far apart two runs may be, as a share of a tensor's length.
    """

    name: str
    recipe: Recipe
    data: Dataset | None
    model: nn.Module | None
    device: str
    tolerance: float

    def task(self, recipe: Recipe | None = None) -> Task:
        """With pieces made anew."""
        return build_task(recipe or self.recipe, data=self.data, model=self.model, device=self.device)

    def failure(self, message: str) -> AssertionError:
        return AssertionError(f"{self.name}: {message}")

    def assert_close(self, where: str, got: Tree, expected: Tree) -> None:
        """Tensor by tensor: apart by at most `tolerance` of its length, and 2e-5 of all of them, which is rounding."""
        ours, wanted = named(got), named(expected)
        if ours.keys() != wanted.keys():
            odd = sorted(ours.keys() ^ wanted.keys())[0]
            raise self.failure(f"{where}: {odd} is there in one form and not in the other")
        total_length = math.sqrt(sum(float(v.double().square().sum()) for v in wanted.values()))
        for name, v in wanted.items():
            if ours[name].dtype != v.dtype or ours[name].shape != v.shape:
                raise self.failure(f"{where}: {name} is {form_of(ours[name])}, and {form_of(v)} {REFERENCE}")
            length, error = float(v.double().norm()), float((ours[name].double() - v.double()).norm())
            if not error <= self.tolerance * length + 2e-5 * total_length:
                share = error / max(1e-30, length)
                raise self.failure(f"{where}: {name} is {share:.2g} of its length apart from {REFERENCE}")


def named(tree: Tree, path: str = "") -> dict[str, Tensor]:
    """The tensors of a tree by name.

    Example:
        >>> named({"m": {"w": torch.zeros(2)}, "t": (torch.ones(1),)})
        {'m w': tensor([0., 0.]), 't 0': tensor([1.])}
    """
    if isinstance(tree, Tensor):
        return {path: tree}
    items = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
    return {name: v for key, part in items for name, v in named(part, f"{path} {key}".strip()).items()}

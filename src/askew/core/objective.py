"""What a network learns and what it is judged by: a loss per example, and measures of the same outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from askew.core import registry
from askew.core.arguments import check_fields, checked
from askew.core.dataset import Dataset
from askew.core.errors import AskewError, first_line, suggest
from askew.core.registry import Spec
from askew.core.targets import Targets
from askew.core.tensors import form_of

if TYPE_CHECKING:
    from askew.core.recipe import Recipe

Function = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Objective:
    """A loss and how well a model does, as functions of outputs [B, ...] and targets [B, ...] of B examples.

    Each example's numbers depend on that example alone: engines flatten the batches of many clients into one, and leave
    the examples out that only fill a batch up.

    Args:
        losses: (outputs, targets) -> losses [B]; training minimises their mean over a batch.
        measures: (outputs, targets) -> numbers [B] by name; records hold their means over the test examples.
        headline: the measure that runs are judged by; "loss": the loss itself.
        higher_is_better: of the headline.
        is_share: whether the headline is a share from 0 to 1, which reports show in percent.
        targets: what the data's targets must be; None: anything.
        output_shape: (shape of one target, outputs that the data ask for) -> shape of one example's output; None: any.
        mean: (outputs, targets) -> the mean of the losses, where torch has one operation for it: the same number but
            for rounding, with one launch less.
        spec: how it was made, set by `@piece`.

    Example:
        >>> absolute = Objective(lambda output, target: (output - target).abs().mean(dim=1))
        >>> absolute.loss(torch.tensor([[1.0], [4.0]]), torch.tensor([[0.0], [1.0]]))  # (1 + 3) / 2
        tensor(2.)
    """

    losses: Function
    measures: Callable[[Tensor, Tensor], Mapping[str, Tensor]] = lambda output, target: {}
    headline: str = "loss"
    higher_is_better: bool = False
    is_share: bool = False
    targets: Targets | None = None
    output_shape: Callable[[tuple[int, ...], int], tuple[int, ...]] | None = None
    mean: Function | None = None
    spec: Spec | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def name(self) -> str:
        return self.spec.name if self.spec else "objective"

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean loss of a batch."""
        return self.losses(output, target).mean() if self.mean is None else self.mean(output, target)

    def scores(self, output: Tensor, target: Tensor) -> Tensor:
        """The headline of each example, [B]."""
        return self.losses(output, target) if self.headline == "loss" else self.measures(output, target)[self.headline]

    @checked
    def reached(self, score: float, target: float) -> bool:
        """Whether a headline is at least as good as a target."""
        return score >= target if self.higher_is_better else score <= target

    @checked
    def shown(self, score: float) -> str:
        """The headline as reports write it.

        Example:
            >>> Objective(lambda o, t: o, is_share=True).shown(0.9132), Objective(lambda o, t: o).shown(0.9132)
            ('91.32%', '0.9132')
        """
        return f"{score:.2%}" if self.is_share else f"{score:.4g}"

    @checked
    def check_data(self, data: Dataset) -> None:
        """Refuse data whose targets are of another kind."""
        if self.targets is not None and data.targets != self.targets:
            raise AskewError(f"objective: {self.name} is for targets that are {self.targets}, those of {data.name} "
                             f"are {data.targets}; choose another objective, or read the data with "
                             f"targets={self.targets!r}")

    def check_output(self, output: object, target: Tensor, data: Dataset) -> None:
        """Refuse a network whose output for these few examples does not fit their targets.

        Raises:
            AskewError: one line with the shape that there is and the one that is needed.
        """
        got = tuple(output.shape[1:]) if isinstance(output, Tensor) else type(output).__name__
        if self.output_shape is not None:
            wanted = self.output_shape(tuple(target.shape[1:]), data.num_outputs)
            if got != wanted:
                raise AskewError(f"model: the network gives {got} outputs per example, but {data.name} has "
                                 f"{data.num_outputs} {data.targets}; {self.name} needs {wanted}: the last layer must "
                                 f"have {wanted[-1]} outputs")
        if not isinstance(output, Tensor):
            raise AskewError(f"model: the network gives {got}, not a tensor with one row per example")
        try:
            losses = self.losses(output, target)
        except Exception as error:  # whatever an objective of the user's raises
            raise AskewError(f"objective: {self.name} does not take outputs of shape {tuple(output.shape)} with "
                             f"targets of shape {tuple(target.shape)}: {first_line(error)}") from None
        if losses.shape != (len(target),):
            raise AskewError(f"objective: {self.name} gives losses of shape {tuple(losses.shape)} for {len(target)} "
                             "examples; there must be one number per example")
        self._check_alone(output, target, losses)
        self._check_measures(output, target)

    def _check_alone(self, output: Tensor, target: Tensor, losses: Tensor) -> None:
        """Refuse what one client alone, which takes `mean` of its batch, would minimise otherwise than many at once."""
        for i in range(len(target)):
            twice = [i] * len(target)
            if not _near(self.losses(output[twice], target[twice])[i], losses[i]):
                raise AskewError(f"objective: {self.name}'s losses of an example change with the others of its batch; "
                                 "let each example's loss depend on that example alone")
        if self.mean is not None and not _near(mean := self.mean(output, target), losses.mean()):
            raise AskewError(f"objective: {self.name}'s `mean` of {len(target)} examples is {float(mean):g}, and the "
                             f"mean of their `losses` {float(losses.mean()):g}; make them one, or leave `mean` out")

    def _check_measures(self, output: Tensor, target: Tensor) -> None:
        try:
            measures = dict(self.measures(output.float(), target))
        except Exception as error:  # whatever an objective of the user's raises
            raise AskewError(f"objective: {self.name}'s measures cannot be taken of outputs of shape "
                             f"{tuple(output.shape)}: {first_line(error)}") from None
        if "loss" in measures:
            raise AskewError(f"objective: {self.name} has a measure 'loss', which is what the loss itself is called; "
                             "give the measure another name")
        for name, values in measures.items():
            if not isinstance(values, Tensor) or values.shape != (len(target),):
                raise AskewError(f"objective: {self.name} gives {form_of(values)} as {name!r} of {len(target)} "
                                 "examples; there must be one number per example, and no mean over them")
        if self.headline not in ("loss", *measures):
            raise AskewError(f"objective: {self.name} is judged by {self.headline!r}, which is no measure of it; "
                             f"{suggest(self.headline, ('loss', *measures))}")


def _near(one: Tensor, other: Tensor) -> bool:
    """But for rounding, and for numbers that are none."""
    rounding = max(1e-3, 4 * torch.finfo(other.dtype).eps)
    return torch.allclose(one.double(), other.double(), rtol=rounding, atol=1e-6, equal_nan=True)


def objective_of(recipe: Recipe) -> Objective:
    """The objective that a recipe names.

    Example:
        >>> objective_of(askew.Recipe()).headline
        'accuracy'
    """
    return cast(Objective, registry.build("objective", recipe.objective))


@functools.lru_cache(maxsize=16)
def headline_of(objective: str) -> str:
    """The headline of an objective as a recipe writes it: asked for after every round."""
    headline: str = registry.build("objective", objective).headline
    return headline

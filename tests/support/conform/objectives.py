"""Problems with targets of every kind: data, a network, the objective, and the same loss as one writes it in torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from askew.core.dataset import Dataset
from askew.core.targets import PADDING

EXAMPLES, WORDS, PLACES = 96, 7, 6


@dataclass(frozen=True)
class Problem:
    """One of them.

    Args:
        loss: (outputs, targets) of a batch -> the loss that plain PyTorch would take the gradient of.
    """

    objective: str
    data: Callable[[], Dataset]
    build: Callable[[], nn.Module]
    loss: Callable[[Tensor, Tensor], Tensor]


class NextToken(nn.Module):
    """Embedding -> recurrent layer, or attention that looks back only -> Linear at every place."""

    def __init__(self, attends: bool = False) -> None:
        super().__init__()
        self.attends, self.embed, self.head = attends, nn.Embedding(WORDS, 8), nn.Linear(8, WORDS)
        self.inner = nn.Linear(8, 24) if attends else nn.GRU(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.embed(x)
        if not self.attends:
            return self.head(self.inner(hidden)[0])
        q, k, v = self.inner(hidden).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind()
        return self.head(hidden + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def split(x: Tensor, y: Tensor, targets: str, classes: int | None = None) -> Dataset:
    names = None if classes is None else [str(c) for c in range(classes)]
    return Dataset.from_tensors((x[:EXAMPLES], y[:EXAMPLES]), (x[EXAMPLES:], y[EXAMPLES:]), targets=targets,
                                classes=names)


def vectors() -> tuple[Tensor, Tensor]:
    """Inputs [N, 8], and four numbers that depend on them, not quite linearly."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(EXAMPLES + 20, 8, generator=generator)
    return x, (x @ torch.randn(8, 4, generator=generator) / 3).sin() + 0.1 * torch.randn(len(x), 4, generator=generator)


def numbers() -> Dataset:
    return split(*vectors(), "numbers")


def one_number() -> Dataset:
    x, y = vectors()
    return split(x, y[:, 0], "numbers")


def labels() -> Dataset:
    x, y = vectors()
    return split(x, y > 0.3, "labels")


def classes() -> Dataset:
    x, y = vectors()
    return split(x, y.argmax(dim=1), "classes", classes=4)


def tokens(padding: int | None = None) -> Dataset:
    """Sequences that count on by a step of their own, of several lengths where there is padding."""
    generator = torch.Generator().manual_seed(0)
    start, step = torch.randint(1, WORDS, (2, EXAMPLES + 20, 1), generator=generator)
    whole = 1 + (start + step * torch.arange(PLACES + 1)) % (WORDS - 1)
    x, y = whole[:, :-1], whole[:, 1:].clone()
    if padding is not None:
        lengths = torch.randint(1, PLACES + 1, (len(y), 1), generator=generator)
        y[torch.arange(PLACES) >= lengths] = padding
    return split(x, y, "tokens", classes=WORDS)


def mlp(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, outputs))


def normed(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(8, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, outputs))


def by_sequence(ignore: int) -> Callable[[Tensor, Tensor], Tensor]:
    """The mean over sequences of the mean over their places, one after the other."""
    return lambda output, y: torch.stack([F.cross_entropy(output[i], y[i], ignore_index=ignore)
                                          for i in range(len(y))]).mean()


def labels_loss(output: Tensor, y: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output, y)


PROBLEMS: dict[str, Problem] = {
    "classes": Problem("cross_entropy()", classes, lambda: mlp(4), F.cross_entropy),
    "classes, smoothed": Problem("cross_entropy(label_smoothing=0.1)", classes, lambda: mlp(4),
                                 lambda output, y: F.cross_entropy(output, y, label_smoothing=0.1)),
    "regression": Problem("mean_squared_error()", numbers, lambda: mlp(4), F.mse_loss),
    "regression, one number": Problem("mean_squared_error()", one_number, lambda: mlp(1), F.mse_loss),
    "regression, batch norm": Problem("mean_squared_error()", numbers, lambda: normed(4), F.mse_loss),
    "regression, float64": Problem("mean_squared_error()", numbers, lambda: mlp(4).double(),
                                   lambda output, y: F.mse_loss(output, y.double())),
    "several labels": Problem("binary_cross_entropy()", labels, lambda: mlp(4), labels_loss),
    "several labels, batch norm": Problem("binary_cross_entropy()", labels, lambda: normed(4), labels_loss),
    "next token": Problem("next_token()", tokens, NextToken, by_sequence(PADDING)),
    "next token, padding": Problem("next_token()", lambda: tokens(PADDING), NextToken, by_sequence(PADDING)),
    "next token, padding of its own": Problem("next_token(ignore=0)", lambda: tokens(0), NextToken, by_sequence(0)),
    "next token, attention": Problem("next_token()", lambda: tokens(PADDING), lambda: NextToken(attends=True),
                                     by_sequence(PADDING)),
}


def build(name: str) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return PROBLEMS[name].build()

"""Random networks and random federations, a function of a case's number.

A case that fails is named by its number: `case(17)` builds it again, with its network, data, federation and recipe.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import askew
from askew.core.dataset import Dataset
from askew.core.recipe import Recipe
from askew.engine.build import build_task
from askew.engine.task import Task
from conform.federations import of_sizes

CLASSES, WORDS = 4, 15


@dataclass(frozen=True)
class Case:
    """One random case."""

    number: int
    network: nn.Module
    data: Dataset
    sizes: list[int]
    recipe: Recipe

    def task(self) -> Task:
        return build_task(self.recipe, data=self.data, population=of_sizes(self.data, self.sizes, self.number),
                          model=self.network)

    def __str__(self) -> str:
        return (f"case {self.number}: {self.network}\n{len(self.sizes)} clients of {self.sizes} examples, B "
                f"{self.recipe.batch_size}, E {self.recipe.epochs}, C {self.recipe.fraction}, "
                f"{[str(s) for s in self.recipe.client]}, seed {self.recipe.seed}")


class Add(nn.Module):
    """x + body(x)."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class SelfAttention(nn.Module):
    """[N, T, D] -> [N, T, D], with torch's layer or with the function."""

    def __init__(self, width: int, heads: int, functional: bool, batch_first: bool, causal: bool) -> None:
        super().__init__()
        self.heads, self.functional, self.batch_first, self.causal = heads, functional, batch_first, causal
        if functional:
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        else:
            self.attend = nn.MultiheadAttention(width, heads, batch_first=batch_first)

    def forward(self, x: Tensor) -> Tensor:
        if self.functional:
            q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=2))
            return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).flatten(2))
        steps = x.shape[1]
        mask = torch.triu(torch.ones(steps, steps, dtype=torch.bool, device=x.device), 1) if self.causal else None
        x = x if self.batch_first else x.transpose(0, 1)
        seen = self.attend(x, x, x, attn_mask=mask, need_weights=False)[0]
        return seen if self.batch_first else seen.transpose(0, 1)


class Cells(nn.Module):
    """[N, T, D] -> [N, T, D'] through an LSTM or a GRU."""

    def __init__(self, cells: nn.RNNBase) -> None:
        super().__init__()
        self.cells = cells

    def forward(self, x: Tensor) -> Tensor:
        if self.cells.batch_first:
            return self.cells(x)[0]
        return self.cells(x.transpose(0, 1))[0].transpose(0, 1)


class Take(nn.Module):
    """[N, T, D] -> [N, D]: the last step, or the mean over all."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        return x[:, -1] if self.how == "last" else x.mean(dim=1)


class Positions(nn.Module):
    """Learned places, and a class token in front of them."""

    def __init__(self, steps: int, width: int, token: bool) -> None:
        super().__init__()
        self.place = nn.Parameter(0.1 * torch.randn(1, steps + token, width))
        self.token = nn.Parameter(0.1 * torch.randn(1, 1, width)) if token else None

    def forward(self, x: Tensor) -> Tensor:
        if self.token is not None:
            x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        return x + self.place


class SharedTwice(nn.Module):
    """Two layers that share a weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(width, width), nn.Linear(width, width)
        self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.two(torch.tanh(self.one(x))))


def activation(draw: random.Random) -> nn.Module:
    return draw.choice([nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh])()


class Writer:
    """Draws the layers of one network."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.normed = False  # has BatchNorm

    def images(self, channels: int, size: int, depth: int) -> list[nn.Module]:
        """[N, C, S, S] -> [N, D] by `depth` layers."""
        draw, layers = self.draw, []
        for _ in range(depth):
            kind = draw.choice(["conv", "conv", "conv", "norm", "pool", "act", "drop", "residual", "depthwise"])
            if kind == "conv":
                groups = draw.choice([g for g in (1, 1, 2, channels) if channels % g == 0])
                outputs = groups * draw.randint(1, max(1, 8 // groups))
                taps, dilation = draw.choice([1, 3, 3, 5]), draw.choice([1, 1, 1, 2])
                padding, stride = draw.choice([0, 1, taps // 2]), draw.choice([1, 1, 2])
                after = (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1
                if after < 2:
                    continue
                layers.append(nn.Conv2d(channels, outputs, taps, stride, padding, dilation, groups,
                                        bias=draw.random() < 0.7))
                channels, size = outputs, after
            elif kind == "depthwise":
                layers.append(nn.Conv2d(channels, channels, 3, padding=1, groups=channels))
            elif kind == "norm":
                layers.append(self.image_norm(channels, size))
            elif kind == "pool" and size >= 4:
                layers.append(draw.choice([nn.MaxPool2d(2), nn.AvgPool2d(2), nn.MaxPool2d(3, 2, 1)]))
                size = (size + 1) // 2 if layers[-1].kernel_size == 3 else size // 2
            elif kind == "drop":
                layers.append(draw.choice([nn.Dropout, nn.Dropout2d])(draw.choice([0.1, 0.3])))
            elif kind == "residual":
                body = [nn.Conv2d(channels, channels, 3, padding=1), self.image_norm(channels, size), activation(draw)]
                layers.append(Add(nn.Sequential(*body)))
            else:
                layers.append(activation(draw))
        if draw.random() < 0.3:
            return [*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *self.head(channels)]
        return [*layers, nn.Flatten(), *self.head(channels * size * size)]

    def image_norm(self, channels: int, size: int) -> nn.Module:
        kind = self.draw.choice(["batch", "group", "layer", "local"])
        if kind == "batch":
            self.normed = True
            return nn.BatchNorm2d(channels)
        if kind == "group":
            groups = [g for g in (1, 2, channels) if channels % g == 0 and channels // g * size * size > 1]
            return nn.GroupNorm(self.draw.choice(groups), channels)
        return nn.LayerNorm([channels, size, size]) if kind == "layer" else nn.LocalResponseNorm(3)

    def sequences(self, steps: int, width: int, depth: int) -> list[nn.Module]:
        """[N, T, D] -> [N, D'] by `depth` layers."""
        draw, layers = self.draw, []
        for _ in range(depth):
            kind = draw.choice(["attention", "attention", "encoder", "cells", "cells", "linear", "norm", "act", "drop",
                                "places"])
            heads = draw.choice([h for h in (1, 2, 4) if width % h == 0])
            if kind == "attention":
                layers.append(Add(SelfAttention(width, heads, draw.random() < 0.4, draw.random() < 0.7,
                                                draw.random() < 0.3)))
            elif kind == "encoder":
                layers.append(nn.TransformerEncoderLayer(width, heads, 2 * width, 0.0, draw.choice(["relu", "gelu"]),
                                                         batch_first=True, norm_first=draw.random() < 0.5))
            elif kind == "cells":
                both = draw.random() < 0.3
                made = draw.choice([nn.LSTM, nn.GRU])(width, 6, draw.choice([1, 1, 2]), batch_first=draw.random() < 0.7,
                                                      bidirectional=both)
                layers.append(Cells(made))
                width = 12 if both else 6
            elif kind == "linear":
                layers.append(nn.Linear(width, 8, bias=draw.random() < 0.7))
                width = 8
            elif kind == "norm":
                layers.append(nn.LayerNorm(width))
            elif kind == "drop":
                layers.append(nn.Dropout(0.2))
            elif kind == "places":
                layers.append(Positions(steps, width, token := draw.random() < 0.5))
                steps += token
            else:
                layers.append(activation(draw))
        return [*layers, Take(draw.choice(["last", "mean"])), *self.head(width)]

    def vectors(self, width: int, depth: int) -> list[nn.Module]:
        draw, layers = self.draw, []
        for _ in range(depth):
            kind = draw.choice(["linear", "linear", "norm", "act", "drop", "residual", "tied"])
            if kind == "linear":
                outputs = draw.randint(4, 12)
                layers += [nn.Linear(width, outputs, bias=draw.random() < 0.8)]
                width = outputs
            elif kind == "norm":
                norm = draw.choice([nn.LayerNorm, nn.BatchNorm1d])(width)
                self.normed |= isinstance(norm, nn.BatchNorm1d)
                layers.append(norm)
            elif kind == "drop":
                layers.append(nn.Dropout(0.3))
            elif kind == "residual":
                layers.append(Add(nn.Sequential(nn.Linear(width, width), activation(draw))))
            elif kind == "tied":
                layers.append(SharedTwice(width))
            else:
                layers.append(activation(draw))
        return [*layers, *self.head(width)]

    def head(self, width: int) -> list[nn.Module]:
        if self.draw.random() < 0.5:
            return [nn.Linear(width, CLASSES)]
        return [nn.Linear(width, 10), activation(self.draw), nn.Linear(10, CLASSES)]


def case(number: int) -> Case:
    """Case `number`: 3 to 8 layers, 1 to 6 clients."""
    draw = random.Random(f"askew/{number}")
    generator = torch.Generator().manual_seed(number)
    kind, depth, count = draw.choice(["images", "images", "tokens", "steps", "vectors"]), draw.randint(2, 7), 110
    writer = Writer(draw)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        if kind == "images":
            channels, size = draw.choice([1, 2, 3, 4]), draw.choice([6, 8, 9])
            x = torch.randn(count, channels, size, size, generator=generator)
            layers = writer.images(channels, size, depth)
        elif kind == "vectors":
            x = torch.randn(count, 7, generator=generator)
            layers = writer.vectors(7, depth)
        elif kind == "steps":
            x = torch.randn(count, 5, 8, generator=generator)
            layers = writer.sequences(5, 8, depth)
        else:
            x = torch.randint(0, WORDS, (count, 6), generator=generator)
            layers = [nn.Embedding(WORDS, 8, padding_idx=draw.choice([None, None, 0])),
                      *writer.sequences(6, 8, depth - 1)]
        network = nn.Sequential(*layers)
    with_weights = [layer for layer in layers[:-1] if any(True for _ in layer.parameters())]
    for layer in with_weights:
        if draw.random() < 0.12:
            layer.requires_grad_(False)
    data = Dataset.from_tensors((x[:90], torch.arange(90) % CLASSES), (x[90:], torch.arange(20) % CLASSES))
    return Case(number, network, data, *_federation(draw, writer.normed, number))


def _federation(draw: random.Random, normed: bool, number: int) -> tuple[list[int], Recipe]:
    sizes = [draw.randint(3, 15) for _ in range(draw.randint(1, 6))]
    batch = draw.choice([0, 4, 5, 8])
    if normed:  # a lone example has no statistics; two or three have wild ones, which magnify rounding
        batch = draw.choice([0, 6, 8])
        sizes = [n if not batch or n % batch in (0, 4, 5, 6, 7) else -(-n // batch) * batch
                 for n in (max(n, 6) for n in sizes)]
        sizes = [min(n, 16) for n in sizes]
    step = draw.choice([["sgd(lr=0.01)"], ["sgd(lr=0.01, momentum=0.9)"],
                        ["sgd(lr=0.01, momentum=0.5, nesterov=True, weight_decay=0.01)"],
                        ["add_proximal(0.1)", "sgd(lr=0.01)"], ["clip_gradient(0.5)", "sgd(lr=0.02)"],
                        ["add_gradient_noise(0.01)", "sgd(lr=0.01)", "project_to_ball(20.0)"]])
    return sizes, askew.Recipe(batch_size=batch, epochs=draw.choice([1, 1, 2, 3]),
                               fraction=draw.choice([1.0, 1.0, 0.6, 0.2]), client=step, seed=draw.randint(0, 99),
                               name=f"case {number}")

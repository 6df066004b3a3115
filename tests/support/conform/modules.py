"""Modules as people write them: what the table of networks is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CLASSES, WORDS = 5, 20
RARE = 4.0  # above all values of the first four examples, below those of some others: a test makes sure of it


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), norm(outputs), nn.ReLU(),
                                  nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), norm(outputs))
        self.short = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.short(x))


def resnet(norm: Callable[[int], nn.Module]) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1, bias=False), norm(8), nn.ReLU(), Residual(8, 8, 1, norm),
                         Residual(8, 16, 2, norm), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, CLASSES))


class ViT(nn.Module):
    """Patches, a class token, positions, encoder layers."""

    def __init__(self, norm_first: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.patch = nn.Conv2d(1, 16, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 16) * 0.1)
        self.place = nn.Parameter(torch.randn(1, 5, 16) * 0.1)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout, "gelu", batch_first=True, norm_first=norm_first)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.place
        return self.head(self.norm(self.encoder(x)[:, 0]))


class Encoder(nn.Module):
    """Tokens, positions as a buffer, one encoder layer, the mean over the places."""

    place: Tensor

    def __init__(self, batch_first: bool, dropout: float = 0.0, padded: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 16, padding_idx=0 if padded else None)
        angles = torch.arange(9)[:, None] / 10 ** torch.linspace(0, 2, 8)
        self.register_buffer("place", torch.cat([angles.sin(), angles.cos()], dim=1))
        layer = nn.TransformerEncoderLayer(16, 4, 24, dropout, batch_first=batch_first)
        self.encoder, self.batch_first = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), batch_first
        self.head, self.padded = nn.Linear(16, CLASSES), padded

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.embed(x) + self.place
        mask = (x == 0) & (torch.arange(x.shape[1], device=x.device) > 0) if self.padded else None
        if not self.batch_first:
            hidden = hidden.transpose(0, 1)
        hidden = self.encoder(hidden, src_key_padding_mask=mask)
        return self.head(hidden.mean(dim=1 if self.batch_first else 0))


class Attends(nn.Module):
    """`nn.MultiheadAttention` between a sequence and a shorter one of another width, or functional, or with a mask."""

    def __init__(self, how: Literal["self", "cross", "functional", "causal", "weights"],
                 batch_first: bool = True) -> None:
        super().__init__()
        self.how, self.batch_first = how, batch_first
        self.lift, self.head = nn.Linear(6, 8), nn.Linear(8, CLASSES)
        if how == "cross":
            self.attend = nn.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=batch_first)
        elif how == "functional":
            self.qkv = nn.Linear(8, 24)
        else:
            self.attend = nn.MultiheadAttention(8, 2, batch_first=batch_first, bias=how != "weights")

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.lift(x)
        if self.how == "functional":
            q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in self.qkv(hidden).chunk(3, dim=2))
            hidden = hidden + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            return self.head(hidden.mean(dim=1))
        others = x[:, :4] if self.how == "cross" else hidden
        if not self.batch_first:
            hidden, others = hidden.transpose(0, 1), others.transpose(0, 1)
        mask = torch.triu(torch.ones(7, 7, dtype=torch.bool, device=x.device), 1) if self.how == "causal" else None
        seen, weights = self.attend(hidden, others, others, attn_mask=mask, need_weights=self.how == "weights")
        if self.how == "weights":
            seen = seen + weights.mean()
        return self.head((hidden + seen).mean(dim=1 if self.batch_first else 0))


class Recurrent(nn.Module):
    """Tokens -> Embedding -> LSTM or GRU -> last step -> Linear."""

    def __init__(self, kind: type[nn.RNNBase], batch_first: bool = True, layers: int = 1, both_ways: bool = False,
                 dropout: float = 0.0, last: Literal["step", "hidden"] = "step", **options: int | bool | str) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 6)
        self.cells = kind(6, 8, layers, batch_first=batch_first, bidirectional=both_ways, dropout=dropout, **options)
        width = self.cells.weight_hh_l0.shape[1] * (2 if both_ways and last == "step" else 1)
        self.batch_first, self.last, self.head = batch_first, last, nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.embed(x)
        out, end = self.cells(hidden if self.batch_first else hidden.transpose(0, 1))
        if self.last == "hidden":
            return self.head((end[0] if isinstance(end, tuple) else end)[-1])
        return self.head(out[:, -1] if self.batch_first else out[-1])


class StartsItself(nn.Module):
    """A recurrent network that makes its first state by itself, from what its layer says of itself."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.embed, self.cells, self.head = (nn.Embedding(WORDS, 6), kind(6, 8, 2, batch_first=True),
                                             nn.Linear(8, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        cells = self.cells
        first = torch.zeros(cells.num_layers * (2 if cells.bidirectional else 1), x.shape[0], cells.hidden_size,
                            device=x.device)
        start = (first, first.clone() + 0.1) if isinstance(cells, nn.LSTM) or cells.mode == "LSTM" else first + 0.1
        return self.head(cells(self.embed(x), start)[0][:, -1])


class LooksAtItself(nn.Module):
    """A `forward` that reads its layers' sizes and weights, as many do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Dropout(0.2)
        self.attend, self.out = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(self.norm(self.conv(x))) / self.conv.kernel_size[0] * (1 - self.drop.p)
        x = x.flatten(2).transpose(1, 2)[:, : 2 * self.norm.num_features]
        x = x.reshape(-1, 2 * self.conv.out_channels, self.attend.embed_dim)
        seen = self.attend(x, x, x)[0] * self.attend.num_heads
        return self.out(seen.mean(dim=1)) / self.out.in_features


class BareWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.randn(8, CLASSES) * 0.3), nn.Parameter(torch.tensor(1.5))
        self.first = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.first(x)) @ self.weight * self.scale


class FrozenBackbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(),
                                      nn.Conv2d(6, 4, 3, 2, 1), nn.ReLU())
        self.backbone.requires_grad_(False)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x).flatten(1))


class Tied(nn.Module):
    """An embedding whose weight is the weight of the layer behind it as well."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.back = nn.Embedding(WORDS, 6), nn.Linear(6, WORDS, bias=False)
        self.back.weight = self.embed.weight
        self.head = nn.Linear(WORDS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.back(self.embed(x).mean(dim=1))))


class TiedFrozen(nn.Module):
    """Layers that share one weight, one layer frozen beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.still = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.out = nn.Linear(8, CLASSES)
        self.two.weight = self.one.weight
        self.still.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.two(torch.relu(self.still(torch.relu(self.one(x)))))))


class Twice(nn.Module):
    """One module called two times."""

    def __init__(self) -> None:
        super().__init__()
        self.again, self.norm, self.drop = nn.Linear(8, 8), nn.LayerNorm(8), nn.Dropout(0.2)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = x + self.drop(torch.tanh(self.again(self.norm(x))))
        return self.out(x)


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.both = nn.Linear(8, 4), nn.Linear(8, 3), nn.Bilinear(4, 3, 6)
        self.out = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.both(self.left(x), self.right(x))))


class Doubles(nn.Module):
    """A float64 network: BatchNorm, dropout, convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2),
                                  nn.Flatten(), nn.Linear(256, CLASSES)).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x.double())


class SomeDoubles(nn.Module):
    """fp32 but for one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.fine, self.out = nn.Linear(8, 8), nn.Linear(8, 8).double(), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.fine(self.first(x).double())).float())


class Unused(nn.Module):
    """A layer that `forward` never reaches: its gradient is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(8, CLASSES), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


class Doubled(nn.Module):
    """Works in the memory of its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x.mul_(2))


class Sizes(nn.Module):
    """Reads the size of its batch without mixing it: reshapes, a zero state for a cell, a table of places."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.place, self.out = nn.GRUCell(6, 8), nn.Embedding(7, 6), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, _ = x.shape
        x = x + self.place(torch.arange(steps, device=x.device))
        hidden = x.new_zeros(batch, 8)
        for step in range(steps):
            hidden = self.cell(x[:, step], hidden)
        return self.out(hidden.view(batch, -1))


# What only one client at a time can do, or only by vmap.


class DrawsItself(nn.Module):
    """The functional form of dropout draws from torch's generator: its numbers cannot be a client's own in a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(8, 16), nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.dropout(torch.relu(self.first(x)), 0.3, self.training))


class NoiseItself(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x + 0.1 * torch.randn_like(x) if self.training else x)


class Mixes(nn.Module):
    """Looks across its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(8, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.first(x))
        return self.out(hidden - hidden.mean(dim=0))


class RunningMean(nn.Module):
    """A normalisation of one's own that keeps a running mean over its batches."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            with torch.no_grad():
                self.mean.mul_(0.9).add_(0.1 * x.mean(dim=0))
        return self.out(x - self.mean)


class Branches(nn.Module):
    """Goes another way by what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.one(x)) if x.mean() > 0.6 else torch.tanh(self.two(x)))


class RarelyBranches(nn.Module):
    """Goes another way only for inputs that the first few examples do not have: to try them shows nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.out = nn.Linear(8, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.one(x))
        return self.out(hidden * 0.5 if float(x.detach().max()) > RARE else hidden)


class RarelyMixes(nn.Module):
    """Looks across its batch only at values that the first few examples do not have."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.out = nn.Linear(8, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.one(x)) - F.relu(x - RARE).sum())


class Shallow(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        nn.init.constant_(self.norm.weight, 0.3)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm(self.conv(x))


def deep_batch_norm(layers: int = 20, width: int = 4) -> nn.Module:
    """A narrow network with many BatchNorm layers behind each other: what one does wrong, the next ones magnify.

    Residual, so that gradients neither grow nor vanish: else weights that differ by 1e-7 end up percents apart.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        blocks = [Shallow(width) for _ in range(layers - 1)]
        return nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.AvgPool2d(2), *blocks,
                             nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, 10))

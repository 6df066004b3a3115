"""The networks that people bring: one small member of each family, with data that it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from askew.core.dataset import Dataset

CLASSES, EXAMPLES, WORDS = 5, 96, 20
SHAPES = {"images": (1, 8, 8), "colours": (3, 8, 8), "volumes": (2, 4, 4, 4), "vectors": (8,), "series": (4, 12), "steps": (7, 6),
          "tokens": (9,)}


def data_of(kind: str, seed: int = 0, examples: int = EXAMPLES, classes: int = CLASSES) -> Dataset:
    """Random inputs of a shape (tokens: whole numbers), with labels that hang on them a little."""
    generator = torch.Generator().manual_seed(seed)
    count = examples + 20
    if kind == "tokens":
        x = torch.randint(0, WORDS, (count, *SHAPES[kind]), generator=generator)
        y = (x.sum(dim=1) + torch.randint(0, 2, (count,), generator=generator)) % classes
    else:
        x = torch.randn(count, *SHAPES[kind], generator=generator)
        y = torch.randint(0, classes, (count,), generator=generator)
        x = x + 0.3 * y.view(-1, *[1] * (x.ndim - 1))
    return Dataset.from_tensors((x[:examples], y[:examples]), (x[examples:], y[examples:]), classes=[str(c) for c in range(classes)])


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
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1, bias=False), norm(8), nn.ReLU(), Residual(8, 8, 1, norm), Residual(8, 16, 2, norm),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, CLASSES))


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
    """`nn.MultiheadAttention` between a sequence and a shorter one of another width, or the functional form, or a causal mask."""

    def __init__(self, how: Literal["self", "cross", "functional", "causal", "weights"], batch_first: bool = True) -> None:
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

    def __init__(self, kind: type[nn.RNNBase], batch_first: bool = True, layers: int = 1, both_ways: bool = False, dropout: float = 0.0,
                 last: Literal["step", "hidden"] = "step", **options: int | bool | str) -> None:
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
        self.backbone = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3, 2, 1), nn.ReLU())
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
        self.one, self.two, self.still, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, CLASSES)
        self.two.weight = self.one.weight
        self.still.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.two(torch.relu(self.still(torch.relu(self.one(x)))))))


class Twice(nn.Module):
    """One module called two times."""

    def __init__(self) -> None:
        super().__init__()
        self.again, self.norm, self.drop, self.out = nn.Linear(8, 8), nn.LayerNorm(8), nn.Dropout(0.2), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = x + self.drop(torch.tanh(self.again(self.norm(x))))
        return self.out(x)


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.both, self.out = nn.Linear(8, 4), nn.Linear(8, 3), nn.Bilinear(4, 3, 6), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.both(self.left(x), self.right(x))))


class Doubles(nn.Module):
    """A float64 network: BatchNorm, dropout, convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(),
                                  nn.Linear(256, CLASSES)).double()

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


RARE = 4.0  # above all values of the first four examples, below those of some others: a test makes sure of it


def parametrised(how: Callable[[nn.Module], nn.Module]) -> nn.Module:
    return nn.Sequential(how(nn.Linear(8, 12)), nn.Tanh(), nn.Linear(12, CLASSES))


@dataclass(frozen=True)
class Network:
    """One family.

    Args:
        build: the network, with fresh weights.
        data: the kind of its inputs.
        batched: True: the vectorised engine takes it, without a word. False: it falls back, with one line of warning. None:
            either will do.
        lone: whether it can train on a batch of one example.
        bf16: whether it can be run in bf16.
        lr: the clients' rate.
    """

    build: Callable[[], nn.Module]
    data: str
    batched: bool | None = True
    lone: bool = True
    bf16: bool = True
    lr: float = 0.05


def sequence(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


def group_norm(channels: int) -> nn.Module:
    return nn.GroupNorm(4, channels)


NETWORKS: dict[str, Network] = {
    "resnet, group norm": Network(lambda: resnet(group_norm), "images"),
    "resnet, batch norm": Network(lambda: resnet(nn.BatchNorm2d), "images", lone=False),
    "resnet, batch norm without statistics": Network(lambda: resnet(lambda c: nn.BatchNorm2d(c, track_running_stats=False)), "images",
                                                     batched=None, lone=False),
    "resnet, batch norm without weights": Network(lambda: resnet(lambda c: nn.BatchNorm2d(c, affine=False)), "images", batched=None,
                                                  lone=False),
    "vit": Network(ViT, "images"),
    "vit, norm behind, dropout": Network(lambda: ViT(norm_first=False, dropout=0.2), "images"),
    "encoder, batch first": Network(lambda: Encoder(True), "tokens"),
    "encoder, places first": Network(lambda: Encoder(False), "tokens"),
    "encoder, dropout": Network(lambda: Encoder(True, dropout=0.2), "tokens"),
    "encoder, padding mask": Network(lambda: Encoder(True, padded=True), "tokens"),
    "attention": Network(lambda: Attends("self"), "steps"),
    "attention, places first": Network(lambda: Attends("self", batch_first=False), "steps"),
    "attention, across": Network(lambda: Attends("cross"), "steps"),
    "attention, causal": Network(lambda: Attends("causal"), "steps"),
    "attention, its weights, no bias": Network(lambda: Attends("weights"), "steps"),
    "attention, functional": Network(lambda: Attends("functional"), "steps"),
    "lstm": Network(lambda: Recurrent(nn.LSTM), "tokens"),
    "lstm, steps first": Network(lambda: Recurrent(nn.LSTM, batch_first=False), "tokens"),
    "lstm, two layers": Network(lambda: Recurrent(nn.LSTM, layers=2), "tokens"),
    "lstm, two layers, dropout": Network(lambda: Recurrent(nn.LSTM, layers=2, dropout=0.3), "tokens", batched=None),
    "lstm, both ways": Network(lambda: Recurrent(nn.LSTM, both_ways=True), "tokens"),
    "lstm, two layers both ways, last hidden": Network(lambda: Recurrent(nn.LSTM, layers=2, both_ways=True, last="hidden"), "tokens"),
    "lstm, projected": Network(lambda: Recurrent(nn.LSTM, proj_size=5), "tokens", batched=None),
    "lstm, no bias": Network(lambda: Recurrent(nn.LSTM, bias=False), "tokens"),
    "gru": Network(lambda: Recurrent(nn.GRU), "tokens"),
    "gru, steps first": Network(lambda: Recurrent(nn.GRU, batch_first=False), "tokens"),
    "gru, two layers both ways": Network(lambda: Recurrent(nn.GRU, layers=2, both_ways=True), "tokens"),
    "gru, last hidden": Network(lambda: Recurrent(nn.GRU, last="hidden"), "tokens"),
    "gru, two layers, dropout": Network(lambda: Recurrent(nn.GRU, layers=2, dropout=0.3), "tokens", batched=None),
    "rnn, relu": Network(lambda: Recurrent(nn.RNN, nonlinearity="relu"), "tokens", batched=None),
    "gru cell, places": Network(Sizes, "steps", batched=None),
    "mlp, layer norm, gelu, silu, softmax": Network(lambda: sequence(
        nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 16), nn.LayerNorm(16, elementwise_affine=False), nn.SiLU(),
        nn.Linear(16, 8), nn.Softmax(dim=1), nn.Linear(8, CLASSES)), "vectors", lr=0.5),
    "mlp, rms norm": Network(lambda: sequence(nn.Linear(8, 16), nn.RMSNorm(16), nn.ReLU(), nn.Linear(16, CLASSES)), "vectors",
                             batched=None),
    "mlp, prelu": Network(lambda: sequence(nn.Linear(8, 16), nn.PReLU(), nn.Linear(16, 16), nn.PReLU(16), nn.Linear(16, CLASSES)),
                          "vectors"),
    "mlp, no bias, many activations": Network(lambda: sequence(
        nn.Linear(8, 12, bias=False), nn.ELU(), nn.Linear(12, 12), nn.LeakyReLU(), nn.Linear(12, 12), nn.Hardtanh(), nn.Linear(12, 12),
        nn.Softplus(), nn.Linear(12, CLASSES)), "vectors"),
    "mlp, batch norm 1d": Network(lambda: sequence(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, CLASSES)), "vectors",
                                  lone=False),
    "cnn, depthwise separable": Network(lambda: sequence(
        nn.Conv2d(3, 12, 3, padding=1, groups=3), nn.Conv2d(12, 16, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1, groups=16),
        nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 1, groups=4), nn.Flatten(), nn.Linear(128, CLASSES)), "colours", lone=False),
    "cnn, dilated, padded": Network(lambda: sequence(
        nn.Conv2d(1, 6, 3, padding=2, dilation=2), nn.ReLU(), nn.Conv2d(6, 6, 3, padding="same"), nn.ReLU(),
        nn.Conv2d(6, 4, 3, padding=1, padding_mode="reflect"), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, CLASSES)), "images",
                                    batched=None),
    "cnn, 1d": Network(lambda: sequence(
        nn.Conv1d(4, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(8, 8, 3, 2, groups=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(16, CLASSES)), "series", lone=False),
    "cnn, 3d, batch norm 3d": Network(lambda: sequence(
        nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4, CLASSES)),
                                      "volumes", batched=None, lone=False),
    "cnn, transposed": Network(lambda: sequence(
        nn.Conv2d(1, 6, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(6, 4, 2, 2), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(64, CLASSES)), "images", batched=None),
    "cnn, instance norm": Network(lambda: sequence(
        nn.Conv2d(1, 6, 3, padding=1), nn.InstanceNorm2d(6, affine=True), nn.ReLU(), nn.Conv2d(6, 4, 3, 2, 1), nn.InstanceNorm2d(4),
        nn.Flatten(), nn.Linear(64, CLASSES)), "images", batched=None),
    "cnn, local response norm": Network(lambda: sequence(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.LocalResponseNorm(4), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, CLASSES)), "images"),
    "dropout": Network(lambda: sequence(nn.Linear(8, 24), nn.ReLU(), nn.Dropout(0.4), nn.Linear(24, 24), nn.ReLU(), nn.Dropout(0.2),
                                        nn.Linear(24, CLASSES)), "vectors"),
    "dropout 1d": Network(lambda: sequence(nn.Conv1d(4, 8, 3), nn.ReLU(), nn.Dropout1d(0.3), nn.Flatten(), nn.Linear(80, CLASSES)), "series"),
    "dropout 2d": Network(lambda: sequence(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Dropout2d(0.3), nn.Flatten(), nn.Linear(288, CLASSES)),
                          "images"),
    "dropout 3d": Network(lambda: sequence(nn.Conv3d(2, 4, 3), nn.ReLU(), nn.Dropout3d(0.3), nn.Flatten(), nn.Linear(32, CLASSES)),
                          "volumes", batched=None),
    "alpha dropout": Network(lambda: sequence(nn.Linear(8, 16), nn.SELU(), nn.AlphaDropout(0.2), nn.Linear(16, CLASSES)), "vectors",
                             batched=None),
    "frozen backbone": Network(FrozenBackbone, "images", lone=False),
    "tied embedding": Network(Tied, "tokens"),
    "tied and frozen layers": Network(TiedFrozen, "vectors"),
    "a module used twice": Network(Twice, "vectors"),
    "a layer that is not used": Network(Unused, "vectors"),
    "bare weights": Network(BareWeight, "vectors"),
    "bilinear": Network(Pairs, "vectors", batched=None),
    "float64": Network(Doubles, "images", lone=False, bf16=False),
    "one float64 layer": Network(SomeDoubles, "vectors", batched=None, bf16=False),
    "weight norm": Network(lambda: parametrised(parametrizations.weight_norm), "vectors", batched=None),
    "spectral norm": Network(lambda: parametrised(parametrizations.spectral_norm), "vectors", batched=None),
    "orthogonal": Network(lambda: parametrised(parametrizations.orthogonal), "vectors", batched=None, bf16=False),
    "bag of words": Network(lambda: sequence(nn.EmbeddingBag(WORDS, 8, mode="mean"), nn.Linear(8, CLASSES)), "tokens", batched=None),
    "mixes its batch": Network(Mixes, "vectors", batched=None),
    "running mean of its own": Network(RunningMean, "vectors", batched=None),
    "draws by itself": Network(DrawsItself, "vectors", batched=False),
    "noise by itself": Network(NoiseItself, "vectors", batched=False),
    "control flow": Network(Branches, "vectors", batched=False),
    "control flow, rare": Network(RarelyBranches, "vectors", batched=False),
    "mixes its batch, rarely": Network(RarelyMixes, "vectors", batched=None),
}


def build(name: str, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return NETWORKS[name].build()


class Shallow(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        nn.init.constant_(self.norm.weight, 0.3)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm(self.conv(x))


def deep_batch_norm(layers: int = 20, width: int = 4) -> nn.Module:
    """A narrow network with many BatchNorm layers behind each other: what one of them does wrong, the next ones magnify.

    Residual, so that gradients neither grow nor vanish: without that, weights that differ by 1e-7 end up percents apart.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.AvgPool2d(2), *(Shallow(width) for _ in range(layers - 1)),
                             nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, 10))

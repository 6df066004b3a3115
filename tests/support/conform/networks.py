"""The networks that people bring: one small member of each family, with data that it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils import parametrizations

from askew.core.dataset import Dataset
from conform.modules import (
    CLASSES,
    WORDS,
    Attends,
    BareWeight,
    Branches,
    Doubled,
    Doubles,
    DrawsItself,
    Encoder,
    FrozenBackbone,
    LooksAtItself,
    Mixes,
    NoiseItself,
    Pairs,
    RarelyBranches,
    RarelyMixes,
    Recurrent,
    RunningMean,
    Sizes,
    SomeDoubles,
    StartsItself,
    Tied,
    TiedFrozen,
    Twice,
    Unused,
    ViT,
    resnet,
)

EXAMPLES = 96
SHAPES = {"images": (1, 8, 8), "colours": (3, 8, 8), "volumes": (2, 4, 4, 4), "vectors": (8,), "series": (4, 12),
          "steps": (7, 6), "tokens": (9,)}


def data_of(kind: str, seed: int = 0, examples: int = EXAMPLES, classes: int = CLASSES) -> Dataset:
    """Random inputs of a shape (tokens: whole numbers), with labels that depend on them a little."""
    generator = torch.Generator().manual_seed(seed)
    count = examples + 20
    if kind == "tokens":
        x = torch.randint(0, WORDS, (count, *SHAPES[kind]), generator=generator)
        y = (x.sum(dim=1) + torch.randint(0, 2, (count,), generator=generator)) % classes
    else:
        x = torch.randn(count, *SHAPES[kind], generator=generator)
        y = torch.randint(0, classes, (count,), generator=generator)
        x = x + 0.3 * y.view(-1, *[1] * (x.ndim - 1))
    return Dataset.from_tensors((x[:examples], y[:examples]), (x[examples:], y[examples:]),
                                classes=[str(c) for c in range(classes)])


def parametrised(how: Callable[[nn.Module], nn.Module]) -> nn.Module:
    return nn.Sequential(how(nn.Linear(8, 12)), nn.Tanh(), nn.Linear(12, CLASSES))


@dataclass(frozen=True)
class Network:
    """One family.

    Args:
        build: the network, with fresh weights.
        data: the kind of its inputs.
        batched: True: the vectorised engine takes it, without a word. False: it falls back, with one line of warning.
            None: either will do.
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
    "resnet, batch norm without statistics": Network(
        lambda: resnet(lambda c: nn.BatchNorm2d(c, track_running_stats=False)), "images", batched=None, lone=False),
    "resnet, batch norm without weights": Network(lambda: resnet(lambda c: nn.BatchNorm2d(c, affine=False)), "images",
                                                  batched=None, lone=False),
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
    "lstm, two layers both ways, last hidden": Network(
        lambda: Recurrent(nn.LSTM, layers=2, both_ways=True, last="hidden"), "tokens"),
    "lstm, projected": Network(lambda: Recurrent(nn.LSTM, proj_size=5), "tokens", batched=None),
    "lstm, no bias": Network(lambda: Recurrent(nn.LSTM, bias=False), "tokens"),
    "gru": Network(lambda: Recurrent(nn.GRU), "tokens"),
    "gru, steps first": Network(lambda: Recurrent(nn.GRU, batch_first=False), "tokens"),
    "gru, two layers both ways": Network(lambda: Recurrent(nn.GRU, layers=2, both_ways=True), "tokens"),
    "gru, last hidden": Network(lambda: Recurrent(nn.GRU, last="hidden"), "tokens"),
    "gru, two layers, dropout": Network(lambda: Recurrent(nn.GRU, layers=2, dropout=0.3), "tokens", batched=None),
    "rnn, relu": Network(lambda: Recurrent(nn.RNN, nonlinearity="relu"), "tokens", batched=None),
    "lstm, first state of its own": Network(lambda: StartsItself(nn.LSTM), "tokens"),
    "gru, first state of its own": Network(lambda: StartsItself(nn.GRU), "tokens"),
    "gru cell, places": Network(Sizes, "steps", batched=None),
    "mlp, layer norm, gelu, silu, softmax": Network(lambda: sequence(
        nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 16), nn.LayerNorm(16, elementwise_affine=False),
        nn.SiLU(), nn.Linear(16, 8), nn.Softmax(dim=1), nn.Linear(8, CLASSES)), "vectors", lr=0.5),
    "mlp, rms norm": Network(lambda: sequence(nn.Linear(8, 16), nn.RMSNorm(16), nn.ReLU(), nn.Linear(16, CLASSES)),
                             "vectors", batched=None),
    "mlp, prelu": Network(lambda: sequence(nn.Linear(8, 16), nn.PReLU(), nn.Linear(16, 16), nn.PReLU(16),
                                           nn.Linear(16, CLASSES)), "vectors"),
    "mlp, no bias, many activations": Network(lambda: sequence(
        nn.Linear(8, 12, bias=False), nn.ELU(), nn.Linear(12, 12), nn.LeakyReLU(), nn.Linear(12, 12), nn.Hardtanh(),
        nn.Linear(12, 12), nn.Softplus(), nn.Linear(12, CLASSES)), "vectors"),
    "mlp, batch norm 1d": Network(
        lambda: sequence(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, CLASSES)), "vectors",
        lone=False),
    "cnn, depthwise separable": Network(lambda: sequence(
        nn.Conv2d(3, 12, 3, padding=1, groups=3), nn.Conv2d(12, 16, 1), nn.ReLU(),
        nn.Conv2d(16, 16, 3, 2, 1, groups=16), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 1, groups=4),
        nn.Flatten(), nn.Linear(128, CLASSES)), "colours", lone=False),
    "cnn, dilated, padded": Network(lambda: sequence(
        nn.Conv2d(1, 6, 3, padding=2, dilation=2), nn.ReLU(), nn.Conv2d(6, 6, 3, padding="same"), nn.ReLU(),
        nn.Conv2d(6, 4, 3, padding=1, padding_mode="reflect"), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64, CLASSES)), "images", batched=None),
    "cnn, 1d": Network(lambda: sequence(
        nn.Conv1d(4, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(8, 8, 3, 2, groups=2),
        nn.ReLU(), nn.Flatten(), nn.Linear(16, CLASSES)), "series", lone=False),
    "cnn, 3d, batch norm 3d": Network(lambda: sequence(
        nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(),
        nn.Linear(4, CLASSES)), "volumes", batched=None, lone=False),
    "cnn, transposed": Network(lambda: sequence(
        nn.Conv2d(1, 6, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(6, 4, 2, 2), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(64, CLASSES)), "images", batched=None),
    "cnn, instance norm": Network(lambda: sequence(
        nn.Conv2d(1, 6, 3, padding=1), nn.InstanceNorm2d(6, affine=True), nn.ReLU(), nn.Conv2d(6, 4, 3, 2, 1),
        nn.InstanceNorm2d(4), nn.Flatten(), nn.Linear(64, CLASSES)), "images", batched=None),
    "cnn, local response norm": Network(lambda: sequence(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.LocalResponseNorm(4), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(128, CLASSES)), "images"),
    "dropout": Network(lambda: sequence(nn.Linear(8, 24), nn.ReLU(), nn.Dropout(0.4), nn.Linear(24, 24), nn.ReLU(),
                                        nn.Dropout(0.2), nn.Linear(24, CLASSES)), "vectors"),
    "dropout 1d": Network(lambda: sequence(nn.Conv1d(4, 8, 3), nn.ReLU(), nn.Dropout1d(0.3), nn.Flatten(),
                                           nn.Linear(80, CLASSES)), "series"),
    "dropout 2d": Network(lambda: sequence(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Dropout2d(0.3), nn.Flatten(),
                                           nn.Linear(288, CLASSES)), "images"),
    "dropout 3d": Network(lambda: sequence(nn.Conv3d(2, 4, 3), nn.ReLU(), nn.Dropout3d(0.3), nn.Flatten(),
                                           nn.Linear(32, CLASSES)), "volumes", batched=None),
    "alpha dropout": Network(
        lambda: sequence(nn.Linear(8, 16), nn.SELU(), nn.AlphaDropout(0.2), nn.Linear(16, CLASSES)), "vectors",
        batched=None),
    "frozen backbone": Network(FrozenBackbone, "images", lone=False),
    "tied embedding": Network(Tied, "tokens"),
    "tied and frozen layers": Network(TiedFrozen, "vectors"),
    "a module used twice": Network(Twice, "vectors"),
    "a forward that reads its layers": Network(LooksAtItself, "images", lone=False, lr=0.5),
    "a layer that is not used": Network(Unused, "vectors"),
    "bare weights": Network(BareWeight, "vectors"),
    "bilinear": Network(Pairs, "vectors", batched=None),
    "float64": Network(Doubles, "images", lone=False, bf16=False),
    "one float64 layer": Network(SomeDoubles, "vectors", batched=None, bf16=False),
    "weight norm": Network(lambda: parametrised(parametrizations.weight_norm), "vectors", batched=None),
    "spectral norm": Network(lambda: parametrised(parametrizations.spectral_norm), "vectors", batched=None),
    "orthogonal": Network(lambda: parametrised(parametrizations.orthogonal), "vectors", batched=None, bf16=False),
    "bag of words": Network(lambda: sequence(nn.EmbeddingBag(WORDS, 8, mode="mean"), nn.Linear(8, CLASSES)), "tokens",
                            batched=None),
    "changes its weights": Network(lambda: sequence(nn.Embedding(WORDS, 4, max_norm=0.5), nn.Flatten(),
                                                    nn.Linear(36, CLASSES)), "tokens", batched=None),
    "changes its inputs": Network(Doubled, "vectors"),
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

"""What holds for every network: parameter counts, shapes, gradients, seeding, refusals."""

from __future__ import annotations

import pkgutil

import pytest
import torch
from torch import nn

import askew.models
from askew.core import registry
from askew.core.errors import AskewError

# recipe text, input shape, classes, parameters: layer by layer, so that a wrong sum shows where.
NETWORKS = [
    ("mlp", (1, 8, 8), 10, 64 * 64 + 64 + 64 * 10 + 10),
    ("mlp(hidden=[])", (5,), 3, 5 * 3 + 3),
    ("mlp(hidden=[200, 200])", (1, 28, 28), 10, 784 * 200 + 200 + 200 * 200 + 200 + 200 * 10 + 10),
    ("small_cnn", (1, 8, 8), 10, (9 * 16 + 16) + (9 * 16 * 32 + 32) + (32 * 2 * 2 * 64 + 64) + (64 * 10 + 10)),
    ("mcmahan_mnist_cnn", (1, 28, 28), 10,
     (25 * 32 + 32) + (25 * 32 * 64 + 64) + (64 * 7 * 7 * 512 + 512) + (512 * 10 + 10)),
    ("mcmahan_cifar_cnn", (3, 24, 24), 10,
     (25 * 3 * 64 + 64) + (25 * 64 * 64 + 64) + (64 * 6 * 6 * 384 + 384) + (384 * 192 + 192) + (192 * 10 + 10)),
    ("mcmahan_cifar_cnn(init='torch')", (3, 32, 32), 10,
     (25 * 3 * 64 + 64) + (25 * 64 * 64 + 64) + (64 * 8 * 8 * 384 + 384) + (384 * 192 + 192) + (192 * 10 + 10)),
    ("fednnnn_mnist_cnn", (1, 28, 28), 10,
     (25 * 20 + 20) + (25 * 20 * 50 + 50) + (50 * 4 * 4 * 500 + 500) + (500 * 10 + 10)),
    ("fednnnn_cifar_cnn", (3, 32, 32), 10,
     (9 * 3 * 32 + 32) + (9 * 32 * 32 + 32) + (9 * 32 * 64 + 64) + (9 * 64 * 64 + 64) + (9 * 64 * 128 + 128)
     + (9 * 128 * 128 + 128) + 2 * (32 + 32 + 64 + 64 + 128 + 128)
     + (128 * 4 * 4 * 382 + 382) + (382 * 192 + 192) + (192 * 10 + 10)),
    ("resnet20_fixup", (3, 32, 32), 10,
     9 * 3 * 16 + 6 * 9 * 16 * 16 + (9 * 16 * 32 + 5 * 9 * 32 * 32) + (9 * 32 * 64 + 5 * 9 * 64 * 64)
     + (9 * 5 + 2) + (64 * 10 + 10)),
    ("resnet20_fixup(slow_bias=True)", (3, 32, 32), 10,
     9 * 3 * 16 + 6 * 9 * 16 * 16 + (9 * 16 * 32 + 5 * 9 * 32 * 32) + (9 * 32 * 64 + 5 * 9 * 64 * 64)
     + (9 * 5 + 2) + (64 * 10 + 10)),
    ("resnet20", (3, 32, 32), 10,
     9 * 3 * 16 + 6 * 9 * 16 * 16 + (9 * 16 * 32 + 5 * 9 * 32 * 32) + (9 * 32 * 64 + 5 * 9 * 64 * 64)
     + 2 * (7 * 16 + 6 * 32 + 6 * 64) + (64 * 10 + 10)),
    ("fedcd_cnn", (3, 32, 32), 10,
     9 * (3 * 32 + 32 * 32 + 32 * 64 + 2 * 64 * 64 + 64 * 128 + 128 * 128 + 128 * 256 + 256 * 256)
     + 2 * (2 * 32 + 3 * 64 + 2 * 128 + 2 * 256) + (256 * 10 + 10)),
    ("hello_edge_cnn", (1, 50, 10), 10,
     (40 * 28 + 28) + 2 * 28 + (40 * 28 * 30 + 30) + 2 * 30 + (30 * 16 * 4 * 16 + 16) + (16 * 128 + 128) + 2 * 128
     + (128 * 10 + 10)),
    ("hello_edge_cnn(size='medium')", (1, 50, 10), 10,
     (40 * 64 + 64) + 2 * 64 + (40 * 64 * 48 + 48) + 2 * 48 + (48 * 16 * 4 * 16 + 16) + (16 * 128 + 128) + 2 * 128
     + (128 * 10 + 10)),
    ("hello_edge_cnn(size='large', batch_norm=False)", (1, 50, 10), 10,
     (40 * 60 + 60) + (40 * 60 * 76 + 76) + (76 * 16 * 4 * 58 + 58) + (58 * 128 + 128) + (128 * 10 + 10)),
    ("bag_of_words(vocabulary=5, width=3)", (7,), 4, 5 * 3 + 3 * 4 + 4),
]
# The sums above, added up: what the docstrings, the docs and (first one) McMahan et al. print.
STATED = {
    "mcmahan_mnist_cnn": 1_663_370, "mlp": 4_810, "small_cnn": 13_706, "mcmahan_cifar_cnn": 1_068_298,
    "mcmahan_cifar_cnn(init='torch')": 1_756_426, "fednnnn_mnist_cnn": 431_080, "fednnnn_cifar_cnn": 1_146_088,
    "resnet20_fixup": 268_393, "resnet20": 269_722, "fedcd_cnn": 1_212_778, "hello_edge_cnn": 69_352,
    "hello_edge_cnn(size='medium')": 178_666, "mlp(hidden=[200, 200])": 199_210,
}
every_network = pytest.mark.parametrize(
    ("text", "shape", "classes", "parameters"), NETWORKS, ids=[f"{row[0]}-{row[1]}" for row in NETWORKS])


def make(text: str, shape: tuple[int, ...], classes: int, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = registry.build("model", text, input_shape=shape, num_classes=classes)
    assert isinstance(network, nn.Module)
    return network


def make_generic(text: str, shape: tuple[int, ...], classes: int, seed: int = 0) -> nn.Module:
    """A network whose parameters are all different from 0: Fixup's start would hide most of what there is to see."""
    network = make(text, shape, classes, seed)
    noise = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=noise)
    return network


def inputs(shape: tuple[int, ...], count: int = 4, seed: int = 7) -> torch.Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))


def test_every_network_file_is_imported_and_tested() -> None:
    files = {module.name for module in pkgutil.iter_modules(askew.models.__path__)} - {"checks", "local_response_norm"}
    assert files == set(askew.models.__all__)
    assert files == {text.partition("(")[0] for text, *_ in NETWORKS}
    assert files <= set(registry.names("model"))


@every_network
def test_parameter_count(text: str, shape: tuple[int, ...], classes: int, parameters: int) -> None:
    assert sum(p.numel() for p in make(text, shape, classes).parameters()) == parameters
    if text in STATED:
        assert parameters == STATED[text]


@every_network
def test_forward_and_backward_are_finite(text: str, shape: tuple[int, ...], classes: int, parameters: int) -> None:
    network = make(text, shape, classes).train()
    logits = network(inputs(shape))
    assert logits.shape == (4, classes)
    nn.functional.cross_entropy(logits, torch.arange(4) % classes).backward()
    assert logits.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


@every_network
def test_gradient_reaches_every_parameter(text: str, shape: tuple[int, ...], classes: int, parameters: int) -> None:
    # In evaluation mode: a bias before BatchNorm has no effect, hence no gradient, while batch statistics are used.
    network = make_generic(text, shape, classes).eval()
    nn.functional.cross_entropy(network(inputs(shape)), torch.arange(4) % classes).backward()
    silent = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.any()]
    assert silent == []


@pytest.mark.slow
@every_network
def test_a_few_steps_of_sgd_lower_the_loss(text: str, shape: tuple[int, ...], classes: int, parameters: int) -> None:
    network, x, y = make(text, shape, classes).train(), inputs(shape, 8), torch.arange(8) % classes
    optimiser = torch.optim.SGD(network.parameters(), lr=0.03, momentum=0.5)
    losses = []
    for _ in range(30 if "fixup" in text else 12):  # ResNet-20 with Fixup starts with a classifier of zeros
        loss = nn.functional.cross_entropy(network(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.97 * losses[0]


@every_network
def test_weights_depend_on_the_seed_alone(text: str, shape: tuple[int, ...], classes: int, parameters: int) -> None:
    first, again, other = (make(text, shape, classes, seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


@every_network
def test_channels_last_changes_nothing(text: str, shape: tuple[int, ...], classes: int, parameters: int) -> None:
    if len(shape) != 3:
        pytest.skip("only images have channels")
    network, x = make_generic(text, shape, classes).eval(), inputs(shape)
    expected = network(x)
    reordered = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    torch.testing.assert_close(reordered(x.to(memory_format=torch.channels_last)), expected, atol=1e-5, rtol=1e-5)


@every_network
def test_layers_have_readable_names(text: str, shape: tuple[int, ...], classes: int, parameters: int) -> None:
    network = make(text, shape, classes)
    assert isinstance(network, nn.Sequential)
    assert not any(part.isdigit() for name, _ in network.named_parameters() for part in name.split("."))
    assert not any(isinstance(module, nn.ReLU) and module.inplace for module in network.modules())


@pytest.mark.parametrize(("text", "shape", "expected"), [
    ("mcmahan_mnist_cnn", (1, 28, 28), {"conv1": (32, 28, 28), "pool1": (32, 14, 14), "pool2": (64, 7, 7)}),
    ("mcmahan_cifar_cnn", (3, 24, 24), {"conv1": (64, 24, 24), "pool1": (64, 12, 12), "pool2": (64, 6, 6)}),
    ("fednnnn_mnist_cnn", (1, 28, 28),
     {"conv1": (20, 24, 24), "pool1": (20, 12, 12), "conv2": (50, 8, 8), "pool2": (50, 4, 4), "fc1": (500,)}),
    ("fednnnn_cifar_cnn", (3, 32, 32),
     {"conv12": (32, 32, 32), "pool1": (32, 16, 16), "conv22": (64, 16, 16), "pool2": (64, 8, 8), "conv32": (128, 8, 8),
      "pool3": (128, 4, 4), "fc1": (382,), "fc2": (192,)}),
    ("resnet20_fixup", (3, 32, 32), {"stage1": (16, 32, 32), "stage2": (32, 16, 16), "stage3": (64, 8, 8)}),
    ("resnet20", (3, 32, 32), {"stage1": (16, 32, 32), "stage2": (32, 16, 16), "stage3": (64, 8, 8)}),
    ("fedcd_cnn", (3, 32, 32),
     {"conv2": (32, 32, 32), "conv3": (64, 16, 16), "conv5": (64, 16, 16), "conv6": (128, 8, 8), "conv9": (256, 8, 8)}),
])
def test_sizes_between_the_layers(text: str, shape: tuple[int, ...], expected: dict[str, tuple[int, ...]]) -> None:
    x, shapes = inputs(shape, 2), {}
    for name, layer in make(text, shape, 10).named_children():
        x = layer(x)
        shapes[name] = tuple(x.shape[1:])
    assert {name: shapes[name] for name in expected} == expected


@pytest.mark.parametrize(("text", "shape", "message"), [
    ("mlp", (), r"mlp needs examples with at least one value, not shape \[\]"),
    ("mlp(hidden=[0])", (4,), r"mlp: hidden widths must be at least 1, not \[0\]"),
    ("mlp(hidden=64)", (4,), r"mlp: hidden must be a list of int, not 64"),
    ("small_cnn", (64,), r"small_cnn needs inputs \[channels, height, width\], not \[64\]; use mlp"),
    ("small_cnn", (1, 3, 8), r"small_cnn needs inputs of at least \[channels, 4, 4\], not \[1, 3, 8\]"),
    ("mcmahan_mnist_cnn", (1, 2, 2), r"^mcmahan_mnist_cnn needs inputs of at least \[channels, 4, 4\], not \[1, 2"),
    ("mcmahan_cifar_cnn", (3, 30, 30), r"^mcmahan_cifar_cnn needs height and width in multiples of 4, not \[3"),
    ("mcmahan_cifar_cnn(init='keras')", (3, 24, 24), r"init must be 'tensorflow' or 'torch', not 'keras'"),
    ("fednnnn_mnist_cnn", (1, 8, 8), r"^fednnnn_mnist_cnn needs inputs of at least \[channels, 16, 16\], not \[1, 8"),
    ("fednnnn_cifar_cnn", (3, 7, 32), r"^fednnnn_cifar_cnn needs inputs of at least \[channels, 8, 8\], not \[3, 7"),
    ("resnet20_fixup", (3, 2, 2), r"resnet20_fixup needs inputs of at least \[channels, 4, 4\]"),
    ("resnet20", (3, 2, 2), r"resnet20 needs inputs of at least \[channels, 4, 4\]"),
    ("fedcd_cnn", (3072,), r"fedcd_cnn needs inputs \[channels, height, width\], not \[3072\]"),
    ("hello_edge_cnn", (1, 10, 50), r"hello_edge_cnn needs inputs of at least \[channels, 19, 7\], not \[1, 10, 50\]"),
    ("bag_of_words", (1, 8, 8), r"bag_of_words needs inputs \[places\], numbers of words, not \[1, 8, 8\]; use mlp"),
    ("hello_edge_cnn(dropout=1.0)", (1, 50, 10), r"dropout must be at least 0 and below 1, not 1.0"),
])
def test_inputs_that_do_not_fit_are_refused_in_one_line(text: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(AskewError, match=message) as caught:
        make(text, shape, 10)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", askew.models.__all__)
def test_no_classes_are_refused(name: str) -> None:
    with pytest.raises(AskewError, match=f"{name}: num_classes must be at least 1, not 0"):
        make(name, (1, 52, 52), 0)


@pytest.mark.parametrize(("text", "smallest"), [
    ("mlp", (1,)), ("small_cnn", (1, 4, 4)), ("mcmahan_mnist_cnn", (1, 4, 4)), ("mcmahan_cifar_cnn", (3, 4, 4)),
    ("fednnnn_mnist_cnn", (1, 16, 16)), ("fednnnn_cifar_cnn", (3, 8, 8)), ("resnet20_fixup", (3, 4, 4)),
    ("resnet20", (3, 4, 4)),
    ("fedcd_cnn", (3, 4, 4)), ("hello_edge_cnn", (1, 19, 7)),
])
def test_smallest_inputs_that_are_accepted_do_run(text: str, smallest: tuple[int, ...]) -> None:
    assert make(text, smallest, 2)(inputs(smallest)).shape == (4, 2)


@pytest.mark.parametrize(("text", "shape"), [
    ("small_cnn", (3, 9, 13)), ("mcmahan_mnist_cnn", (3, 33, 30)), ("mcmahan_cifar_cnn", (1, 28, 40)),
    ("fednnnn_mnist_cnn", (3, 32, 29)), ("fednnnn_cifar_cnn", (1, 28, 31)), ("resnet20_fixup", (1, 29, 28)),
    ("resnet20", (1, 29, 28)),
    ("fedcd_cnn", (1, 27, 28)), ("hello_edge_cnn", (1, 98, 13)),
])
def test_other_sizes_and_channels_run(text: str, shape: tuple[int, ...]) -> None:
    assert make(text, shape, 7)(inputs(shape, 2)).shape == (2, 7)

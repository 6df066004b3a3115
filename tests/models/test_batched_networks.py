"""Networks as pure functions: many copies in one call of `torch.func.vmap` give what each copy gives alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

import askew.models

CASES = [
    (askew.models.mlp, (1, 8, 8), {}),
    (askew.models.small_cnn, (1, 8, 8), {}),
    (askew.models.mcmahan_mnist_cnn, (1, 28, 28), {}),
    (askew.models.mcmahan_cifar_cnn, (3, 24, 24), {}),
    (askew.models.fednnnn_mnist_cnn, (1, 28, 28), {}),
    (askew.models.fednnnn_cifar_cnn, (3, 16, 16), {}),
    (askew.models.resnet20_fixup, (3, 16, 16), {}),
    (askew.models.resnet20_fixup, (3, 16, 16), {"slow_bias": True}),
    (askew.models.resnet20, (3, 16, 16), {}),
    (askew.models.fedcd_cnn, (3, 16, 16), {}),
    (askew.models.hello_edge_cnn, (1, 50, 10), {}),
    (askew.models.hello_edge_cnn, (1, 50, 10), {"batch_norm": False}),
    (askew.models.bag_of_words, (6,), {"vocabulary": 4}),
]
every_network = pytest.mark.parametrize(("network", "shape", "args"), CASES)
COPIES, BATCH, CLASSES = 3, 5, 10


def copies_and_inputs(network: Any, shape: tuple[int, ...], args: dict[str, Any]) -> tuple[list[nn.Module], Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        nets = [network(shape, CLASSES, **args) for _ in range(COPIES)]
        with torch.no_grad():
            for net in nets:
                for parameter in net.parameters():  # away from Fixup's zeros and BatchNorm's ones
                    parameter += 0.02 * torch.randn_like(parameter)
        return nets, torch.randn(COPIES, BATCH, *shape)


@every_network
@pytest.mark.parametrize("training", [False, True])
def test_batched_forward_equals_each_alone(
    network: Any, shape: tuple[int, ...], args: dict[str, Any], training: bool
) -> None:
    nets, x = copies_and_inputs(network, shape, args)
    for net in nets:
        net.train(training)
    parameters, buffers = stack_module_state(nets)

    def forward(own: dict[str, Tensor], statistics: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(nets[0], (own, statistics), (x,))

    batched = vmap(forward)(parameters, buffers, x)
    for index, net in enumerate(nets):
        torch.testing.assert_close(batched[index], net(x[index]), atol=1e-5, rtol=1e-5)
        # BatchNorm in training has moved the running statistics: in place, in the stacked buffers.
        for name, alone in net.named_buffers():
            torch.testing.assert_close(buffers[name][index], alone, atol=1e-5, rtol=1e-5)
    counters = [value.tolist() for name, value in buffers.items() if name.endswith("num_batches_tracked")]
    assert all(counter == [int(training)] * COPIES for counter in counters)


@every_network
def test_batched_gradient_equals_each_alone(network: Any, shape: tuple[int, ...], args: dict[str, Any]) -> None:
    nets, x = copies_and_inputs(network, shape, args)
    y = torch.arange(COPIES * BATCH).reshape(COPIES, BATCH) % CLASSES
    parameters, buffers = stack_module_state(nets)
    parameters = {name: value.detach() for name, value in parameters.items()}

    def loss(own: dict[str, Tensor], statistics: dict[str, Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, Any]:
        logits = functional_call(nets[0], (own, statistics), (x,))
        return nn.functional.cross_entropy(logits, y), statistics

    gradients, statistics = vmap(grad(loss, has_aux=True))(parameters, buffers, x, y)
    for index, net in enumerate(nets):
        nn.functional.cross_entropy(net(x[index]), y[index]).backward()
        for name, parameter in net.named_parameters():
            torch.testing.assert_close(gradients[name][index], parameter.grad, atol=1e-5, rtol=1e-4)
        for name, alone in net.named_buffers():
            torch.testing.assert_close(statistics[name][index], alone, atol=1e-5, rtol=1e-5)


def test_batch_norm_in_training_needs_buffers_with_the_batch_axis() -> None:
    nets, x = copies_and_inputs(askew.models.fednnnn_cifar_cnn, (3, 16, 16), {})
    parameters, _ = stack_module_state(nets)
    shared = dict(nets[0].named_buffers())

    def forward(own: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(nets[0], (own, shared), (x,))

    with pytest.raises(RuntimeError, match="running_mean or running_var"):
        vmap(forward)(parameters, x)


def test_dropout_needs_different_randomness_under_vmap() -> None:
    nets, x = copies_and_inputs(askew.models.hello_edge_cnn, (1, 50, 10), {"batch_norm": False, "dropout": 0.5})
    parameters, _ = stack_module_state(nets[:1] * COPIES)
    same = x[:1].expand_as(x)

    def forward(own: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(nets[0], (own,), (x,))

    with pytest.raises(RuntimeError, match="randomness"):
        vmap(forward)(parameters, same)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        logits = vmap(forward, randomness="different")(parameters, same)
    assert not torch.allclose(logits[0], logits[1])

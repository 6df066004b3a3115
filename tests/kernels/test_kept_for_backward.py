"""What compiled normalisation keeps for its backward pass: memory that is written and read once more in every step."""

import pytest
import torch
from conform.forms import LONG
from torch import Tensor, nn


def kept_by_compiled(layer: nn.Module, x: Tensor) -> list[Tensor]:
    """The tensors (without values) that the compiled forward pass hands to the backward pass, as
    Inductor would cut the two apart."""
    from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    kept: list[Tensor] = []

    def look(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> object:
        kept.extend(v for v in inputs if isinstance(v, Tensor))
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=lambda graph, inputs: make_boxed_func(graph.forward), bw_compiler=look,
                           partition_fn=min_cut_rematerialization_partition)
    torch.compile(layer, backend=backend)(x).float().sum().backward()
    return kept


@pytest.mark.parametrize("kind", [nn.BatchNorm2d, *([lambda channels: nn.GroupNorm(2, channels)] if LONG else [])])
def test_normalisation_keeps_its_input_as_it_came(kind, device):
    """bf16 alone: also kept in fp32, it made W4's round 8% slower on an H200, and took 68% more memory."""
    from askew.engine.layers.client_axis import with_client_axis

    made = with_client_axis(nn.Sequential(nn.ReLU(), kind(4), nn.ReLU()), {})
    assert not isinstance(made, str)
    network = made[0].to(device)
    for name, p in list(network.named_parameters()):
        owner = network.get_submodule(name.rpartition(".")[0])
        setattr(owner, name.rpartition(".")[2], nn.Parameter(torch.stack([p.detach(), 2 * p.detach()])))
    for name, b in list(network.named_buffers()):
        owner = network.get_submodule(name.rpartition(".")[0])
        stacked = torch.zeros((2, 0), device=device) if name.endswith("counts") else torch.stack([b, b])
        setattr(owner, name.rpartition(".")[2], stacked)
    x = torch.randn(6, 4, 5, 5, device=device, dtype=torch.bfloat16)
    x = x.contiguous(memory_format=torch.channels_last).requires_grad_()
    kept = kept_by_compiled(network, x)
    assert any(v.numel() == x.numel() and v.dtype == torch.bfloat16 for v in kept), "the input itself is needed"
    assert not [v.shape for v in kept if v.numel() >= x.numel() and v.dtype == torch.float32]

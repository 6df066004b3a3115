"""Fixup: blocks that start as their shortcut, and the block's formula by hand."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from askew.core.errors import AskewError
from askew.models import resnet20_fixup
from askew.models.resnet20_fixup import FixupBlock


@pytest.fixture
def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return resnet20_fixup((3, 32, 32), 10)


def shortcut(x: Tensor, wide_out: int) -> Tensor:
    if x.shape[1] == wide_out:
        return x
    x = x[:, :, ::2, ::2]
    return torch.cat((x, torch.zeros_like(x)), dim=1)


def blocks(network: nn.Module) -> list[FixupBlock]:
    return [module for module in network.modules() if isinstance(module, FixupBlock)]


def test_residual_branches_contribute_nothing_at_first(network: nn.Module) -> None:
    assert len(blocks(network)) == 9
    for block in blocks(network):
        x = torch.randn(2, block.conv1.in_channels, 8, 8, generator=torch.Generator().manual_seed(1))
        assert torch.equal(block(x), torch.relu(shortcut(x, block.conv1.out_channels)))


def test_branches_do_contribute_once_their_last_convolution_moves(network: nn.Module) -> None:
    block = blocks(network)[3]
    x = torch.randn(2, 16, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        block.conv2.weight += 0.1
    assert not torch.allclose(block(x), torch.relu(shortcut(x, 32)))


def test_whole_network_is_its_shortcuts_at_first(network: nn.Module) -> None:
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    assert not network(x).any()  # the classifier starts at 0: all classes alike
    after_conv1 = torch.relu(network.get_submodule("conv1")(x))
    expected = shortcut(shortcut(after_conv1, 32), 64).mean(dim=(2, 3))
    with torch.no_grad():  # a classifier that shows the first ten features
        network.get_parameter("fc1.weight").copy_(torch.eye(10, 64))
    torch.testing.assert_close(network(x), expected[:, :10])


def test_scale_of_the_first_convolutions(network: nn.Module) -> None:
    for block in blocks(network):
        weight = block.conv1.weight
        he = (2 / (9 * weight.shape[0])) ** 0.5
        # L = 9 blocks of m = 2 convolutions: 9^(-1/2) = 1/3.
        assert weight.std().item() == pytest.approx(he / 3, rel=3 / (2 * weight.numel()) ** 0.5)
        assert block.scale(torch.ones(1)).item() == 1.0
        assert [b.bias.item() for b in (block.bias1, block.bias2, block.bias3, block.bias4)] == [0.0] * 4


def set_block(block: FixupBlock, conv1: float, conv2: float) -> None:
    with torch.no_grad():
        for convolution, centre in ((block.conv1, conv1), (block.conv2, conv2)):
            convolution.weight.zero_()
            convolution.weight[:, :, 1, 1] = centre
        for name, value in (("bias1.bias", 0.5), ("bias2.bias", 1.0), ("bias3.bias", -1.0), ("bias4.bias", 0.25),
                            ("scale.scale", -0.5)):
            block.get_parameter(name).fill_(value)


def test_block_by_hand() -> None:
    block = FixupBlock(1, 1, stride=1, num_blocks=1)
    set_block(block, conv1=2.0, conv2=3.0)
    # ReLU(2 (2 + 0.5) + 1) = 6; 3 (6 - 1) = 15; 0.5 * 15 + 0.25 = 7.75; ReLU(7.75 + 2) = 9.75.
    assert block(torch.full((1, 1, 1, 1), 2.0)).item() == 9.75
    # ReLU(2 (-8 + 0.5) + 1) = 0; 3 (0 - 1) = -3; 0.5 * -3 + 0.25 = -1.25; ReLU(-1.25 - 8) = 0.
    assert block(torch.full((1, 1, 1, 1), -8.0)).item() == 0.0


def test_block_with_stride_by_hand() -> None:
    block = FixupBlock(1, 2, stride=2, num_blocks=1)
    set_block(block, conv1=2.0, conv2=3.0)
    x = torch.tensor([[[[2.0, 9.0], [9.0, 9.0]]]])  # the shortcut keeps every other pixel: the 2
    # Both channels of conv1 give 6; conv2 adds up 2 * 3 (6 - 1) = 30; 0.5 * 30 + 0.25 = 15.25.
    # Shortcut: 2 + 0.5 on the old channel, 0 on the new one.
    assert block(x).flatten().tolist() == [17.75, 15.25]


def test_scalars_at_a_tenth_of_the_rate() -> None:
    """A plain step of rate 1 on what is kept moves the scalars by a tenth of their gradients, all else by the whole."""
    plain, slow = FixupBlock(1, 1, 1, 1), FixupBlock(1, 1, 1, 1, scalar_rate=0.1)
    x = torch.full((1, 1, 1, 1), 2.0)
    for block in (plain, slow):
        set_block(block, conv1=2.0, conv2=3.0)
    with torch.no_grad():  # the same scalars, as each keeps them
        for name, kept in slow.named_parameters():
            if kept.numel() == 1 and "conv" not in name:
                kept /= 0.1**0.5
    assert slow(x).item() == pytest.approx(plain(x).item())
    moved = {}
    for key, block in (("plain", plain), ("slow", slow)):
        gradients = torch.autograd.grad(block(x).sum(), list(block.parameters()))
        root = {"plain": 1.0, "slow": 0.1**0.5}[key]
        moved[key] = {name: g.flatten()[g.numel() // 2].item() * (root if "conv" not in name else 1.0)
                      for (name, _), g in zip(block.named_parameters(), gradients, strict=True)}
    for name, step in moved["plain"].items():
        assert moved["slow"][name] == pytest.approx(step * (1.0 if "conv" in name else 0.1), rel=1e-5), name


def test_scalar_rate_must_be_positive() -> None:
    with pytest.raises(AskewError, match="scalar_rate must be above 0, not 0"):
        resnet20_fixup((3, 32, 32), 10, scalar_rate=0.0)


class AuthorsBlock(nn.Module):
    """The block of hongyi-zhang/Fixup, cifar/models/fixup_resnet_cifar.py, in the scalars' own coordinates."""

    def __init__(self, ours: FixupBlock) -> None:
        super().__init__()
        self.bias1a, self.bias1b, self.bias2a, self.bias2b = (nn.Parameter(torch.zeros(1)) for _ in range(4))
        self.scale = nn.Parameter(torch.ones(1))
        self.conv1, self.conv2 = copy.deepcopy(ours.conv1), copy.deepcopy(ours.conv2)
        self.downsample = ours.shortcut

    def forward(self, x: Tensor) -> Tensor:
        out = torch.relu(self.conv1(x + self.bias1a) + self.bias1b)
        out = self.conv2(out + self.bias2a) * self.scale + self.bias2b
        identity = x
        if self.downsample is not None:
            identity = self.downsample(x + self.bias1a)
            identity = torch.cat((identity, torch.zeros_like(identity)), 1)
        return torch.relu(out + identity)


class AuthorsNet(nn.Module):
    def __init__(self, ours: nn.Sequential) -> None:
        super().__init__()
        self.conv1 = copy.deepcopy(ours.conv1)
        self.layers = nn.Sequential(*(AuthorsBlock(block) for block in blocks(ours)))
        self.bias1, self.bias2, self.fc = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1)), nn.Linear(64, 10)
        nn.init.zeros_(self.fc.weight), nn.init.zeros_(self.fc.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(torch.relu(self.conv1(x) + self.bias1))
        return self.fc(x.mean(dim=(2, 3)) + self.bias2)


def steps_of(slow_bias: bool, decay: float = 0.0, steps: int = 5) -> tuple[nn.Module, nn.Module]:
    """Both networks after some steps: ours with one group, the authors' with the groups of cifar/cifar_train.py."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        ours = resnet20_fixup((3, 16, 16), 10, slow_bias=slow_bias)
        x, y = torch.randn(32, 3, 16, 16), torch.arange(32) % 10
    theirs = AuthorsNet(ours)
    slow = [p for name, p in theirs.named_parameters() if "bias" in name or "scale" in name]
    others = [p for name, p in theirs.named_parameters() if not ("bias" in name or "scale" in name)]
    optimisers = (torch.optim.SGD(ours.parameters(), 0.1, momentum=0.9, weight_decay=decay),
                  torch.optim.SGD([{"params": slow, "lr": 0.01}, {"params": others}], 0.1, momentum=0.9,
                                  weight_decay=decay))
    for network, optimiser in zip((ours, theirs), optimisers, strict=True):
        for _ in range(steps):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(x), y).backward()
            optimiser.step()
    return ours, theirs


def test_with_a_slow_bias_the_groups_are_the_authors() -> None:
    """Five steps with momentum, and without the decay, in which the two differ, give one and the same network."""
    x = torch.randn(8, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    for slow_bias, same in ((True, True), (False, False)):
        ours, theirs = steps_of(slow_bias)
        assert ours(x).std() > 0.01
        assert torch.allclose(ours(x), theirs(x), atol=1e-5) == same
    ours, theirs = steps_of(slow_bias=True)
    torch.testing.assert_close(ours.bias3.bias * 0.1**0.5, theirs.fc.bias, atol=1e-6, rtol=1e-4)
    fast, _ = steps_of(slow_bias=False, steps=1)
    slow, _ = steps_of(slow_bias=True, steps=1)
    torch.testing.assert_close(slow.bias3.bias * 0.1**0.5, fast.fc1.bias / 10)


def test_decay_pulls_scalars_to_their_start_at_the_whole_rate() -> None:
    """The stated departure. Rate 0.1, decay 0.5, no gradient: 1 - 0.1 * 0.5 = 0.95 of the way is left after a step.

    The authors': 1 - 0.01 * 0.5 = 0.995 of the scalar itself. Over 9,800 steps with decay 5e-4: 0.61 and 0.95.
    """
    block = FixupBlock(1, 1, 1, 1, scalar_rate=0.1)
    set_block(block, conv1=2.0, conv2=3.0)
    before = {"bias": block.bias1(torch.zeros(1)).item(), "scale": block.scale(torch.ones(1)).item()}
    for parameter in block.parameters():
        parameter.grad = torch.zeros_like(parameter)
    torch.optim.SGD(block.parameters(), 0.1, weight_decay=0.5).step()
    assert block.bias1(torch.zeros(1)).item() == pytest.approx(0.95 * before["bias"])
    assert block.scale(torch.ones(1)).item() == pytest.approx(1 + 0.95 * (before["scale"] - 1))
    assert [round((1 - rate * 5e-4) ** 9800, 2) for rate in (0.1, 0.01)] == [0.61, 0.95]

"""ResNet-20 with BatchNorm: a block's formula, and the scale at which it starts."""

import pytest
import torch
import torch.nn.functional as F

from askew.models.resnet20 import ResidualBlock, resnet20


@pytest.mark.parametrize(("wide_out", "stride"), [(4, 1), (8, 2)])
def test_a_block_by_hand(wide_out, stride):
    torch.manual_seed(0)
    block, x = ResidualBlock(4, wide_out, stride).eval(), torch.randn(2, 4, 6, 6)
    for bn in (block.bn1, block.bn2):
        bn.running_mean.normal_(), bn.running_var.uniform_(0.5, 2.0)

    def normed(y, bn):
        return (y - bn.running_mean[:, None, None]) / (bn.running_var[:, None, None] + bn.eps).sqrt()

    inner = normed(F.conv2d(x, block.conv1.weight, stride=stride, padding=1), block.bn1).clamp_min(0)
    branch = normed(F.conv2d(inner, block.conv2.weight, padding=1), block.bn2)
    beside = x if stride == 1 else torch.cat((x[:, :, ::2, ::2], torch.zeros(2, 4, 3, 3)), dim=1)
    torch.testing.assert_close(block(x), (branch + beside).clamp_min(0))


def test_convolutions_start_at_he_et_als_scale():
    """sqrt(2 / (9 * channels in)) of the largest convolution, 36,864 weights."""
    torch.manual_seed(0)
    weight = resnet20((3, 32, 32), 10).get_parameter("stage3.block3.conv2.weight")
    assert float(weight.detach().std()) == pytest.approx((2 / (9 * 64)) ** 0.5, rel=0.02)

import math

import numpy as np
import pytest
import torch

from askew.core import registry, rng
from askew.core.dataset import Dataset
from askew.core.preprocess import pipeline
from askew.data import digits
from askew.pieces.preprocess import normalise, random_crop, random_flip, tf_cifar
from askew.pieces.preprocess.normalise import mean_and_std

RANDOM = {"random_crop": random_crop(2), "random_flip": random_flip(), "tf_cifar": tf_cifar(6)}


def keys(count, seed=0):
    return rng.fold(rng.key(seed, "augment"), torch.arange(count))


def images(count=16, channels=3, size=10):
    return torch.rand(count, channels, size, size, generator=torch.Generator().manual_seed(0))


def dataset(x):
    y = torch.zeros(len(x), dtype=torch.int64)
    return Dataset.from_tensors((x, y), (x, y))


# --- normalise


def test_normalise_by_hand():
    image = [[[0, 255]], [[255, 255]]]  # two channels, one row, two columns
    x = torch.tensor([image, image], dtype=torch.uint8)
    step = normalise(data=dataset(x))
    assert step.shape((2, 1, 2)) == (2, 1, 2)
    out = pipeline([step]).apply(x, None)
    # channel 0: 0 and 1 in equal parts, mean 1/2, std 1/2; channel 1 never varies: its std counts as 1
    assert out[0].tolist() == [[[-1.0, 1.0]], [[0.0, 0.0]]]


def test_normalise_with_given_numbers():
    step = normalise(mean=[1.0, 2.0], std=2.0)
    assert step.apply(torch.tensor([[3.0, 3.0]]), None).tolist() == [[1.0, 0.5]]
    assert step.shape((2,)) == (2,)


def test_measured_on_all_training_inputs_in_float64():
    x = torch.rand(2_345, 3, 4, 5, generator=torch.Generator().manual_seed(1))
    x = x * torch.tensor([1.0, 2.0, 3.0])[:, None, None] + 1_000.0  # far from 0: sums of squares would cancel
    mean, std = mean_and_std(x)
    assert mean.numpy() == pytest.approx(x.double().numpy().mean(axis=(0, 2, 3)), rel=1e-12)
    assert std.numpy() == pytest.approx(x.double().numpy().std(axis=(0, 2, 3)), rel=1e-9)


def test_each_coefficient_along_another_axis():
    x = torch.randn(50, 1, 5, 10, generator=torch.Generator().manual_seed(2)) * torch.arange(1, 11)
    out = normalise(data=dataset(x), axis=3).apply(x, None)
    assert out.std(dim=(0, 1, 2), correction=0).numpy() == pytest.approx(np.ones(10), rel=1e-4)


def test_digits_become_standard():
    data = digits()
    out = pipeline([registry.build("preprocess", "normalise", data=data)]).apply(data.train.x, None)
    assert float(out.mean()) == pytest.approx(0, abs=1e-5)
    assert float(out.std()) == pytest.approx(1, abs=1e-4)


def test_normalise_refuses(refused):
    with refused("give mean and std, or data"):
        normalise(mean=0.5)
    with refused("std must be above 0, not 0"):
        normalise(mean=0.5, std=0)
    with refused("2 values of mean for 3 channels"):
        normalise(mean=[0.1, 0.2], std=1.0).shape((3, 8, 8))
    with refused("axis must be 1 to 3"):
        normalise(mean=0.0, std=1.0, axis=4).shape((3, 8, 8))
    with refused("axis must be 1 to 3"):
        normalise(data=digits(), axis=0)
    with refused("mean must be"):
        normalise(mean="big", std=1.0)


# --- all random steps


@pytest.mark.parametrize("name", RANDOM)
def test_the_same_key_gives_the_same_result_and_another_one_another(name):
    step, x = RANDOM[name], images()
    assert torch.equal(step.apply(x, keys(16)), step.apply(x, keys(16)))
    assert not torch.equal(step.apply(x, keys(16)), step.apply(x, keys(16, seed=1)))


@pytest.mark.parametrize("name", RANDOM)
def test_an_example_does_not_depend_on_its_companions(name):
    step, x = RANDOM[name], images()
    together = step.apply(x, keys(16))
    order = torch.randperm(16, generator=torch.Generator().manual_seed(3))
    assert torch.equal(step.apply(x[order], keys(16)[order]), together[order])
    for i in range(16):
        assert torch.equal(step.apply(x[i : i + 1], keys(16)[i : i + 1])[0], together[i])


@pytest.mark.parametrize("name", RANDOM)
def test_evaluation_is_deterministic_and_of_the_shape_it_says(name):
    step, x = RANDOM[name], images()
    assert step.random
    assert torch.equal(step.apply(x, None), step.apply(x, None))
    for of in (None, keys(16)):
        assert tuple(step.apply(x, of).shape[1:]) == step.shape((3, 10, 10))


@pytest.mark.parametrize("name", RANDOM)
def test_works_on_channels_last_memory(name):
    step, x = RANDOM[name], images()
    assert torch.equal(step.apply(x.to(memory_format=torch.channels_last), keys(16)), step.apply(x, keys(16)))


@pytest.mark.parametrize("step", [*RANDOM.values(), normalise(mean=[0.1, 0.2, 0.3], std=[1.0, 2.0, 3.0])])
def test_stays_on_the_device_of_its_inputs(step):
    """The meta device computes shapes only and refuses to be mixed with tensors elsewhere, as a GPU does."""
    x, there = images().to("meta"), keys(16).to("meta")
    assert step.apply(x, there).device.type == "meta"
    assert step.apply(x, None).device.type == "meta"
    if torch.cuda.is_available():
        on_gpu = step.apply(images().cuda(), keys(16).cuda()).cpu()
        assert torch.allclose(on_gpu, step.apply(images(), keys(16)), atol=1e-5)


@pytest.mark.parametrize("name", RANDOM)
def test_only_images_are_accepted(name, refused):
    with refused(rf"{name}: inputs of shape \(7,\) are not images"):
        RANDOM[name].shape((7,))


def test_crop_and_flip_of_one_chain_draw_independently():
    """Among the flipped examples the crops are as varied as among the others."""
    ramp = torch.arange(100.0).view(1, 1, 10, 10).repeat(2_000, 1, 1, 1)
    crop = random_crop(1).apply(ramp, keys(2_000))[:, 0, 5, 5]
    flipped = random_flip().apply(ramp, keys(2_000))[:, 0, 0, 0] == 9
    shift_when_flipped = (crop[flipped] - 55).unique()
    assert len(shift_when_flipped) == len((crop[~flipped] - 55).unique()) == 9


# --- each step


def test_crop_moves_the_image_and_fills_with_zeros():
    x = torch.arange(1.0, 13.0).view(1, 1, 3, 4).repeat(500, 2, 1, 1)
    out = random_crop(1).apply(x, keys(500))
    padded = torch.nn.functional.pad(x[0, 0], (1, 1, 1, 1))
    places = [padded[top : top + 3, left : left + 4] for top in range(3) for left in range(3)]
    seen = [next(i for i, place in enumerate(places) if torch.equal(place, image[0])) for image in out]
    assert torch.equal(out[:, 0], out[:, 1])  # all channels move together
    counts = np.bincount(seen, minlength=9)
    assert counts.min() > 30  # 500 / 9 = 56 each; chance of fewer than 30 anywhere: below 1 in 1,000
    assert counts.max() < 85


def test_crop_without_padding_or_keys_is_the_image():
    x = images()
    assert torch.equal(random_crop(0).apply(x, keys(16)), x)
    assert torch.equal(random_crop(4).apply(x, None), x)


def test_flip_mirrors_half_of_the_images_left_to_right():
    x = images(1_000)
    out = random_flip().apply(x, keys(1_000))
    mirrored = torch.tensor([torch.equal(a, b.flip(-1)) for a, b in zip(out, x, strict=True)])
    assert torch.equal(out[~mirrored], x[~mirrored])
    assert 450 < int(mirrored.sum()) < 550
    assert torch.equal(random_flip().apply(x, None), x)


def test_tf_cifar_evaluates_the_centre_standardised():
    x = torch.zeros(1, 1, 4, 4)
    x[0, 0, 1:3, 1:3] = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    x[0, 0, 0, 0] = 9.0  # outside the centre
    assert tf_cifar(2).apply(x, None).tolist() == [[[[-1.0, -1.0], [1.0, 1.0]]]]


def test_tf_cifar_s_floor_is_tensorflow_s():
    """A dull image: std 0.001 / 255 is below 1 / sqrt(4) / 255, so it is divided by the latter."""
    x = torch.tensor([[[[0.0, 0.0], [0.002, 0.002]]]], dtype=torch.float64) / 255
    assert tf_cifar(2).apply(x, None).flatten().numpy() == pytest.approx([-0.002, -0.002, 0.002, 0.002])
    assert tf_cifar(2).apply(torch.full((1, 3, 2, 2), 0.7), None).abs().max() < 1e-2  # constant: no division by zero


def test_tf_cifar_trains_on_standardised_crops():
    x = images(200, 3, 32)
    out = tf_cifar(24).apply(x, keys(200))
    assert out.shape == (200, 3, 24, 24)
    assert out.mean(dim=(1, 2, 3)).abs().max() < 1e-4
    assert out.std(dim=(1, 2, 3), correction=0).numpy() == pytest.approx(np.ones(200), abs=1e-3)


def test_tf_cifar_step_by_step():
    """One example redone with numpy from the draws of its key."""
    x, key = images(1, 2, 9), keys(1, seed=5)
    draws = rng.bits(rng.fold(key, 0), 2)[0]
    top, left = int(draws[0] % 5), int(draws[1] % 5)
    cut = x[0, :, top : top + 5, left : left + 5].double().numpy()
    if int(rng.bits(rng.fold(key, 1), 1)[0, 0] % 2):
        cut = cut[:, :, ::-1]
    cut = cut + 63 / 255 * (2 * float(rng.uniform(rng.fold(key, 2), 1)[0, 0]) - 1)
    means = cut.mean(axis=(1, 2), keepdims=True)
    cut = (cut - means) * (0.2 + 1.6 * float(rng.uniform(rng.fold(key, 3), 1)[0, 0])) + means
    expected = (cut - cut.mean()) / max(cut.std(), 1 / math.sqrt(50) / 255)
    assert tf_cifar(5).apply(x, key)[0].numpy() == pytest.approx(expected, abs=1e-5)


def test_contrast_and_brightness_are_drawn_over_their_whole_range():
    factor = rng.uniform(rng.fold(keys(5_000), 3), 1) * 1.6 + 0.2
    assert 0.2 <= float(factor.min()) < 0.21
    assert 1.79 < float(factor.max()) <= 1.8


def test_sizes_that_do_not_fit_are_refused(refused):
    with refused("size=24 does not fit into images of 8 x 8 pixels"):
        tf_cifar().shape((1, 8, 8))
    with refused("size must be at least 1 pixel, not 0"):
        tf_cifar(0)
    with refused("padding must be at least 0, not -1"):
        random_crop(-1)


def test_the_pieces_are_known_by_name():
    assert set(registry.names("preprocess")) >= {"normalise", "random_crop", "random_flip", "tf_cifar"}
    assert registry.build("preprocess", "random_crop(padding=2)", data=None).random

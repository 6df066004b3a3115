import warnings
import zlib

import numpy as np
import pytest
import torch

from askew.data import image_folder, load

Image = pytest.importorskip("PIL.Image")


def draw(path, value, size=(4, 3), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(path)


def test_train_and_test_folders(tmp_path):
    for i, name in enumerate(("oak", "elm")):
        for split, count in (("train", 3), ("test", 2)):
            for k in range(count):
                draw(tmp_path / split / name / f"{k}.png", (10 * i, 100 + k, 200))
    data = load(f"image_folder({str(tmp_path)!r})")
    assert data.classes == ("elm", "oak")
    assert data.name == tmp_path.name
    assert data.train.x.shape == (6, 3, 3, 4)  # 4 wide, 3 high
    assert data.train.x.dtype == torch.uint8
    assert data.train.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.train.x[4, :, 0, 0].tolist() == [0, 101, 200]
    assert len(data.test) == 4


def test_without_a_test_folder_one_is_held_out(tmp_path):
    for name, value in (("a", 10), ("b", 20)):
        for k in range(10):
            draw(tmp_path / name / "deep" / f"{k}.PNG", value, mode="L")
    (tmp_path / "a" / "notes.txt").write_text("not an image")
    draw(tmp_path / ".hidden" / "x.png", 0, mode="L")
    data = image_folder(str(tmp_path), test_fraction=0.3)
    assert data.input_shape == (1, 3, 4)
    assert data.test.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.train.x[:, 0, 0, 0].tolist() == [10] * 7 + [20] * 7


def test_size_brings_images_together_and_colours_mix(tmp_path):
    draw(tmp_path / "a" / "0.png", (1, 2, 3), size=(10, 10))
    draw(tmp_path / "a" / "1.jpg", (90, 90, 90), size=(20, 5))
    draw(tmp_path / "b" / "0.png", 77, size=(7, 9), mode="L")
    draw(tmp_path / "b" / "1.png", (9, 8, 7, 128), size=(7, 9), mode="RGBA")
    data = image_folder(str(tmp_path), size=6, test_fraction=0.5)
    assert data.input_shape == (3, 6, 6)
    pixels = torch.cat([data.train.x, data.test.x])[:, :, 3, 3].tolist()
    assert sorted(pixels) == [[1, 2, 3], [9, 8, 7], [77, 77, 77], [90, 90, 90]]


def test_bad_folders_are_refused(tmp_path, refused):
    with refused("no folder 'nowhere'"):
        image_folder("nowhere")
    with refused("no images in its folders"):
        image_folder(str(tmp_path))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "notes.txt").write_text("x")
    with refused("no images in its folders"):
        image_folder(str(tmp_path))
    with refused("size must be at most 8,192 pixels, not 100,000"):
        image_folder(str(tmp_path), size=100_000)
    with refused("size must be at least 1 pixel, not 0"):
        image_folder(str(tmp_path), size=0)


def test_bad_images_are_named(tmp_path, refused):
    for k in range(2):
        draw(tmp_path / "a" / f"{k}.png", (0, 0, 0))
    draw(tmp_path / "a" / "wide.png", (0, 0, 0), size=(9, 3))
    with refused(r"wide.png is 9 x 3 pixels, .*0.png is 4 x 3; give size="):
        image_folder(str(tmp_path))
    (tmp_path / "a" / "wide.png").write_bytes(b"no image")
    with refused("wide.png is not an image"):
        image_folder(str(tmp_path))
    noise = np.random.Generator(np.random.Philox(0)).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a" / "wide.png")
    whole = (tmp_path / "a" / "wide.png").read_bytes()
    (tmp_path / "a" / "wide.png").write_bytes(whole[: len(whole) // 2])
    with refused("wide.png cannot be read as an image"):
        image_folder(str(tmp_path))


def png(width, height):
    """A sound head of a PNG image of that size."""
    head = b"IHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    parts = (b"\x89PNG\r\n\x1a\n\0\0\0\r" + head, b"\0\0\0\0IDAT")
    return parts[0] + zlib.crc32(head).to_bytes(4, "big") + parts[1] + zlib.crc32(b"IDAT").to_bytes(4, "big")


@pytest.mark.parametrize(("name", "content", "message"), [
    ("a.png", png(8193, 8192), "8193 x 8192 pixels are more than 67,108,864"),
    ("a.png", png(2**31 - 1, 2**31 - 1), "bomb|pixels"),
    ("a.ppm", b"P6 99999 99999 255\n", "bomb|pixels"),
    ("a.pgm", b"P5 9000 9000 255\n", "9000 x 9000 pixels are more than"),
    ("a.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "is not an image that can be read"),
    ("a.jpg", b"%PDF-1.4\n", "is not an image that can be read"),
])
def test_what_is_too_large_or_for_other_programs_is_refused(tmp_path, refused, name, content, message):
    (tmp_path / "oak").mkdir()
    (tmp_path / "oak" / name).write_bytes(content)
    with warnings.catch_warnings(), refused(message):
        warnings.simplefilter("error")
        image_folder(str(tmp_path), size=4)


def test_a_home_that_is_not_there_is_one_line(refused):
    with refused("no folder '~nobody-of-that-name/images'"):
        image_folder("~nobody-of-that-name/images")


@pytest.mark.parametrize(("name", "pixels"), [
    ("scan.png", np.full((3, 4), 4000, np.uint16)), ("scan.tif", np.full((3, 4), 4000, np.uint16)),
    ("deep.tif", np.full((3, 4), 70_000, np.int32)), ("float.tif", np.full((3, 4), 0.5, np.float32))])
def test_images_that_bytes_cannot_hold_are_refused_not_cut_off_at_white(tmp_path, refused, name, pixels):
    (tmp_path / "a").mkdir()
    Image.fromarray(pixels).save(tmp_path / "a" / name)
    with refused(f"{name} has more than 8 bits per pixel .*write it with 8 bits, or give its numbers as an array"):
        image_folder(str(tmp_path))


def test_a_photograph_is_the_way_up_that_the_camera_was_held(tmp_path):
    upright = Image.new("L", (2, 3), 0)
    upright.putpixel((0, 0), 255)
    turned, exif = upright.transpose(Image.Transpose.ROTATE_90), Image.Exif()
    exif[0x0112] = 6  # turn it by 90 degrees clockwise to see it upright
    (tmp_path / "a").mkdir()
    upright.save(tmp_path / "a" / "0.png")
    turned.save(tmp_path / "a" / "1.png", exif=exif)
    data = image_folder(str(tmp_path), test_fraction=0.5)
    assert data.train.x.tolist() == data.test.x.tolist() == [[[[255, 0], [0, 0], [0, 0]]]]


@pytest.mark.parametrize("names", [("train", "val"), ("Train", "Test"), ("train", "oak")])
def test_splits_are_never_taken_for_classes(tmp_path, refused, names):
    for name in names:
        draw(tmp_path / "all" / name / "elm" / "0.png", (0, 0, 0))
    with refused(r"'(train|Test)' holds folders of its own, so it is a split and no class; name the splits 'train'"):
        image_folder(str(tmp_path / "all"))
    for k in range(2):  # a class of that name has images in it
        draw(tmp_path / "vehicles" / "train" / f"{k}.png", (0, 0, 0))
    assert image_folder(str(tmp_path / "vehicles")).classes == ("train",)

"""Your own images: one folder per class."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError, first_line
from askew.core.files import check_regular
from askew.core.registry import piece
from askew.data.split import stratified_split

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
# What Pillow may take a file for, whatever its name: others it would hand to programs outside.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
SPLITS = ("train", "test", "val", "valid", "validation")
MOST_PIXELS = 2**26  # of one image: 8,192 x 8,192
LARGEST = 8192  # side of a resized image
WIDE = ("I", "F")  # first letters of Pillow's modes of more than 8 bits per pixel, which `convert` cuts off at 255


@piece("data")
def image_folder(path: str, size: int | None = None, test_fraction: float = 0.2) -> Dataset:
    """Images in PATH/train/CLASS/ and PATH/test/CLASS/, or in PATH/CLASS/ with a test set held out.

    Photographs are turned as the camera says that it was held (EXIF).

    Args:
        path: the folder. Images may lie at any depth below their class.
        size: resize every image to size x size pixels (bilinear, antialiased; the shape is not kept). Without it all
            images must already have one size.
        test_fraction: share held out for the test, in equal proportions of each class, where there is no test folder.

    Returns:
        A data set of uint8 inputs: [N, 1, H, W] if all images are grey, else [N, 3, H, W]. It is named after the
        folder; classes are the names of the class folders in alphabetical order.

    Example:
        data = image_folder("leaves", size=64)
    """
    if size is not None and not 1 <= size <= LARGEST:
        raise AskewError(f"image_folder: size must be at least 1 pixel, not {size}" if size < 1 else
                         f"image_folder: size must be at most {LARGEST:,} pixels, not {size:,}")
    root = Path(os.path.expanduser(path))
    if not os.path.isdir(root):
        raise AskewError(f"no folder {path!r}; give a folder with one folder of images per class")
    name = root.resolve().name
    if (root / "train").is_dir() and (root / "test").is_dir():
        files = [_find(root / "train"), _find(root / "test")]
        classes = tuple(sorted({label for split in files for _, label in split}))
        images = _read([file for split in files for file, _ in split], size)
        labels = [_number(split, classes) for split in files]
        first = len(files[0])
        return Dataset(name, Examples(images[:first], labels[0]), Examples(images[first:], labels[1]), classes)
    if halves := [entry.name for entry in _folders(root) if entry.name.lower() in SPLITS and _folders(entry)]:
        raise AskewError(f"{root}: {halves[0]!r} holds folders of its own, so it is a split and no class; name the "
                         f"splits 'train' and 'test', or give one of them: {str(root / halves[0])!r}")
    labelled = _find(root)
    classes = tuple(sorted({label for _, label in labelled}))
    images, label = _read([file for file, _ in labelled], size), _number(labelled, classes)
    train, test = stratified_split(label.numpy(), test_fraction)
    return Dataset(name, Examples(images[train], label[train]), Examples(images[test], label[test]), classes)


def _find(root: Path) -> list[tuple[Path, str]]:
    """(file, class) of every image below the class folders, in a fixed order."""
    labelled = []
    for folder in _folders(root):
        for where, inner, files in os.walk(folder):
            inner.sort()
            images = sorted(file for file in files if file.lower().endswith(ENDINGS) and not file.startswith("."))
            labelled += [(Path(where, file), folder.name) for file in images]
    if not labelled:
        raise AskewError(f"{root}: no images in its folders; put them in {root / 'CLASS'} as .png, .jpg, ...")
    return labelled


def _folders(root: Path) -> list[Path]:
    """The folders in a folder, but for hidden ones."""
    try:
        return sorted(entry for entry in root.iterdir() if os.path.isdir(entry) and not entry.name.startswith("."))
    except OSError as error:
        raise AskewError(f"{root} cannot be read: {error.strerror or error}; "
                         "give a folder with one folder of images per class") from None


def _number(labelled: list[tuple[Path, str]], classes: tuple[str, ...]) -> Tensor:
    position = {label: i for i, label in enumerate(classes)}
    return torch.tensor([position[label] for _, label in labelled])


def _read(files: list[Path], size: int | None) -> Tensor:
    """All images as uint8 [N, C, H, W]."""
    pixels = [_read_one(file, size) for file in files]
    shape = pixels[0].shape[:2]
    for file, image in zip(files, pixels, strict=True):
        if image.shape[:2] != shape:
            raise AskewError(f"{file} is {image.shape[1]} x {image.shape[0]} pixels, {files[0]} is {shape[1]} x "
                             f"{shape[0]}; give size=... to bring all to one size")
    channels = max(image.shape[2] for image in pixels)
    images = np.empty((len(files), channels, *shape), np.uint8)
    for i, image in enumerate(pixels):
        images[i] = image.transpose(2, 0, 1)  # grey among coloured images: the one channel fills all three
    return torch.from_numpy(images)


def plain_image(where: str, image: Any) -> Any:
    """An image of Pillow with 8 bits per channel, grey or coloured, turned as the camera says that it was held."""
    from PIL import ImageOps

    if image.mode.startswith(WIDE):
        raise AskewError(f"{where} has more than 8 bits per pixel (Pillow's mode {image.mode}), and which of its "
                         "values are black and white is not said; write it with 8 bits, or give its numbers as an "
                         "array: npz(...)")
    return ImageOps.exif_transpose(image).convert("L" if image.mode in ("1", "L") else "RGB")


def _read_one(file: Path, size: int | None) -> np.ndarray:
    """One image as uint8 [H, W, 1 or 3]."""
    from PIL import Image, UnidentifiedImageError

    check_regular(file, "image")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow's about odd files: they are read or refused
            with Image.open(file, formats=FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise ValueError(f"{image.width} x {image.height} pixels are more than {MOST_PIXELS:,}")
                plain = plain_image(str(file), image)
            if size is not None:
                plain = plain.resize((size, size), Image.Resampling.BILINEAR)
            pixels = np.asarray(plain)
    except UnidentifiedImageError:
        raise AskewError(f"{file} is not an image that can be read; remove or replace it") from None
    except AskewError:
        raise
    except Exception as error:  # a damaged image fails in many ways: each format's own
        raise AskewError(f"{file} cannot be read as an image ({first_line(error)}); remove or replace it") from None
    return pixels[:, :, None] if pixels.ndim == 2 else pixels

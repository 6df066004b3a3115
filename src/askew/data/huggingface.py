"""Your own Hugging Face `datasets.Dataset`, read once into memory. The package itself is not needed here."""

from __future__ import annotations

from typing import Any

import numpy as np

from askew.core.arguments import checked
from askew.core.dataset import Dataset, Examples
from askew.core.errors import AskewError, shown, suggest
from askew.data.image_folder import plain_image
from askew.data.labels import encode_labels
from askew.data.npz import as_inputs


@checked
def from_huggingface(train: Any, test: Any, image_column: str = "image", label_column: str = "label",
                     client_column: str | None = None, *, name: str = "custom") -> Dataset:
    """Turn two splits with a column of inputs and a column of labels into a data set in memory.

    Args:
        train, test: objects with `column_names` whose rows are dictionaries, such as `datasets.Dataset`.
        image_column: images (any that numpy can read: height x width [x channels]) or lists of numbers.
        label_column: class labels, whole numbers or words; names are taken from a `ClassLabel` feature.
        client_column: who owns the example (numbers or words), where the data say so.
        name: what the data set is called in reports.

    Returns:
        A data set; images become uint8 [N, C, H, W], other numbers float32.

    Example:
        splits = load_dataset("cifar10")
        data = from_huggingface(splits["train"], splits["test"], "img", "label")
    """
    inputs, labels, clients = [], [], []
    for split, rows in (("train", train), ("test", test)):
        if not hasattr(rows, "column_names"):
            raise AskewError(f"{name}: {split} must be a split with columns, such as load_dataset(...)['train'], not "
                             f"{shown(rows)}")
        for column in (image_column, label_column, *([client_column] if client_column else [])):
            if column not in rows.column_names:
                raise AskewError(f"{name}: {split} has no column {column!r}; {suggest(column, rows.column_names)}")
        where = f"{name}: {split} column {image_column!r}"
        # Whatever their format, images of that package are height x width x channels as arrays.
        images = type(getattr(rows, "features", {}).get(image_column)).__name__ == "Image"
        inputs.append(as_inputs(where, _stack(where, rows.select_columns([image_column]), image_column, images)))
        labels.append(list(rows[label_column]))
        clients.append(list(rows[client_column]) if client_column else [])
    names = getattr(getattr(train, "features", {}).get(label_column), "names", None)
    codes, classes = encode_labels(f"{name}: column {label_column!r}", *labels)
    if names is not None:  # a ClassLabel already numbers its classes, those without examples included
        codes, classes = [code.new_tensor(values) for code, values in zip(codes, labels, strict=True)], tuple(names)
    splits = [Examples(x, y) for x, y in zip(inputs, codes, strict=True)]
    if client_column is None:
        return Dataset(name, splits[0], splits[1], classes)
    owners, who = encode_labels(f"{name}: column {client_column!r}", *clients)
    return Dataset(name, splits[0], splits[1], classes, owners[0].numpy(), owners[1].numpy(), client_names=who)


def _stack(where: str, rows: Any, column: str, images: bool) -> np.ndarray:
    """All inputs as one array; images turn from height x width x channels to channels first."""
    arrays: list[np.ndarray] = []
    for i, row in enumerate(rows):
        array = np.asarray(row[column])
        if hasattr(row[column], "convert"):  # an image of Pillow
            array = np.asarray(plain_image(f"{where}: example {i}", row[column]))
            array = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
        elif images and isinstance(row[column], np.ndarray) and array.ndim == 3:  # with_format("numpy")
            array = array.transpose(2, 0, 1)
        if arrays and array.shape != arrays[0].shape:
            raise AskewError(f"{where}: example {i} has shape {array.shape}, example 0 {arrays[0].shape}; "
                             "bring all to one shape with the data set's map")
        arrays.append(array)
    if not arrays:
        raise AskewError(f"{where}: no examples")
    return np.stack(arrays)

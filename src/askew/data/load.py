"""A data set by name."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from askew.core.arguments import checked
from askew.core.dataset import Dataset
from askew.core.registry import Spec, build


@checked
def load(spec: str | Spec, data_dir: str | Path | None = None) -> Dataset:
    """The data set that `spec` names, as a recipe writes it.

    Args:
        spec: `digits`, `mnist`, `speech_commands(version="0.02")`, `table("visits.csv", label="diagnosis")`, ...
        data_dir: folder that holds downloaded data sets; default: $ASKEW_DATA, else the cache folder.

    Example:
        >>> load("digits").num_classes
        10
    """
    return cast(Dataset, build("data", spec, data_dir=None if data_dir is None else str(data_dir)))

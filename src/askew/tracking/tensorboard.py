"""TensorBoard: files of events in the run's folder, `tensorboard --logdir runs` shows those of all runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PLACE = "tensorboard"
SECONDS = 5  # between writes, so that curves grow while somebody looks


class _TensorBoard:
    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Rounds that were sent before a run was interrupted are sent again, and are not to be shown twice.
        self._writer = SummaryWriter(str(folder / PLACE), purge_step=0, flush_secs=SECONDS)
        table = "".join(f"| {key} | `{value}` |\n" for key, value in settings.items())
        self._writer.add_text("recipe", f"{folder}\n\n| field | value |\n|---|---|\n{table}")

    def numbers(self, round: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, round)

    def end(self, finished: bool) -> None:
        self._writer.close()


start = _TensorBoard

"""Weights & Biases: one of its runs in the project `askew` (or WANDB_PROJECT); WANDB_MODE=offline sends nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SECONDS = 30  # to log in, where it asks; an unattended run goes on without


class _Wandb:
    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        import wandb

        self._run = wandb.init(project=os.environ.get("WANDB_PROJECT", "askew"), name=folder.absolute().name,
                               config=dict(settings),
                               reinit="create_new",  # a run of the caller's own is left alone
                               settings=wandb.Settings(console="off", login_timeout=SECONDS))

    def numbers(self, round: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=round)

    def end(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)


start = _Wandb

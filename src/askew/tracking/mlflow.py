"""MLflow: one of its runs in the experiment `askew` (or MLFLOW_EXPERIMENT_NAME), where MLFLOW_TRACKING_URI says."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LONGEST = 500  # characters of a parameter, the least that versions of MLflow take


class _Mlflow:
    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        from mlflow import MlflowClient  # a client has no global state: a run of the caller's own is left alone
        from mlflow.entities import Param

        self._client = MlflowClient()
        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", "askew")
        known = self._client.get_experiment_by_name(experiment)
        number = known.experiment_id if known else self._client.create_experiment(experiment)
        self._run = self._client.create_run(number, run_name=folder.absolute().name).info.run_id
        self._client.log_batch(self._run, params=[Param(key, str(value)[:LONGEST]) for key, value in settings.items()])

    def numbers(self, round: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        # Its names have few characters; to its store of files N is a file, and N/E would be one in a folder N.
        self._client.log_batch(self._run, metrics=[Metric(re.sub(r"[^\w\-. ]", ".", name), value, now, round)
                                                   for name, value in values.items()])

    def end(self, finished: bool) -> None:
        self._client.set_terminated(self._run, "FINISHED" if finished else "KILLED")


start = _Mlflow

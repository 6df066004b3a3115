"""A ClientApp that misbehaves as the file `fault` beside its settings says ("nan 1": in round 2).

For benchmarks/deploy.py. What it sends before the fault is what askew's own ClientApp sends.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

from askew.flower import client_app
from askew.flower.messages import ABOUT, HELLO, JUDGE, TRAIN

plain = client_app()
app = ClientApp()


def _spoilt(kind: str, array: Any) -> Any:
    values = array.numpy()
    if kind == "nan":
        return Array(np.full_like(values, np.nan))
    if kind == "long":
        return Array(values * 1000)
    if kind == "shapes":
        return Array(values.ravel()[:-1].copy())
    return Array(array.dtype, array.shape, array.stype, array.data[: len(array.data) // 2])  # truncated


def handle(message: Message, context: Context) -> Message:
    reply = plain(message, context)
    file = Path(str(context.node_config["settings"])).with_name("fault")
    kind, round = file.read_text().split() if file.exists() else ("none", "-1")
    if message.metadata.message_type != TRAIN or message.content[ABOUT]["round"] != int(round):
        return reply
    if kind == "slow":
        time.sleep(150)
    record = reply.content["message"]
    reply.content["message"] = ArrayRecord({name: _spoilt(kind, array) for name, array in record.items()})
    return reply


for name in (HELLO, TRAIN, JUDGE):
    getattr(app, name.split(".")[0])(name.split(".")[1])(handle)

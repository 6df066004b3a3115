"""One of several processes: what it does in a folder. The first writes there what came of each case."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

import askew
from askew.core.client_piece import ClientContext, OnGradient
from askew.core.errors import AskewError
from askew.core.probe import Probe
from askew.core.registry import piece
from askew.core.tensors import Params
from askew.engine.peers import DISTRIBUTED, joined
from several.cases import SMALL, cases

ROUNDS = 6  # of the runs that are broken off


@piece("client")
def fails_at(client: int) -> OnGradient:
    """An error in the training of one client."""

    def update(u: Params, state: Any, ctx: ClientContext) -> tuple[Params, Any]:
        if int(ctx.client) == client:
            raise AskewError(f"client {client} has failed")
        return u, state

    return OnGradient(update)


@piece("probe")
def counts_clients() -> Probe:
    """It looks at each client's model, and nobody said how two processes' counts are one."""
    return Probe(lambda ctx, round, state, seen: ({"seen": seen}, state),
                 observe=lambda ctx, model, seen: (seen or 0) + 1)


def stop_at(round: int) -> Any:
    """Ctrl-C in the middle of a run, in one of its processes."""

    def on_round(record: dict[str, Any], recipe: askew.Recipe) -> None:
        if record["round"] == round:
            raise KeyboardInterrupt

    return on_round


def said(call: Any) -> str:
    """The error of a call that must not succeed."""
    try:
        call()
    except AskewError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def main(folder: Path) -> None:
    peers = joined(DISTRIBUTED)
    assert peers is not None
    seconds = {}
    for name, recipe in cases().items():
        began = time.perf_counter()
        result = askew.run(recipe, engine=DISTRIBUTED)
        seconds[name] = time.perf_counter() - began
        if peers.leads:
            save_file({key: v.contiguous() for key, v in result.model.items()}, folder / f"{name}.safetensors")
            (folder / f"{name}.json").write_text(json.dumps(result.records))
    scaffold = askew.methods.scaffold(SMALL.replace(rounds=ROUNDS))
    one, other = (askew.run(scaffold, engine=DISTRIBUTED) for _ in range(2))
    assert one.records == other.records
    assert all(torch.equal(v, other.model[key]) for key, v in one.model.items()), "the same seed gave other bits"
    for out in ("broken off", "broken off, for one"):  # one is gone on with here, the other by one process
        askew.run(scaffold, engine=DISTRIBUTED, out=folder / out, on_round=stop_at(3), checkpoint_every=2)
    askew.resume(folder / "broken off", engine=DISTRIBUTED)
    askew.resume(folder / "begun by one", engine=DISTRIBUTED)
    errors = {
        "a client": said(lambda: askew.run(SMALL.replace(client=["fails_at(3)", "sgd(0.1)"]), engine=DISTRIBUTED)),
        "diverged": said(lambda: askew.run(SMALL.replace(client="sgd(1e30)"), engine=DISTRIBUTED)),
        "other seeds": said(lambda: askew.run(SMALL.replace(seed=peers.rank), engine=DISTRIBUTED)),
        "too many": said(lambda: askew.run(SMALL.replace(population="iid(clients=1)"), engine=DISTRIBUTED)),
        "a folder": said(lambda: askew.run(SMALL, engine=DISTRIBUTED, out=folder / "broken off")),
        "a probe": said(lambda: askew.run(SMALL.replace(probes=["counts_clients()"]), engine=DISTRIBUTED)),
        "after all that": said(lambda: askew.run(SMALL.replace(rounds=1), engine=DISTRIBUTED)),
    }
    (folder / f"errors-{peers.rank}.json").write_text(json.dumps(errors))
    (folder / f"seconds-{peers.rank}.json").write_text(json.dumps(seconds))

"""Which set-up could ozdayi2020's baselines have come from? Candidates for what the paper does not say, on CIFAR-10.

    python benchmarks/ozdayi_setups.py --data-dir DIR --out setups.json --limit 540 [--runs FOLDER] [--groups A,B]

Each set-up is trained for the three rows of table 1 (Centralized 90.4, FL - IID 90.0, FL - NIID(5) 73.0), 100 rounds
of one epoch, seed 0, 5 M images each. Those of a group have one shape and train together, federations first, then
centralised training; groups come in the order in which they tell most. The file is written after each configuration,
and holds the curves of those that a limit has stopped, too; with `--runs` the next call goes on with them. `--tiny`
has a few made-up images, two rounds and the CPU: it shows that everything trains.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from askew.core.dataset import Dataset
from askew.core.errors import AskewError
from askew.core.files import check_new, write_json
from askew.core.recipe import Recipe
from askew.papers.ozdayi2020.items import BASE
from askew.runs.environment import describe_environment
from askew.runs.result import Result
from askew.runs.sweep import sweep

FEDERATIONS = {"FL - NIID(5)": "label_blocks(clients=2)", "FL - IID": "iid(clients=2)"}
CENTRALISED = {"Centralized": "pooled()"}
FIXUP, SLOW, NORMED = "resnet20_fixup(scalar_rate=1.0)", "resnet20_fixup()", "resnet20()"
PATIENCE = 15


@dataclass(frozen=True)
class Setup:
    """One answer to what the paper leaves open; the defaults are the authors' related program and its notebook.

    Args:
        clip: length to which gradients are clipped; infinity does not.
        momentum: of the local steps; Nesterov's form where it is not 0.
        kept: momentum goes on from round to round.
        falls: how the rate falls: "plateau", "drops" (a tenth after half and three quarters), "cosine" or "never".
        model: Fixup with scalars at the whole rate or at a tenth of it, or BatchNorm.
    """

    lr: float = 0.1
    clip: float = 10.0
    momentum: float = 0.9
    kept: bool = True
    weight_decay: float = 5e-4
    falls: str = "plateau"
    model: str = FIXUP

    def recipe(self, population: str, rounds: int, batch_size: int) -> Recipe:
        """All ways to fall in one shape, so that they train together: what is not wanted is there and does nothing."""
        end, factor = (0.0 if self.falls == "cosine" else self.lr), (0.1 if self.falls == "drops" else 1.0)
        cosine = f"cosine({self.lr}, rounds={rounds}, end={end})"
        rate = f"drops({cosine}, at=[{rounds // 2}, {3 * rounds // 4}], factor={factor})"
        moment = f"momentum={self.momentum}, nesterov={self.momentum > 0}, keep_momentum={self.kept}"
        patience = PATIENCE if self.falls == "plateau" else rounds  # more than there are
        return BASE.replace(
            population=population, model=self.model, rounds=rounds, batch_size=batch_size,
            client=(f"clip_gradient({self.clip})", f"sgd(lr={rate}, {moment}, weight_decay={self.weight_decay})",
                  "scale_by_server()"),
            server=("mean()", f"plateau(patience={patience})"))

    @property
    def name(self) -> str:
        """Where it differs from the defaults."""
        plain = asdict(Setup())
        return ", ".join(f"{key} {value}" for key, value in asdict(self).items() if value != plain[key]) or "program"


def _plain(**given: Any) -> Setup:
    return Setup(**{"momentum": 0.0, "kept": False, "model": SLOW, **given})


GROUPS: dict[str, tuple[Setup, ...]] = {
    # The related program with its notebook's rule; other ways to fall; without each part.
    "program": (Setup(), Setup(falls="drops"), Setup(falls="cosine"), Setup(falls="never"), Setup(clip=math.inf),
                Setup(lr=0.03)),
    # As printed (the control, which is known: 85.0, 85.2, diverged), and what a falling rate makes of it.
    "plain": (_plain(clip=math.inf, falls="never"), _plain(falls="plateau"), _plain(falls="drops"),
              _plain(falls="cosine"), _plain(clip=math.inf, falls="drops"), _plain(lr=0.05, falls="drops")),
    "not kept": (Setup(kept=False), Setup(kept=False, falls="drops"), Setup(kept=False, falls="cosine"),
                 Setup(kept=False, lr=0.03), Setup(kept=False, lr=0.03, falls="drops")),
    "slow scalars": (Setup(model=SLOW), Setup(model=SLOW, falls="drops"), Setup(model=SLOW, falls="cosine"),
                     Setup(model=SLOW, lr=0.03), Setup(model=SLOW, clip=math.inf)),
    "batchnorm": (Setup(model=NORMED, clip=math.inf), Setup(model=NORMED, clip=math.inf, falls="drops"),
                  Setup(model=NORMED, clip=math.inf, falls="never"), Setup(model=NORMED, clip=math.inf, lr=0.03)),
    "rates": (Setup(lr=0.05), Setup(lr=0.01), Setup(lr=0.05, falls="drops"), Setup(lr=0.03, falls="drops"),
              Setup(lr=0.01, falls="drops"), Setup(lr=0.03, falls="cosine"), Setup(weight_decay=1e-4),
              Setup(weight_decay=1e-4, falls="drops")),
}


def configurations(group: str, rounds: int = BASE.rounds,
                   batch_size: int = BASE.batch_size) -> Iterator[list[tuple[Setup, str, Recipe]]]:
    """(set-up, row of table 1, recipe), those that train together in one list."""
    for rows in (FEDERATIONS, CENTRALISED):
        yield [(setup, row, setup.recipe(population, rounds, batch_size).replace(name=f"{row}: {setup.name}"))
               for setup in GROUPS[group] for row, population in rows.items()]


def tiny_data() -> Dataset:
    """Ten classes of made-up images, four of each."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randint(0, 256, (40, 3, 8, 8), generator=generator, dtype=torch.uint8), torch.arange(40) % 10
    return Dataset.from_tensors((x, y), (x, y), name="tiny")


def entry(group: str, setup: Setup, row: str, result: Result) -> dict[str, Any]:
    """What the file holds of a configuration."""
    state = f"diverged: {result.diverged}" if result.diverged else "interrupted" if result.interrupted else "finished"
    clip = None if math.isinf(setup.clip) else setup.clip
    return {"group": group, "setup": setup.name, "row": row, **asdict(setup), "clip": clip, "state": state,
            "rounds": len(result.records), "seconds": round(result.seconds, 1), "together": result.together,
            "seconds_each": round(result.seconds / result.together, 1),
            "round": [record["round"] for record in result.evaluations],
            "accuracy": [round(record["accuracy"], 4) for record in result.evaluations],
            "train_loss": [round(record["train_loss"], 4) for record in result.records],
            "recipe": result.recipe.to_toml()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--data-dir")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds, after which no further round begins")
    parser.add_argument("--runs", type=Path, help="folder with a run folder for each configuration, to go on from")
    parser.add_argument("--groups", default=",".join(GROUPS), help=f"in this order; default: {','.join(GROUPS)}")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.groups.split(",") if name not in GROUPS]:
        raise AskewError(f"--groups: no group {unknown[0]!r}; there are {', '.join(GROUPS)}")
    check_new(given.out, "--out")
    device, precision, sizes, data = ("cpu", "fp32", (2, 8), tiny_data()) if given.tiny else (
        "cuda", given.precision, (BASE.rounds, BASE.batch_size), None)
    environment, entries, began = describe_environment(device, precision=precision), [], time.monotonic()
    for group in given.groups.split(","):
        for members in configurations(group, *sizes):
            left = given.limit - (time.monotonic() - began)

            def end(i: int, result: Result, group: str = group, members: Any = members) -> None:
                setup, row, _ = members[i]
                entries.append(entry(group, setup, row, result))
                what = str(__doc__).splitlines()[0]
                write_json(given.out, {"what": what, "environment": environment, "rows": entries})
                sys.stderr.write(f"{group}: {row}: {setup.name}: {entries[-1]['state']} after {len(result.records)} "
                                 f"rounds, {result.accuracy:.4f}, {entries[-1]['seconds_each']} s\n")

            folders = given.runs and [given.runs / group / recipe.fingerprint for _, _, recipe in members]
            results = sweep([recipe for _, _, recipe in members], data=data, engine="vectorised", precision=precision,
                            device=device, data_dir=given.data_dir, folders=folders, on_end=end,
                            limit_s=None if math.isinf(left) else left)
            if any(result.interrupted for result in results):
                return


if __name__ == "__main__":
    try:
        main()
    except AskewError as error:
        sys.exit(f"error: {error}")

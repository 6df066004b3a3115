"""The table of readers. A function of the package that opens a file has a line here, or a reason why not.

A reader of your own: a `Reader` with good files, what reads them, and the functions that open them.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from askew.advice.advice import ADVICE
from askew.advice.contest import Plan
from askew.advice.planning import PLAN, keep_plan, read_plan
from askew.advice.trials import JOURNAL, read_journal
from askew.core.dataset import Dataset
from askew.core.population import Population
from askew.core.recipe import Recipe
from askew.data import image_folder, npz, table
from askew.data.cifar10 import read_batch
from askew.data.mnist import read_idx
from askew.data.schema import schema_text
from askew.data.skew_table import read_counts
from askew.data.speech_commands import TEST_LIST, _features, read_clip, read_list
from askew.engine.build import build_task
from askew.engine.start import start_context
from askew.engine.task import Task
from askew.flower.node_memory import NodeMemory
from askew.flower.settings import NodeSettings
from askew.papers import store
from askew.papers.machine_facts import recall
from askew.pieces.methods import fedcd, fedper
from askew.pieces.start.pretrained import pretrained
from askew.report.page.advice import read_advice, sections, title
from askew.runs.model_file import read_about
from askew.runs.run import run
from askew.runs.run_folder import RunFolder
from askew.runs.trained import Trained
from fuzzing import formats
from fuzzing.reader import Reader

MEMORY = ({"control": torch.arange(6.0).view(2, 3)}, ())  # what a client remembers


def idx_files(folder: Path) -> list[Path]:
    images, labels = np.arange(5 * 6 * 7).reshape(5, 6, 7), np.arange(5)
    for name, array in (("images", images), ("labels", labels)):
        (folder / name).write_bytes(formats.idx(array))
        (folder / f"{name}.gz").write_bytes(formats.gzip.compress(formats.idx(array), mtime=0))
    return sorted(folder.iterdir())


def clips(folder: Path) -> list[Path]:
    for name, samples in (("whole.wav", 16_000), ("short.wav", 400), ("long.wav", 20_000)):
        formats.clip(folder / name, samples)
    return sorted(folder.iterdir())


def lists(folder: Path) -> list[Path]:
    (folder / TEST_LIST).write_text("yes/aa_nohash_0.wav\nno/bb_nohash_1.wav\n")
    return [folder / TEST_LIST]


def features(folder: Path) -> list[Path]:
    (folder / "speech" / "yes").mkdir(parents=True)
    formats.clip(folder / "speech" / "yes" / "aa_nohash_0.wav", 16_000)
    read_features(folder / "features" / "kept.npz")
    return sorted((folder / "features").iterdir())


def read_features(path: Path) -> Any:
    """The features of one clip: from what was kept, else computed, and then kept again."""
    return _features(path.parents[1] / "speech", ["yes/aa_nohash_0.wav"])


def read_population(path: Path) -> Any:
    """And the data that it must fit."""
    x, y = torch.zeros(30, 2), torch.from_numpy(formats.LABELS)
    population = Population.load(path)
    population.check_data(Dataset.from_tensors((x, y), (x[:6], y[:6])))
    return population


def weights(folder: Path) -> list[Path]:
    save_file({**_task().fresh.params, **_task().fresh.buffers}, folder / "model.safetensors")
    return [folder / "model.safetensors"]


@cache
def _task() -> Task:
    return build_task(Recipe(population="iid(clients=2)", model="mlp(hidden=[4])"))


def models(folder: Path) -> list[Path]:
    """What one needs to use the models of three runs: of images, of a table, of a table with tensors of each client's
    own and several models."""
    formats.tables(folder)
    table_of = f"table({str(folder / 'gaps.csv')!r}, label='y', client='site', missing='indicator')"
    small = Recipe(population="iid(clients=2)", model="mlp(hidden=[4])", rounds=1, batch_size=0)
    rows = small.replace(data=table_of, preprocess=["normalise()"])
    several = fedcd(fedper(rows.replace(population="iid(clients=2)", rounds=2)), milestones=[1])
    recipes = {"images": small, "rows": rows, "several": several}
    for name, recipe in recipes.items():
        run(recipe, out=folder / name)
    return [*(folder / name / "model.json" for name in recipes), folder / "several" / "personal.safetensors",
            folder / "rows" / "model.safetensors"]


def read_model(path: Path) -> Any:
    """As `askew.load` does behind the checksums."""
    model = Trained(RunFolder.open(path.parent), read_about(path.parent / "model.json"), None, torch.device("cpu"))
    for client in model.clients or ():
        model.module_for(client)
    if model.columns is not None:
        row = {f.name: f.categories[0] if f.categories else "1" for f in model.columns.features}
        model.predict([row], client=(model.clients or (None,))[0])
    return model


def schemas(folder: Path) -> list[Path]:
    """Of a table with gaps, and of texts."""
    formats.tables(folder)
    (folder / "notes.csv").write_text("note,y\n" + "no pain,u\npain,v\n" * 5)
    rows = table(str(folder / "gaps.csv"), label="y", client="site", missing="indicator")
    notes = table(str(folder / "notes.csv"), label="y", text="note", length=4)
    for name, data in (("gaps", rows), ("notes", notes)):
        assert data.columns is not None
        (folder / f"{name}.json").write_text(schema_text(data.columns))
    return [folder / "gaps.json", folder / "notes.json"]


def read_by_schema(path: Path) -> Any:
    """And the table that is encoded by it."""
    return table(str(path.with_suffix(".csv")), label="y", like=str(path))


def results(folder: Path) -> list[Path]:
    """The smallest file of the papers' results."""
    kept = (Path(__file__).parents[3] / "results" / "zhao2018").glob("*.json")
    (folder / "item.json").write_bytes(min(kept, key=lambda path: path.stat().st_size).read_bytes())
    return [folder / "item.json"]


def node_settings(folder: Path) -> list[Path]:
    (folder / "node.toml").write_text('client = "north"\ndata = "table(\'visits.csv\', label=\'ill\')"\npart = -1\n'
                                      'report-labels = true\nmemory = "memory"\ndata-dir = ""\n')
    return [folder / "node.toml"]


def memories(folder: Path) -> list[Path]:
    NodeMemory(folder, "0123456789abcdef").put((0, 4), MEMORY, keep=[])
    return list((folder / "0123456789abcdef").iterdir())


def rosters(folder: Path) -> list[Path]:
    """What a server knows of two clients; only where Flower is there, without which nothing reads it."""
    about = {"examples": 8, "validation": 0, "test": 2, "shape": [2], "dtype": "float32", "targets": "classes",
             "target_shape": [], "classes": ["ill", "well"], "inputs": ""}
    clients = [{"client": "north", "node": 2**63 + 5, "labels": [5, 3], **about},
               {"client": "south", "node": 7, "labels": [], **about}]
    (folder / "clients.json").write_text(json.dumps({"run": "0123456789abcdef", "classes": ["ill", "well"],
                                                     "clients": clients}))
    return [folder / "clients.json"]


def read_roster(path: Path) -> Any:
    from askew.flower.roster import Roster

    roster = Roster.read(path.parent)
    return roster.names, roster.counts


def journals(folder: Path) -> list[Path]:
    lines = ['["0123456789ab", 0, 5, 0.5, 0.25]', '["0123456789ab", 1, 5, null, null]', '["a", 2, 20, 0.125, 1.0]']
    (folder / JOURNAL).write_text("\n".join(lines) + "\n")
    return [folder / JOURNAL]


def contests(folder: Path) -> list[Path]:
    keep_plan(Plan(20), folder)
    return [folder / PLAN]


def advices(folder: Path) -> list[Path]:
    """As small as they come, with every part that the page looks at."""
    row = {"method": "fednnnn", "setting": "rate x 1", "gain": 8.5, "gain_std": 1.0, "low": 7.0, "high": 10.0,
           "seeds": 12, "chance_best": 0.9, "demands": ["state at the server"]}
    place = {"mean": 0.9, "std": 0.01, "seeds": 3}
    (folder / ADVICE).write_text(json.dumps({
        "data": "digits", "population": "iid(clients=2)", "rounds": 20, "seed": 0, "unit": "points",
        "skew": {"mean_emd": 1.8, "chance_emd": 0.2, "features": {"p": 0.5}}, "ranking": [row, {**row, "low": None}],
        "cost": {"headline": "accuracy", "here": place, "iid": place}, "recipe": "rounds = 20\n", "notes": ["a note"],
        "struck": [{"method": "fedper", "reason": "it cannot"}], "runs": 3, "seconds": 1.5,
        "decision": {"method": "fednnnn", "margin": 1.0, "text": "use fednnnn"}}))
    return [folder / ADVICE]


def read_advice_page(path: Path) -> Any:
    """And all that the page makes of it."""
    found = read_advice(path)
    return title(found), sections(found)


def batch_inside(content: bytes, draw: Any) -> bytes:
    pickled = content[:1] == b"\x80"
    return formats.in_pickle(content, draw) if pickled else formats.damaged(content, draw)


def read_parquet(path: Path) -> Any:
    return table(str(path), label="y", client="site", features=["a", "b", "flag"])


READERS = (
    Reader("npz", formats.archives, lambda path: npz(str(path)),
           ("core/arrays.py:read_arrays", "core/arrays.py:_read_array", "data/npz.py:npz"), formats.in_arrays),
    Reader("population", formats.populations, read_population, ("core/population.py:load",), formats.in_arrays),
    Reader("mnist", idx_files, read_idx, ("data/mnist.py:read_bytes", "data/mnist.py:read_idx"), formats.in_idx),
    Reader("cifar10", formats.cifar, read_batch, ("data/cifar10.py:_read_binary", "data/cifar10.py:_read_pickle"),
           batch_inside),
    Reader("clip", clips, read_clip, ("data/speech_commands.py:read_clip",)),
    Reader("list of clips", lists, lambda path: read_list(path.parent, path.name),
           ("data/speech_commands.py:read_list",)),
    Reader("features", features, read_features, ("data/speech_commands.py:_features",), formats.in_arrays,
           always_ok=True),
    Reader("images", formats.images, lambda path: image_folder(str(path.parents[1]), size=4),
           ("data/image_folder.py:_read_one",), formats.in_png),
    Reader("csv", formats.tables, lambda path: table(str(path), label="y", client="site", missing="indicator"),
           ("data/rows.py:_read_csv",)),
    Reader("parquet", formats.parquets, read_parquet, ("data/rows.py:_read_parquet",)),
    Reader("counts", formats.counts, read_counts, ("data/skew_table.py:_read_rows",)),
    Reader("weights", weights, lambda path: pretrained(str(path)).make(start_context(_task())),
           ("pieces/start/pretrained.py:make",)),
    Reader("model", models, read_model, ("runs/model_file.py:read_about",), formats.rearranged_json),
    Reader("schema", schemas, read_by_schema, ("data/schema.py:read_schema",), formats.rearranged_json),
    Reader("results", results, store.read, ("papers/store.py:read",)),
    Reader("node's settings", node_settings, NodeSettings.read, ("flower/settings.py:read",)),
    Reader("node's memory", memories, lambda path: NodeMemory(path.parents[1], path.parent.name).get((0, 4), MEMORY),
           ("flower/node_memory.py:get",), always_ok=True),
    *([Reader("clients", rosters, read_roster, ("flower/roster.py:read",), formats.rearranged_json)]
      if find_spec("flwr") else []),
    Reader("journal", journals, read_journal, ("advice/trials.py:read_journal",)),
    Reader("plan", contests, read_plan, ("advice/planning.py:read_plan",)),
    Reader("advice", advices, read_advice_page, ("report/page/advice.py:read_advice",), formats.rearranged_json),
    Reader("facts", formats.facts, recall, ("papers/machine_facts.py:recall",), always_ok=True),
)

# File, or file:function, that opens something and is not in the table -> why.
NOT_HERE = {
    "core/files.py": "opens for the others; each of them is here",
    "data/digits.py": "a file of the package",
    "flower/app_folder.py": "files of the package, and modules that were imported before",
    "flower/local_federation.py": "logs, which are shown, and what the system says of processes",
    **({} if find_spec("flwr") else {"flower/roster.py": "Flower is not installed"}),
    "data/fetch.py": "archives whose SHA-256 is in the source",
    "data/verify.py": "reads through the readers of the data sets",
    "cli/diagnose.py": "asks which of two readers it is for",
    "core/lasting.py": "checkpoints, as below; what a process wrote itself in memory, or others of its run sent",
    "report/page/collect.py": "run folders, many files at once: tests/report/test_damaged_runs.py",
    "report/page/write.py": "files of the package and of plotly's",
    "report/method_page.py": "the project's own pages",
    "papers/citations.py": "files of the package",
    "core/recipe.py": "recipes: tests/fuzz/test_expressions.py",
    "runs/": "run folders: tests/reliability/test_damage.py, tests/report/test_damaged_runs.py",
}

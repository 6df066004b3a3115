"""How fast this machine trains a network: from the runs that it finished, else from a short trial on random inputs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from askew.core.dataset import Dataset
from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.data.locate import cache_folder
from askew.engine.build import build_task
from askew.engine.choice import make_engine
from askew.engine.device import available
from askew.engine.protocol import Job, Lane
from askew.engine.start import initial_model
from askew.engine.task import cohort_size
from askew.engine.threads import threads_for, use_threads
from askew.papers.machine_facts import recall, remember
from askew.papers.plan import Need, images, num_clients
from askew.papers.store import Results
from askew.runs.environment import device_name

Rates = dict[str, float]  # kind of run -> training images per second
# Of the data sets that the papers use.
INPUTS: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
    "mnist": ((1, 28, 28), torch.uint8), "cifar10": ((3, 32, 32), torch.uint8), "digits": ((1, 8, 8), torch.uint8),
    "speech_commands": ((1, 50, 10), torch.float32)}
TRY_CLIENTS, TRY_STEPS, TRY_SECONDS = 10, 2, 0.5


def kind(recipe: Recipe) -> str:
    """What a rate is known for: a network on inputs."""
    return f"{recipe.model} on {recipe.data.name}"


def known_rates(results: Iterable[Results], papers: Sequence[str], device: str) -> Rates:
    """What is known of this device without training anything.

    Runs that trained together took an equal share of the time each. The fastest counts: what slowed the others down (a
    busy machine, first rounds) need not come again; probes take time of their own. Trials, which are too short to be
    exact, count where no run has been finished.
    """
    trained: Rates = {}
    for run in (run for files in results for paper in papers for seeds in files.of_paper(paper).values()
                for run in seeds.values()):
        if run.finished and run.seconds and run.environment.get("device") == device_name(device):
            try:
                recipe = Recipe.from_toml(run.recipe)
                if not recipe.probes:
                    trained[kind(recipe)] = max(trained.get(kind(recipe), 0.0),
                                                images(recipe) * run.together / run.seconds)
            except AskewError:  # of an older version, or of data whose size is not known
                continue
    return recall(memory_file()).get(_machine(device), {}) | trained


def estimated_seconds(needs: Iterable[Need], rates: Rates) -> float | None:
    """For what is left of some runs; None where the rate of one is not known."""
    left = [need for need in needs if not need.done]
    if any(kind(need.base) not in rates for need in left):
        return None
    return sum(need.images_left / rates[kind(need.base)] for need in left)


def try_out(recipe: Recipe, device: str, engine: str = "auto", precision: str = "fp32") -> float:
    """Time a few local steps of a few clients on random inputs, and remember the images per second.

    One configuration alone: on a GPU, several train together and are faster than that.
    """
    shape, dtype = INPUTS[recipe.data.name]
    clients = min(TRY_CLIENTS, cohort_size(recipe.fraction, num_clients(recipe)))
    examples = TRY_STEPS * (recipe.batch_size or 100)
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(clients * examples, *shape, generator=generator)
    x, y = (x * 255).to(dtype) if dtype == torch.uint8 else x, torch.arange(len(x)) % 10
    data = Dataset.from_tensors((x, y), (x[:10], y[:10]), name=recipe.data.name)
    trial = Recipe(data=recipe.data, preprocess=recipe.preprocess, model=recipe.model, client=recipe.client, epochs=1,
                   batch_size=recipe.batch_size, population=f"iid(clients={clients})", rounds=1)
    with torch.random.fork_rng(devices=[]):
        task = build_task(trial, data=data, device=device)
        trainer, start = make_engine(engine, task, precision), initial_model(task)
        threads = threads_for(task, trainer).training

        def once() -> None:
            with use_threads(threads):
                for _ in trainer.train([Lane(task, {0: start}, [Job(0, client) for client in range(clients)], 0)]):
                    pass
            if task.device.type == "cuda":
                torch.cuda.synchronize(task.device)

        once()  # warms up
        began, times = time.perf_counter(), 0
        while time.perf_counter() - began < TRY_SECONDS:
            once()
            times += 1
        rate = times * len(x) / (time.perf_counter() - began)
    known = recall(memory_file())
    known.setdefault(_machine(device), {})[kind(recipe)] = float(f"{rate:.4g}")
    remember(memory_file(), known)
    return rate


def memory_file() -> Path:
    """Where trials are remembered."""
    return cache_folder() / "rates.json"


def _machine(device: str) -> str:
    return f"{device_name(available(device))}, {torch.get_num_threads()} threads, torch {torch.__version__}"

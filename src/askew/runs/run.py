"""Run a recipe to its end: the calls behind `askew run`, `askew resume`, `askew.run` and `askew.resume`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import nn

from askew.core.arguments import checked
from askew.core.dataset import Dataset
from askew.core.errors import AskewError, DivergedError
from askew.core.population import Population
from askew.core.recipe import Recipe
from askew.engine.peers import Peers, in_step, joined
from askew.rounds.record import Record
from askew.runs.configuration import Configuration, Means
from askew.runs.driver import drive
from askew.runs.folders import check_free
from askew.runs.pace import Every
from askew.runs.progress import shown
from askew.runs.result import Result
from askew.runs.run_folder import RunFolder


@checked
def run(recipe: Recipe, *, data: Dataset | None = None, population: Population | None = None,
        model: nn.Module | None = None, engine: str = "auto", precision: str = "fp32", device: str = "cpu",
        data_dir: str | None = None, out: str | Path | None = None, overwrite: bool = False,
        checkpoint_every: str | int | None = None, on_round: Callable[[Record, Recipe], None] | None = None,
        progress: bool | None = None) -> Result:
    """Train a recipe. Ctrl-C, SIGTERM, SIGHUP stop it; with a folder, whatever stops it, `resume` goes on from there.

    Args:
        recipe: what to do.
        data, population, model: objects of your own in place of what the recipe names.
        engine: how rounds are computed: "auto", or one of `askew.engine.choice.ENGINES`, or "distributed" in each of
            several processes that `torchrun` has started (docs/scaling.md): the first of them writes `out`.
        precision: of the vectorised engine on a GPU: "fp32", "tf32" or "bf16".
        device: "cpu", "cuda", ...; with several processes "cuda" is another GPU for each.
        data_dir: where data sets lie.
        out: a folder for the run; nothing is written without one.
        overwrite: replace a run that the folder holds; only what askew wrote goes.
        checkpoint_every: so many rounds (10), or a time ("30s"); else so that about 5% of the time is lost at worst, or
            a few seconds, and saving takes at most 5% of it.
        on_round: called with each round's record and the recipe, when the round is done; `records` of the result are
            the same objects. An exception of its own ends the run, which is kept as far as it came.
        progress: whether to say how far it is. None: in a notebook, as a live line; True: elsewhere, too, as lines on
            stderr; False: nowhere.

    Returns:
        the result; when it was stopped, what there is so far.

    Example:
        >>> result = askew.run(fedavg(askew.Recipe(rounds=2)))
        >>> len(result.records), result.accuracy == result.records[-1]["accuracy"]
        (2, True)
    """
    if out is not None and not str(out):
        raise AskewError("out: an empty name is no folder; name one, or leave it out")
    means = Means(engine, precision, device, data_dir, data, population, model,
                  checkpoint_every=Every.of(checkpoint_every))
    with in_step(engine) as peers:
        if out is not None and (peers is None or peers.leads):
            check_free(Path(out), overwrite)
        result = _one(Configuration(recipe, None if out is None else Path(out), overwrite=overwrite), means, on_round,
                      progress)
    if result.interrupted and result.simulation is None:
        raise KeyboardInterrupt  # before there was anything to keep
    return result


@checked
def resume(path: str | Path, *, data: Dataset | None = None, population: Population | None = None,
           model: nn.Module | None = None, engine: str = "auto", device: str = "cpu", data_dir: str | None = None,
           checkpoint_every: str | int | None = None,
           on_round: Callable[[Record, Recipe], None] | None = None, progress: bool | None = None) -> Result:
    """Go on with an interrupted run; the result is the one it would have had without the break.

    Objects that `run` was given in place of what the recipe names must be given here again.

    Args:
        path: the run folder.
        engine: "auto" takes the one that the run began with, for the same bits.
        checkpoint_every: as in `run`.
        on_round: called with each round's record; those that lie behind come first.
        progress: as in `run`.
    """
    every = Every.of(checkpoint_every)
    with in_step(engine) as peers:
        recipe, earlier_dir = _resumable(Path(path), peers)
        means = Means(engine, device=device, data_dir=data_dir or earlier_dir, data=data, population=population,
                      model=model, checkpoint_every=every)
        return _one(Configuration(recipe, Path(path), go_on=True, retry=True), means, on_round, progress)


def _resumable(path: Path, peers: Peers | None) -> tuple[Recipe, str | None]:
    """The recipe of an interrupted run, and where its data lie; of several processes the first alone has the folder."""
    about: tuple[str, str | None] = "", None
    if peers is None or peers.leads:
        folder = RunFolder.open(path)
        folder.check_checkpoint()
        if peers is None:
            return folder.recipe, folder.environment.get("data_dir")
        about = folder.recipe.to_toml(), folder.environment.get("data_dir")
    text, data_dir = peers.first(about)
    return Recipe.from_toml(text), data_dir


def _one(configuration: Configuration, means: Means, on_round: Callable[[Record, Recipe], None] | None,
         progress: bool | None) -> Result:
    recipe = configuration.recipe
    peers = joined(means.engine)
    progress = progress if peers is None or peers.leads else False
    with shown(recipe.rounds, f"{recipe.name} on {recipe.data.name}", progress, on_round) as tell:
        [result] = drive([configuration], means, stop_at_failure=True,
                         on_round=None if tell is None else lambda _, record, recipe: tell(record, recipe))
    if result.diverged is not None:
        raise DivergedError(result.diverged)
    return result

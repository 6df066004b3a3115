"""Many configurations at once: learning rates, momenta, thresholds, seeds, populations as one more batch axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from torch import nn

from askew.core.arguments import checked
from askew.core.dataset import Dataset
from askew.core.errors import AskewError
from askew.core.recipe import Recipe
from askew.engine.choice import check_engine
from askew.rounds.record import Record
from askew.runs.cluster import Cluster
from askew.runs.configuration import Configuration, Means, OnEnd, OnRound
from askew.runs.driver import drive
from askew.runs.folders import check_apart
from askew.runs.pace import Every
from askew.runs.progress import shown
from askew.runs.result import Result


@checked
def grid(base: Recipe, axes: Mapping[str, Sequence[Any]]) -> list[Recipe]:
    """All combinations of settings, the last axis fastest.

    Args:
        axes: address of a setting (`sgd.lr`, `seed`, `momentum.beta`) -> its values.

    Example:
        >>> len(grid(Recipe(), {"sgd.lr": [0.01, 0.1], "seed": [0, 1, 2]}))
        6
    """
    return [with_settings(base, dict(zip(axes, values, strict=True))) for values in product(*axes.values())]


@checked
def with_settings(base: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """A variant with several settings changed, by their addresses."""
    for address, value in settings.items():
        base = base.with_setting(address, value)
    return base


@checked
def sweep(recipes: Sequence[Recipe], *, data: Dataset | None = None, model: nn.Module | None = None,
          engine: str = "auto", precision: str = "fp32", device: str = "cpu", data_dir: str | None = None,
          folders: Sequence[Path] | None = None, retry_failed: bool = False, checkpoint_every: str | int | None = None,
          limit_s: float | None = None, on_round: OnRound | None = None, on_end: OnEnd | None = None,
          progress: bool | None = None, cluster: Cluster | None = None) -> list[Result]:
    """Train recipes, those of equal shape together.

    Args:
        recipes: the configurations.
        data, model: objects of your own in place of what the recipes name.
        engine: "auto" and "vectorised" train groups together, any other engine one configuration after the other.
        folders: a run folder for each recipe; nothing is written without them. One that an earlier sweep left behind is
            resumed from its checkpoint; what finished, diverged or failed is not trained again.
        retry_failed: continue what failed, too.
        checkpoint_every: as in `askew.run`.
        limit_s: stop, as Ctrl-C would, at the end of the round in which so many seconds are over.
        on_round: called with (number of the recipe, record, recipe); rounds that an earlier sweep did come first.
        on_end: called with (number of the recipe, result) when a configuration is finished,
            diverged, failed or interrupted.
        progress: as in `askew.run`.
        cluster: a Ray cluster whose machines train them; results hold no simulations then.

    Returns:
        one result per recipe, in their order; a configuration that diverges or fails does not stop the others. On
        Ctrl-C, what there is so far: the results of what was not finished are `interrupted`.
    """
    check_engine(engine, precision, several=True)
    if folders is not None and len(folders) != len(recipes):
        raise AskewError(f"sweep: {len(folders)} folders for {len(recipes)} recipes; give one for each")
    check_apart(folders or ())
    configurations = [Configuration(recipe, None if folders is None else folders[i], go_on=True, retry=retry_failed)
                      for i, recipe in enumerate(recipes)]
    # With folders all is on disk: hundreds of simulations need not stay in memory.
    means = Means(engine, precision, device, data_dir, data, model=model, checkpoint_every=Every.of(checkpoint_every))
    with shown(sum(recipe.rounds for recipe in recipes), f"{len(recipes)} configurations", progress, None) as tell:

        def both(i: int, record: Record, recipe: Recipe) -> None:
            if tell is not None:
                tell(record, recipe)
            if on_round is not None:
                on_round(i, record, recipe)

        return drive(configurations, means, keep=folders is None, limit_s=limit_s, on_round=both, on_end=on_end,
                     cluster=cluster)

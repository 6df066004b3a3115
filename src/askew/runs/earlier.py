"""What an earlier session left in a configuration's folder."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from pathlib import Path

from askew.core.errors import AskewError
from askew.runs.configuration import Configuration
from askew.runs.folders import RECIPE, check_free
from askew.runs.result import Result
from askew.runs.run_folder import RunFolder


class OtherRecipeError(AskewError):
    """A folder holds a run of another recipe: the caller means another folder, or other settings."""


def look(configuration: Configuration, path: Path, replaced: Collection[str]) -> Result | RunFolder | None:
    """A result, where the run is over; a folder with a checkpoint to go on from; None where there is neither.

    Args:
        replaced: what the caller gives as objects, in place of what the recipe names.
    """
    recipe = configuration.recipe
    check_free(path, overwrite=True)
    if not (path / RECIPE).exists():
        return None
    folder = RunFolder.open(path)
    if folder.recipe != recipe.replace(name=folder.recipe.name):
        raise OtherRecipeError(f"{str(path)!r} holds a run of another recipe; continue with the settings it began "
                               "with, or name another folder")
    ended = folder.is_finished or folder.divergence is not None
    if ended or (folder.failure is not None and not configuration.retry):
        try:
            folder.check_whole()
            result = Result(recipe, folder.records(), folder.load_weights("model"), folder.seconds, folder=path,
                            diverged=folder.divergence, together=folder.together, failed=folder.failure,
                            judged_on=folder.judged_on, stopped_early=folder.stopped_early)
        except AskewError as error:
            now = "it goes on from its checkpoint" if folder.has_checkpoint else "it is trained again"
            warnings.warn(f"{error}: {now}", stacklevel=2)
        else:
            folder.tidy()
            return result
    if not folder.has_checkpoint:
        return None
    for name in folder.environment.get("replaced", {}):
        if name not in replaced:
            raise AskewError(f"{str(path)!r} was given a {name} of its own; go on in Python with "
                             f"askew.resume(..., {name}=...)")
    return folder

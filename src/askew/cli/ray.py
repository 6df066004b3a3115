"""`--ray [ADDRESS]`: many runs over the machines of a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from askew.runs.cluster import LOCAL, Cluster

Ray = Annotated[str | None, typer.Option(
    "--ray", metavar="[ADDRESS]",
    help="Train over a Ray cluster: HOST:PORT, auto (the one that runs here), or nothing for one of its own.")]


class WithRay(TyperCommand):
    """A command whose `--ray` may stand alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_address(args))


def with_address(args: Sequence[str]) -> list[str]:
    """`--ray` with an address behind it, also where it stands last or before another option.

    Example:
        >>> with_address(["--ray", "--json"]), with_address(["--ray", "h:6379"]), with_address(["--ray"])
        (['--ray', 'local', '--json'], ['--ray', 'h:6379'], ['--ray', 'local'])
    """
    whole: list[str] = []
    for at, arg in enumerate(args):
        following = args[at + 1] if at + 1 < len(args) else "-"
        whole += [arg, LOCAL] if arg == "--ray" and following.startswith("-") else [arg]
    return whole


def cluster_of(address: str | None, imports: Sequence[str] | None) -> AbstractContextManager[Cluster | None]:
    """The cluster that was asked for, or none."""
    return nullcontext() if address is None else Cluster(address, imports or ())

"""What a client's and a server's piece have in common: checked fields, how it was made, its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askew.core.arguments import check_fields

if TYPE_CHECKING:
    from askew.core.registry import Spec


class Piece:
    """A frozen dataclass that holds maths alone."""

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def spec(self) -> Spec | None:
        """How it was made, where a registered function made it."""
        return self.__dict__.get("_spec")

    @property
    def name(self) -> str:
        return self.spec.name if self.spec else type(self).__name__

    def __repr__(self) -> str:
        return str(self.spec) if self.spec else f"{type(self).__name__}(...)"

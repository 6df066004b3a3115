"""What a paper's table or figure is made of: rows, each with the recipes that measure it, and claims about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from askew.core.recipe import Recipe


@dataclass(frozen=True)
class Row:
    """One number of a table, one curve or one point of a figure.

    Its value is a measure of a run, averaged over seeds. Where a paper tunes and shows the best, there are several
    recipes, and the best average counts. With `less_than`, the value is how much lower the measure is than that of
    those recipes (zhao2018's accuracy reductions).

    Args:
        name: as in the file of the paper's numbers.
        recipes: at the paper's scale, seed 0.
        measure: the name of a function of `askew.papers.measures`.
        less_than: what the value is a reduction from.
        series: the line of a figure that the row is a point of.
        x: where on the line it lies.
    """

    name: str
    recipes: tuple[Recipe, ...]
    measure: str = "final_accuracy"
    less_than: tuple[Recipe, ...] = ()
    series: str = ""
    x: float | None = None

    def changed(self, change: Callable[[Recipe], Recipe]) -> Row:
        """The same row, of changed recipes."""
        return replace(self, recipes=tuple(map(change, self.recipes)), less_than=tuple(map(change, self.less_than)))


@dataclass(frozen=True)
class Plot:
    """How an item is drawn.

    Args:
        kind: "curves" (a key of the records over rounds, one line per row), "points" (values over `Row.x`, one line per
            series), or the name of a drawing of its own in `askew.report.paper_figures`.
        y: keys of the records that "curves" shows, one panel each.
        beside: (x, y) of a line that "points" draws against a second axis: what is known without training.
    """

    kind: str
    x_label: str = "round"
    y_label: str = "test accuracy"
    y: tuple[str, ...] = ("accuracy",)
    log_x: bool = False
    beside: tuple[tuple[float, float], ...] = ()
    beside_label: str = ""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper about an item, as inequalities between our values.

    Args:
        says: the statement, in one sentence.
        where: its place in the paper.
        margins: values of the rows -> by how much each inequality is met, negative where it is missed; "a is above b"
            is `v["a"] - v["b"]`. It may ask for rows that are not measured. A margin tells a narrow decision from a
            clear one, which a truth value does not.
        lost_counts: what a row counts of which a run diverged or ended at chance, where the claim is about which
            settings work; None: such a row is no evidence.
    """

    says: str
    where: str
    margins: Callable[[Mapping[str, float]], float | Sequence[float]]
    lost_counts: float | None = None

    def met_by(self, values: Mapping[str, float]) -> tuple[float, ...]:
        """The margins as a tuple.

        Raises:
            KeyError: with the name of a row that has no value.
        """
        margins = self.margins(values)
        listed = tuple(margins) if isinstance(margins, Sequence) else (margins,)
        if not listed or any(isinstance(margin, bool) for margin in listed):
            raise TypeError(f"claim {self.says!r}: margins are differences, such as v['a'] - v['b'], not truth values; "
                            f"got {margins!r}")
        return listed

    def holds(self, values: Mapping[str, float]) -> bool | None:
        """Whether all inequalities are met, whatever the noise; None where a row is missing."""
        try:
            return all(margin > 0 for margin in self.met_by(values))
        except KeyError:
            return None


@dataclass(frozen=True)
class StandIn:
    """Another set-up, which answers a claim that the runs of an item's own do not.

    Args:
        name: of the item that has this set-up, a variant.
        change: a recipe of a row -> its version in this set-up; answers where the row diverged or ended at chance.
        item: the variant itself, whose claim in the same words answers where a row is not measured.
    """

    name: str
    change: Callable[[Recipe], Recipe] | None = None
    item: Callable[[], Item] | None = None


@dataclass(frozen=True)
class Item:
    """A table or a figure.

    Args:
        paper: short name, e.g. "zhao2018".
        name: e.g. "table3-mnist".
        title: what it shows.
        rows: what is measured.
        quick: a recipe of a row -> its reduced version, which fits CPU minutes and keeps the ordering visible.
        quick_rows: the rows that the quick version measures; all by default.
        plot: how it is drawn, if it is a figure.
        claims: what the paper says about it.
        notes: departures, and what was done where the paper is silent.
        seeds: repeats that the paper itself averages over.
        variant: whether the set-up is knowingly another than the paper's. The paper's numbers stand beside it for
            orientation; it counts neither for its numbers nor for its claims.
        stand_in: what decides a claim that this item's own runs cannot.
    """

    paper: str
    name: str
    title: str
    rows: tuple[Row, ...]
    quick: Callable[[Recipe], Recipe]
    quick_rows: tuple[str, ...] = ()
    plot: Plot | None = None
    claims: Sequence[Claim] = ()
    notes: str = ""
    seeds: int = field(default=1, kw_only=True)
    variant: bool = field(default=False, kw_only=True)
    stand_in: StandIn | None = field(default=None, kw_only=True)

    @property
    def address(self) -> str:
        return f"{self.paper}/{self.name}"


Builders = Mapping[str, Callable[[], Item]]  # name -> what builds the item; a paper's list of items, none of them built

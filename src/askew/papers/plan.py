"""What an item needs: which runs, which of them are done, how much there is to train."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from askew.core import registry
from askew.core.errors import AskewError, suggest
from askew.core.population_spec import PopulationSpec
from askew.core.recipe import Recipe
from askew.core.registry import Spec
from askew.engine.task import cohort_size
from askew.papers.item import Item
from askew.papers.store import Results, Run, Scale, family_of

# Of Speech Commands, by version and use of the official validation clips: clips of the ten words.
TRAINING_EXAMPLES: dict[str, int | dict[tuple[str, str], int]] = {
    "mnist": 60_000, "cifar10": 50_000, "digits": 1_437,
    "speech_commands": {("0.01", "drop"): 18_538, ("0.01", "train"): 21_115, ("0.02", "drop"): 30_769,
                        ("0.02", "train"): 34_472},
}
ARCHETYPE_SHARE = 8  # a device of FedCD's archetypes draws an eighth of the training pool where no number is given


@dataclass(frozen=True)
class Need:
    """A run that an item needs.

    Args:
        item: the first of the items that need it.
        base: what to run, but for the seed.
        fingerprint: of the recipe.
        run: what is stored of it, if anything.
    """

    item: Item
    base: Recipe
    seed: int
    fingerprint: str
    run: Run | None

    @cached_property
    def recipe(self) -> Recipe:
        """With its seed."""
        return self.base if self.base.seed == self.seed else self.base.replace(seed=self.seed)

    @property
    def done(self) -> bool:
        return self.run is not None and self.run.done

    @property
    def images_left(self) -> int:
        """Still to be trained on; of a run under way, those of the rounds to come."""
        if self.done:
            return 0
        done = self.run.rounds if self.run else 0
        return round(images(self.base) * (self.base.rounds - done) / self.base.rounds)


def at_scale(item: Item, scale: Scale) -> Item:
    """The item with the recipes (and, quick, only the rows) of a scale."""
    if scale == "full":
        return item

    rows = (row for row in item.rows if not item.quick_rows or row.name in item.quick_rows)
    return replace(item, rows=tuple(row.changed(item.quick) for row in rows))


def needs(items: Sequence[Item], results: Results, seeds: int | None = None) -> list[Need]:
    """The runs of some items, each once, and none that a longer one of them begins with.

    Args:
        items: as the papers have them; they are taken at the scale of `results`.
        seeds: 0 .. seeds - 1 for each; None: as many as the paper averages over, and one at the quick scale.
    """
    if seeds is not None and seeds < 1:
        raise AskewError(f"--seeds must be at least 1, got {seeds}")
    needed: dict[tuple[str, str, int], Need] = {}
    for item in items:
        for recipe in recipes_of(at_scale(item, results.scale)):
            mark = recipe.fingerprint
            for seed in range(seeds or (item.seeds if results.scale == "full" else 1)):
                if (item.paper, mark, seed) not in needed:
                    run = results.find(item.paper, recipe, seed)
                    needed[item.paper, mark, seed] = Need(item, recipe, seed, mark, run)
    return _longest(list(needed.values()))


def _longest(needed: Sequence[Need]) -> list[Need]:
    """Without runs that are still to be made and are the first rounds of another one of the same items."""
    lengths = {need.base.rounds for need in needed}
    if len(lengths) < 2:
        return list(needed)
    longest: dict[tuple[str, str, int], int] = {}
    family = {id(need): (need.item.paper, family_of(need.base), need.seed) for need in needed if not need.done}
    for need in (need for need in needed if not need.done):
        longest[family[id(need)]] = max(need.base.rounds, longest.get(family[id(need)], 0))
    return [need for need in needed if need.done or need.base.rounds == longest[family[id(need)]]
            or need.base.rounds % need.base.evaluate_every]


def recipes_of(item: Item) -> list[Recipe]:
    """All recipes of an item's rows."""
    return [recipe for row in item.rows for recipe in (*row.recipes, *row.less_than)]


def images(recipe: Recipe) -> int:
    """Training examples that a run passes through the network, from the recipe alone.

    Rounds x clients that train x examples of a client x local epochs, and what is trained besides: at the server, and
    by the centralised twin of `weight_divergence`. For FedCD this is the least: every model that a device keeps beyond
    one is trained besides. A warm-up that stops at an accuracy is not counted.
    """
    everyone = training_examples(recipe.data)
    population: PopulationSpec = recipe.population
    held = round(population.argument("hold_out", "fraction", 0.0) * everyone)
    at_server = min(held, population.argument("hold_out", "use") or held)
    clients = num_clients(recipe)
    cohort = cohort_size(recipe.fraction, clients)
    shared = population.argument("share", "fraction", 0.0) * at_server
    local = cohort * recipe.epochs * (_own_examples(recipe, everyone - held, clients) + shared)
    twin = local if any(spec.name == "weight_divergence" for spec in recipe.probes) else 0
    server = sum(spec.args.get("epochs", 1) * at_server for spec in recipe.server if spec.name == "train_on_server")
    before = 0
    if recipe.start.name == "warm_up" and recipe.start.args.get("until", 0.6) == 1:
        passed = everyone if recipe.start.args.get("on") == "everyone" else at_server
        before = recipe.start.args.get("epochs", 100) * passed
    return round(before + recipe.rounds * (local + twin + server))


def training_examples(data: Spec) -> int:
    """The size of a data set that the papers use, without loading it."""
    if data.name not in TRAINING_EXAMPLES:
        raise AskewError(f"how many training examples {data.name!r} has is not known without loading it; "
                         f"{suggest(data.name, TRAINING_EXAMPLES)}")
    sizes = TRAINING_EXAMPLES[data.name]
    if isinstance(sizes, int):
        return sizes
    return sizes[data.args.get("version", "0.01"), data.args.get("validation", "drop")]


def num_clients(recipe: Recipe) -> int:
    """As many as the population's scheme is told, or makes by itself."""
    if recipe.population.name == "pooled":
        return 1
    default = inspect.signature(registry.find("partition", recipe.population.name)).parameters["clients"].default
    number = recipe.population.args.get("clients", default)
    if not isinstance(number, int):
        raise AskewError(f"how many clients {str(recipe.population)!r} makes is not known without loading the data; "
                         "give clients=")
    return number


def _own_examples(recipe: Recipe, divided: int, clients: int) -> float:
    """Of a client, on average."""
    args = recipe.population.args
    if recipe.population.name in ("hierarchical", "hypergeometric"):  # devices may overlap, and bring validation data
        return args.get("examples") or (1 - args.get("validation", 0.2)) * divided / ARCHETYPE_SHARE
    examples = args.get("examples_per_client") or divided / clients
    return (examples * (1 - recipe.population.argument("validation", "fraction", 0.0))
            * recipe.population.argument("subset", "fraction", 1.0))

"""The experiments of fedcd2020: many global models, cloned, scored and deleted, against FedAvg on CIFAR-10.

The paper gives devices, images, milestones and rounds; its authors' notebook (jessijzhao/FedCD) the rest: network, SGD
with lr 0.1, momentum 0.9, weight decay 5e-4, B 128, E 3, a tenth of the rate from rounds 25, 50 and 75 on, crops and
flips, 8 bits, for FedAvg too. Models are quantised as in the notebook: rounded at random, weights of layers only, on
devices only; rows "rounded to nearest" have all tensors rounded to nearest, and the server's models in each round,
which is neither the notebook's way nor printed (section 2 compresses at the server at milestones). Of the notebook's
habits that the paper does not mention two are left out: an optimiser's momentum that a device keeps from round to round
(the items "-kept" have it), and clones whose rate starts again at 0.1.

References:
    Kopparapu, Lin and Zhao 2020, "FedCD: Improving Performance in non-IID Federated Learning", section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from askew.core.recipe import Recipe
from askew.papers.archetype_measures import CAP
from askew.papers.item import Builders, Claim, Item, Plot, Row
from askew.papers.measure import SETTLED
from askew.pieces.methods import fedavg, fedcd, kept_momentum, quantised

PAPER = "fedcd2020"
BASE = Recipe(
    data="cifar10()",
    preprocess=["random_crop(padding=4)", "random_flip()",
                # The notebook's order and numbers.
                "normalise(mean=[0.4914, 0.4822, 0.4465], std=[0.2023, 0.1994, 0.201])"],
    population="hierarchical(clients=30)", model="fedcd_cnn()",
    client=["sgd(lr=drops(0.1, at=[25, 50, 75]), momentum=0.9, weight_decay=0.0005)"],
    epochs=3, batch_size=128, fraction=0.5, rounds=50)
HYPERGEOMETRIC = BASE.replace(population="hypergeometric(clients=30)", rounds=80)
BIASES = {"bias 0.3": (0.3, 0.3), "bias 0.6 to 0.7": (0.6, 0.7), "bias 0.9": (0.9, 0.9)}
NO_EFFECT = 2.0  # points of accuracy that we call "no significant effect"; the paper gives no number
NO_SPREAD = 0.05  # of scores that sum to 1: what we call "approaches 0"
NEAREST = ", rounded to nearest"  # rows of the other quantiser, beside those of the notebook's
KEPT_TITLE = ", momentum kept by devices"
KEPT_NOTE = " Devices keep their momentum between rounds, as in the authors' notebook; the paper does not mention it."
SETTLED_BY = 45  # rounds: the later of the two numbers that the paper gives for FedCD in the hierarchical experiment


def items() -> Builders:
    """Figures 1 to 9 and table 1; figure 6 and table 1 once more with momentum that devices keep."""
    return {"figure1": _hierarchical, "figure2": _hierarchical_changes, "figure3": _populations,
            "figure4": _hypergeometric, "figure5": _hypergeometric_changes, "figure6": _quantisation,
            "figure7": _preferences, "figure8": _active_models, "figure9": _score_spread,
            "table1": partial(_settling, "table1", "", HYPERGEOMETRIC, BASE), "figure6-kept": _quantisation_kept,
            "table1-kept": partial(_settling, "table1-kept", KEPT_TITLE, kept_momentum(HYPERGEOMETRIC),
                                   kept_momentum(BASE), KEPT_NOTE, variant=True)}


def _hierarchical() -> Item:
    return _archetypes("figure1", "Accuracy of each archetype, hierarchical archetypes", BASE, 10, (
        Claim("FedCD is more accurate than FedAvg on every archetype", "section 3.2, figure 1b",
              lambda v: [v[f"FedCD, archetype {k}"] - v[f"FedAvg, archetype {k}"] for k in range(10)]),
        Claim("Meta-archetype 0 (archetypes 0 to 4) ends below meta-archetype 1 under FedCD", "section 3.2, figure 1a",
              lambda v: _mean(v, "FedCD", range(5, 10)) - _mean(v, "FedCD", range(5)))))


def _hierarchical_changes() -> Item:
    return _changes("figure2", "Change of accuracy from round to round, hierarchical archetypes",
                    BASE.replace(rounds=150), (
        Claim("FedAvg keeps oscillating over 150 rounds, more than FedCD does", "section 3.2, figure 2",
              lambda v: v["FedAvg"] - v["FedCD"]),))


def _populations() -> Item:
    return _item("figure3", "The two populations", [Row(str(base.population), ()) for base in (BASE, HYPERGEOMETRIC)],
                 Plot("populations", "share of the device's images", "device"), (),
                 "Nothing is trained. The paper shows the hypergeometric population only.")


def _hypergeometric() -> Item:
    return _archetypes("figure4", "Accuracy of each archetype, hypergeometric archetypes", HYPERGEOMETRIC, 6, (
        Claim("FedCD is more accurate than FedAvg", "abstract, figure 4b", lambda v: v["FedCD"] - v["FedAvg"]),
        Claim("Under FedCD skewed archetypes (0, 5) are more accurate than central ones (2, 3)",
              "section 3.3, figure 4a", lambda v: _mean(v, "FedCD", (0, 5)) - _mean(v, "FedCD", (2, 3))),
        Claim("Under FedAvg central archetypes (2, 3) are more accurate than skewed ones (0, 5)",
              "section 3.3, figure 4b", lambda v: _mean(v, "FedAvg", (2, 3)) - _mean(v, "FedAvg", (0, 5)))))


def _hypergeometric_changes() -> Item:
    return _changes("figure5", "Change of accuracy from round to round, hypergeometric archetypes", HYPERGEOMETRIC, (
        Claim("FedAvg keeps oscillating over 80 rounds, more than FedCD does", "section 3.3, figure 5",
              lambda v: v["FedAvg"] - v["FedCD"]),), _to_nearest(HYPERGEOMETRIC))


def quick(recipe: Recipe) -> Recipe:
    """The same devices with 300 images each, a small network and 10 rounds, in which the milestones come sooner."""
    sgd, *behind = recipe.client
    keeps = ", keep_momentum=True" if sgd.args.get("keep_momentum") else ""
    small = recipe.replace(population=recipe.population.with_args(examples=300), preprocess=recipe.preprocess[-1:],
                           model="small_cnn()", client=(f"sgd(lr=0.03, momentum=0.9{keeps})", *behind), epochs=2,
                           batch_size=32, rounds=10, evaluate_every=2)
    return (small.with_setting("clone_and_delete.milestones", [2, 5, 7]) if recipe.pool.name == "clone_and_delete"
            else small)


def _fedavg(base: Recipe) -> Recipe:
    """Quantised as FedCD is: the notebook runs both through the same code."""
    return quantised(fedavg(base))


def _to_nearest(base: Recipe) -> dict[str, Recipe]:
    return {f"FedCD{NEAREST}": fedcd(base, rounding="nearest"),
            f"FedAvg{NEAREST}": quantised(fedavg(base), rounding="nearest")}


def _item(name: str, title: str, rows: Sequence[Row], plot: Plot | None, claims: Sequence[Claim], notes: str,
          quick_rows: tuple[str, ...] = (), variant: bool = False) -> Item:
    return Item(PAPER, name, title, tuple(rows), quick, quick_rows, plot=plot, claims=tuple(claims), notes=notes,
                seeds=3, variant=variant)


def _archetypes(name: str, title: str, base: Recipe, number: int, claims: Sequence[Claim]) -> Item:
    methods = {"FedCD": fedcd(base), "FedAvg": _fedavg(base)}
    rows = [Row(method, (recipe,), "mean_last_10") for method, recipe in methods.items()]
    rows += [Row(f"{method}, archetype {k}", (recipe,), f"archetype {k}", series=method, x=float(k))
             for method, recipe in methods.items() for k in range(number)]
    variants = [Row(method, (recipe,), "mean_last_10") for method, recipe in _to_nearest(base).items()]
    return _item(name, title, [*rows, *variants],
                 Plot("archetypes", y_label="test accuracy on own data", y=("group_accuracy",)), claims,
                 "Values are means over the last ten rounds. The paper prints no accuracies. Its notebook's saved "
                 "output (hierarchical, first milestone 2 instead of 5) shows 85.1% as the mean over devices after 15 "
                 "rounds. Rounded to nearest: a variant, see figure 6.", tuple(row.name for row in rows))


def _changes(name: str, title: str, base: Recipe, claims: Sequence[Claim],
             variants: Mapping[str, Recipe] | None = None) -> Item:
    rows = {"FedCD": fedcd(base), "FedAvg": _fedavg(base)}
    return _item(name, title,
                 [Row(method, (recipe,), "change_last_10") for method, recipe in {**rows, **(variants or {})}.items()],
                 Plot("changes", y_label="mean change of accuracy"), claims,
                 "Mean over archetypes, not over single devices, of the absolute change; values are means over "
                 "the last ten rounds. With the notebook's drops the rate is 1e-4 from round 75 on, which "
                 "quietens any method.", tuple(rows))


def _quantisation() -> Item:
    nearest = {f"{bits} bits{NEAREST}": fedcd(BASE, bits=bits, rounding="nearest") for bits in (8, 4)}
    return _bits("figure6", "", BASE, nearest,
                 " Rounded to nearest, a variant: all tensors, and in each round the server's models too.")


def _quantisation_kept() -> Item:
    return _bits("figure6-kept", KEPT_TITLE, kept_momentum(BASE), {}, KEPT_NOTE, variant=True)


def _bits(name: str, title: str, base: Recipe, others: Mapping[str, Recipe], notes: str, variant: bool = False) -> Item:
    recipes = {"32 bits": fedcd(base, bits=32, rounding="nearest")}  # never rounded: either way the same run
    recipes |= {f"{bits} bits": fedcd(base, bits=bits) for bits in (8, 4)}
    recipes |= others
    rows = [Row(name, (recipe,), "mean_last_10") for name, recipe in recipes.items()]
    return _item(name, f"FedCD with 32, 8 and 4 bits per weight, hierarchical archetypes{title}", rows,
                 Plot("curves", y_label="test accuracy on own data"),
                 (Claim("8 bits have no significant effect on accuracy", "section 3.4, figure 6",
                        lambda v: NO_EFFECT - abs(v["8 bits"] - v["32 bits"])),
                  Claim("4 bits have no significant effect on accuracy", "section 3.4, figure 6",
                        lambda v: NO_EFFECT - abs(v["4 bits"] - v["32 bits"]))),
                 f"Which levels the figure shows is not in its text. No effect: within {NO_EFFECT:g} points; the paper "
                 "gives no number. It does not print how it rounds either; as its authors' notebook does: at random, "
                 f"weights of layers only, on devices only.{notes}", variant=variant)


def _preferences() -> Item:
    recipe = fedcd(BASE)
    rows = [Row("models that some archetype prefers", (recipe,), "models_preferred"),
            Row("models preferred in both meta-archetypes after round 5", (recipe,), "models_in_both_halves")]
    return _item("figure7", "The model that each archetype prefers", rows,
                 Plot("preferences", y_label="archetype", y=("group_choice",)),
                 (Claim("After the first cloning, at round 5, the meta-archetypes part: no model is preferred in both",
                        "section 3.5, figure 7",
                        lambda v: 0.5 - v["models preferred in both meta-archetypes after round 5"]),),
                 "The model that most of an archetype's three devices score highest.")


def _active_models() -> Item:
    recipes = {name: fedcd(BASE.replace(population=f"hierarchical(clients=30, low={low}, high={high})"
                                        if name != "bias 0.6 to 0.7" else BASE.population))
               for name, (low, high) in BIASES.items()}
    main = recipes["bias 0.6 to 0.7"]
    rows = [Row(name, (recipe,), "mean kept_models") for name, recipe in recipes.items()]
    rows += [Row("at the peak", (main,), "highest kept_models"), Row("at the end", (main,), "last kept_models"),
             Row("most on one device at the end", (main,), "last most_kept_by_a_device"),
             Row("different models at the end", (main,), "last active_models")]
    return _item("figure8", "Models that devices keep, by the bias of the devices", rows,
                 Plot("curves", y_label="models", y=("kept_models", "active_models")),
                 (Claim("The number of models rises with cloning and falls again as devices delete",
                        "section 3.6, figure 8", lambda v: v["at the peak"] - v["at the end"]),
                  Claim("In the end each device trains at most two models", "section 3.6",
                        lambda v: 2.5 - v["most on one device at the end"]),
                  Claim("The smaller the bias, the longer devices keep several models", "section 3.6, figure 8",
                        lambda v: (v["bias 0.3"] - v["bias 0.6 to 0.7"], v["bias 0.6 to 0.7"] - v["bias 0.9"]))),
                 "Rows by bias are means over the rounds of the models kept, summed over the 30 devices. Which levels "
                 "of bias the paper took is not in its text: 0.3 and 0.9 are ours. At 0.9 a device has 4,443 images, "
                 "since a label's 4,000 run out.")


def _score_spread() -> Item:
    rows = [Row(name, row.recipes, "last score_std") for name, row in zip(BIASES, _active_models().rows, strict=False)]
    return _item("figure9", "Standard deviation of a device's scores, by the bias of the devices", rows,
                 Plot("curves", y_label="mean standard deviation of scores", y=("score_std",)),
                 (Claim("The spread of scores approaches 0 for all levels of bias", "section 3.6, figure 9",
                        lambda v: [NO_SPREAD - v[name] for name in BIASES]),),
                 f"Approaches 0: at most {NO_SPREAD:g} in the last round, scores of a device summing to 1.")


def _settling(item: str, title: str, hypergeometric: Recipe, hierarchical: Recipe, notes: str = "",
              variant: bool = False) -> Item:
    rows: list[Row] = []
    setups = {"hypergeometric": hypergeometric, "hierarchical": hierarchical.replace(rounds=150)}
    for name, base in setups.items():
        recipe = fedcd(base)
        rows += [Row(f"{name}, FedCD rounds", (recipe,), "rounds_until_archetypes_settle"),
                 Row(f"{name}, FedAvg rounds", (long := (_fedavg(base.replace(rounds=CAP)),)),
                     "rounds_until_archetypes_settle"),
                 Row(f"{name}, FedAvg at its end", long, "distance_last_10"),
                 Row(f"{name}, FedAvg:FedCD time", (recipe,), "saving")]
    return _item(item, f"Rounds and time until convergence{title}", rows, None, (
        Claim("FedCD converges in fewer rounds than FedAvg", "table 1",
              lambda v: [v[f"{name}, FedAvg rounds"] - v[f"{name}, FedCD rounds"] for name in setups]),
        Claim("FedCD takes less time to converge than 300 rounds of FedAvg", "table 1",
              lambda v: [v[f"{name}, FedAvg:FedCD time"] - 1 for name in setups]),
        Claim(f"FedCD converges by round {SETTLED_BY} in the hierarchical experiment",
              "section 3.2 (round 35), table 1 (45)", lambda v: SETTLED_BY + 0.5 - v["hierarchical, FedCD rounds"]),
        Claim("FedAvg has not converged after 300 rounds", "table 1",
              lambda v: [v[f"{name}, FedAvg at its end"] - 100 * SETTLED for name in setups])),
                 "The paper does not say when it calls a run converged; here: when archetypes stay, on average, within "
                 "two points of where they end; at its end a run has not, if they are on average further from their "
                 "means over the last ten rounds. Its text gives 35 and 45 rounds for FedCD where the table has 45 and "
                 "50. Time is what devices train (models times rounds) against 300 rounds of one model, so that it "
                 f"does not depend on the machine.{notes}", variant=variant)


def _mean(values: Mapping[str, float], method: str, archetypes: Sequence[int]) -> float:
    return sum(values[f"{method}, archetype {k}"] for k in archetypes) / len(archetypes)

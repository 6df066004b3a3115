"""Figures of hsu2019: FedAvg and FedAvgM on CIFAR-10 over a range of Dirichlet populations.

References:
    hsu2019: Hsu, Qi and Brown 2019, Measuring the effects of non-identical data distribution for federated visual
    classification, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial

from askew.core.recipe import Recipe
from askew.core.registry import Spec
from askew.papers.item import Builders, Claim, Item, Plot, Row, StandIn
from askew.pieces.methods import fedavgm

# The paper says "8 values"; these are the ones that its figures show. 0 is the limit: one class per client.
ALPHAS = (100.0, 10.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.0)
FRACTIONS = (0.05, 0.1, 0.2, 0.4)  # C: 5, 10, 20, 40 of 100 clients
EPOCHS = (1, 5)
RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
BETAS = (0.0, 0.7, 0.9, 0.97, 0.99, 0.997)
# The panel that the text quotes is measured first, on a part of the grid, which was chosen at its two ends: at
# alpha = 100 FedAvg diverges at a rate of 0.1, at alpha = 0 it is 8 points worse at 0.003 than at 0.01. FedAvgM's best
# pairs (beta, rate) at alpha = 0 have a beta of 0.99; all four whose effective rate is 0.1 or 0.3 collapsed
# (results/hsu2019/abstract.json), so that only alike clients try one of them.
QUOTED = (0.05, 1)
RATES_TRIED = {100.0: (0.01, 0.03, 0.1), 0.0: (0.003, 0.01, 0.03)}
RATES_BETWEEN = (0.01, 0.03)
PAIRS_MOST_SKEWED = ((0.9, 0.001), (0.9, 0.003), (0.99, 0.0001), (0.99, 0.0003))
PAIRS_ALIKE, PAIRS_SKEWED = ((0.9, 0.01), (0.99, 0.0003)), ((0.99, 0.0001), (0.99, 0.0003))
# Figure 6 in that panel. Low betas: the rates on both sides of the best one. High ones: figure 5's, and one between.
PAIRS_AT_1 = ((0.0, 0.01), (0.0, 0.03), (0.0, 0.1), (0.7, 0.003), (0.7, 0.01), (0.7, 0.03), (0.9, 0.01), (0.97, 0.001),
              (0.99, 0.0003))
SKEWED = 0.2  # alpha
# Item `short`: a fifth of the rounds, at figure 3's rate.
SHORT_ROUNDS, SHORT_ALPHAS, SHORT_MORE_EPOCHS = 2_000, (100.0, 1.0, 0.1, 0.0), (0.1, 0.0)
SHORT_EVERY = 20  # rounds: accuracies still rise, and ten evaluations 100 rounds apart would span half the run
FIXED_RATE = 0.01
LOST = 10.0  # %: what a rate counts at which training diverges or learns nothing, in a search for the best one
DRAWN_AT = 0.02  # where a logarithmic axis shows alpha = 0

NOTES = ("Clients are drawn anew with each seed, as in the paper (5 populations). Images are cropped to 24x24 and "
         "distorted as in the TensorFlow tutorial whose network the paper takes; the paper does not mention it. Weight "
         "decay applies to all weights. FedAvgM has torch's form of Nesterov momentum. FedAvg's accuracy swings from "
         "round to round on skewed clients, so the value is the mean of the last ten evaluations (every 100 rounds); "
         "the paper says \"end-of-training accuracy\".")
END = "mean_last_10"
OVER_ALPHA = Plot("points", "alpha (0 is drawn at 0.02)", log_x=True)


def items() -> Builders:
    """Figures 1 to 6, one item per panel where panels need runs of their own, and the abstract's two numbers."""
    panels = {f"c{fraction:g}-e{epochs}": (fraction, epochs) for epochs in EPOCHS for fraction in FRACTIONS}
    return {"figure1": _figure1, "figure2": _figure2, "figure3": _figure3, "short": _short,
            **{f"figure4-{name}": partial(_figure4, *panel) for name, panel in panels.items()
               if panel[0] in (0.4, 0.05)},
            **{f"figure5-{name}": partial(_figure5, *panel) for name, panel in panels.items()}, "abstract": _abstract,
            **{f"figure6-{name}": partial(_figure6, *panel) for name, panel in panels.items()}}


@cache
def recipe(alpha: float, fraction: float, epochs: int, lr: float, beta: float = 0.0) -> Recipe:
    """One run: 100 clients of 500 images, B = 64, weight decay 0.004, no decay of the rate, 10,000 rounds."""
    return _method(beta).replace(population=Spec("dirichlet", {"clients": 100, "alpha": alpha}), fraction=fraction,
                                 epochs=epochs, client=(Spec("sgd", {"lr": lr, "weight_decay": 0.004}),))


@cache
def _method(beta: float) -> Recipe:
    base = Recipe(data="cifar10()", preprocess=("tf_cifar()",), model="mcmahan_cifar_cnn()", batch_size=64,
                  rounds=10_000, evaluate_every=100)
    return fedavgm(base, beta) if beta else base  # beta 0 is FedAvg


def _fedavg(alpha: float, fraction: float, epochs: int, rates: Iterable[float] = RATES) -> tuple[Recipe, ...]:
    return tuple(recipe(alpha, fraction, epochs, lr) for lr in rates)


def _fedavgm(alpha: float, fraction: float, epochs: int) -> tuple[Recipe, ...]:
    # The paper's grid includes beta = 0; without it the two methods are told apart.
    part = PAIRS_MOST_SKEWED if alpha == 0 else PAIRS_SKEWED if alpha <= SKEWED else PAIRS_ALIKE
    pairs = part if (fraction, epochs) == QUOTED else [(beta, lr) for beta in BETAS[1:] for lr in RATES]
    return tuple(recipe(alpha, fraction, epochs, lr, beta) for beta, lr in pairs)


def quick(recipe: Recipe) -> Recipe:
    """For two CPU cores: a small network, 100 images per client, 300 rounds of 5 clients, FedAvgM at beta 0.9.

    A client's classes stay what they are, but for chance. Of E = 5, two epochs are left.
    """
    with_momentum = any(spec.name == "momentum" for spec in recipe.server)
    reduced = recipe.replace(model="small_cnn()", population=recipe.population + "subset(0.2)",
                             epochs=min(recipe.epochs, 2), rounds=300, evaluate_every=15)
    if recipe.population.name == "pooled":
        return reduced.replace(rounds=30, evaluate_every=2)
    reduced = reduced.replace(fraction=0.05)
    return reduced.with_setting("momentum.beta", 0.9) if with_momentum else reduced


def quick_tuned(recipe: Recipe) -> Recipe:
    """`quick` at one rate, so that a row's whole grid becomes one run.

    Of 0.03 and 0.1 (FedAvg), 0.01 and 0.03 (FedAvgM) these did best with the small network.
    """
    with_momentum = any(spec.name == "momentum" for spec in recipe.server)
    return quick(recipe).with_setting("sgd.lr", 0.01 if with_momentum else 0.1)


def _figure1() -> Item:
    names = ("shards(clients=10, shards_per_client=2, distinct=True)",
             *(f"dirichlet(clients=100, alpha={alpha:g})" for alpha in ALPHAS))
    return Item("hsu2019", "figure1", "Synthetic populations: sort and partition, and Dirichlet draws",
                tuple(Row(name, ()) for name in names), quick,
                plot=Plot("populations", "share of the client's images", "client"),
                notes="Nothing is trained: the rows are the populations that the figure draws, 30 random clients of "
                      "each. The paper draws four values of alpha; here are all eight.")


def _point(alpha: float) -> float:
    return alpha or DRAWN_AT


def _cell(epochs: int, fraction: float, alpha: float) -> str:
    return f"E={epochs}, C={fraction:g}, alpha={alpha:g}"


def _claims_of_figure2(alphas: Sequence[float], epochs: Sequence[int]) -> tuple[Claim, ...]:
    """What section 4.1 says of figure 2 and alpha and C.

    Args:
        alphas, epochs: of the rows that they ask for, at every C.
    """
    skewed = [alpha for alpha in alphas if alpha <= SKEWED]

    def gain(ours: Mapping[str, float], alpha: float, less: float, more: float) -> float:
        """Points that more clients in a round bring, mean over E."""
        return sum(ours[_cell(e, more, alpha)] - ours[_cell(e, less, alpha)] for e in epochs) / len(epochs)

    def drop(ours: Mapping[str, float], high: float, low: float) -> float:
        """Points lost between two values of alpha, mean over C and E."""
        cells = [(e, fraction) for e in epochs for fraction in FRACTIONS]
        return sum(ours[_cell(*each, high)] - ours[_cell(*each, low)] for each in cells) / len(cells)

    where = "section 4.1, figure 2"
    return (
        Claim("The accuracy changes most at low alpha: more is lost from 1 to 0 than from 100 to 1", where,
              lambda ours: drop(ours, 1.0, 0.0) - drop(ours, 100.0, 1.0)),
        Claim("More clients in a round bring diminishing returns: C from 0.05 to 0.1 gains more than from 0.2 to 0.4",
              where, lambda ours: sum(gain(ours, alpha, 0.05, 0.1) - gain(ours, alpha, 0.2, 0.4) for alpha in alphas)),
        Claim("More clients in a round gain least where clients are alike: "
              "less at alpha 100 than at any that is tried of 0.2 or below", where,
              lambda ours: min(gain(ours, alpha, 0.05, 0.4) for alpha in skewed) - gain(ours, 100.0, 0.05, 0.4)))


def _figure2() -> Item:
    rows = tuple(Row(_cell(epochs, fraction, alpha), _fedavg(alpha, fraction, epochs), END,
                     series=f"E={epochs}, C={fraction:g}", x=_point(alpha))
                 for epochs in EPOCHS for fraction in FRACTIONS for alpha in ALPHAS)
    skewed = [(fraction, alpha) for fraction in FRACTIONS for alpha in ALPHAS if alpha <= SKEWED]
    # Item `short` has two of these cells: a search in two refutes nothing that may be so in one of 16.
    epochs = Claim("On non-identical data E = 1 is not always better than E = 5", "section 4.1, figure 2",
                   lambda ours: max(ours[_cell(5, *each)] - ours[_cell(1, *each)] for each in skewed))
    return Item("hsu2019", "figure2", "FedAvg's accuracy over alpha, at the best of eight rates", rows, quick_tuned,
                tuple(_cell(1, 0.05, alpha) for alpha in (100.0, 1.0, 0.1, 0.0)), plot=OVER_ALPHA,
                claims=(*_claims_of_figure2(ALPHAS, EPOCHS), epochs), notes=NOTES, seeds=5,
                stand_in=StandIn("short", item=_short))


def _figure3() -> Item:
    alphas = (100.0, 1.0, 0.1, 0.0)

    def name(fraction: float, alpha: float) -> str:
        return f"alpha={alpha:g}, C={fraction:g}"

    rows = tuple(Row(name(fraction, alpha), (recipe(alpha, fraction, 1, FIXED_RATE),), END)
                 for alpha in alphas for fraction in (0.05, 0.4))
    # The tutorial's 86% come with a decaying rate, a moving average of the weights and 350
    # epochs or more; ours is plain SGD.
    pooled = recipe(100.0, 1.0, 1, 0.1).replace(population="pooled()", batch_size=128, rounds=350, evaluate_every=5)
    swings = {alpha: f"{name(0.05, alpha)}, swing" for alpha in (100.0, 0.0)}
    rows = (*rows, Row("centralised", (pooled, pooled.with_setting("sgd.lr", 0.03)), END),
            *(Row(row, (recipe(alpha, 0.05, 1, FIXED_RATE),), "swing_last_10") for alpha, row in swings.items()))
    where = "section 4.1, figure 3"
    claims = (
        Claim("Training is more volatile where clients differ: at C = 0.05 accuracy swings more at alpha 0 than at "
              "alpha 100", where, lambda ours: ours[swings[0.0]] - ours[swings[100.0]]),
        Claim("With few clients in a round FedAvg struggles to converge within 10,000 rounds: at C = 0.05 and alpha 0 "
              "its last evaluations swing by more than 2 points", where, lambda ours: ours[swings[0.0]] - 2))
    return Item("hsu2019", "figure3", "FedAvg's learning curves at a fixed rate, E = 1", rows, quick,
                tuple(row.name for row in rows if "C=0.4" not in row.name and row.measure == END),
                plot=Plot("curves"), claims=claims, seeds=5,
                notes=f"{NOTES} A swing is the standard deviation of the last ten evaluations; the paper speaks of the "
                      "training error, ours is on the test set. Which alpha, C and rates are shown is not printed; "
                      f"these are ours (rate {FIXED_RATE}). A round of centralised training is an epoch, in batches of "
                      "128.")


def _short() -> Item:
    """Figures 2 and 3 after a fifth of the rounds.

    Figure 2 whole, five seeds of 64 cells at eight rates, is 720,000 million images: 200 hours at a million per second.
    """
    cells = [(1, fraction, alpha) for fraction in FRACTIONS for alpha in SHORT_ALPHAS]
    more = [(0.05, alpha) for alpha in SHORT_MORE_EPOCHS]
    rows = tuple(Row(_cell(epochs, fraction, alpha),
                     (recipe(alpha, fraction, epochs, FIXED_RATE).replace(rounds=SHORT_ROUNDS,
                                                                          evaluate_every=SHORT_EVERY),), END,
                     series=f"E={epochs}, C={fraction:g}", x=_point(alpha))
                 for epochs, fraction, alpha in (*cells, *((5, *each) for each in more)))
    return Item("hsu2019", "short", "Figures 2 and 3 after 2,000 of the 10,000 rounds, at one rate", rows, quick,
                tuple(_cell(1, 0.05, alpha) for alpha in SHORT_ALPHAS), plot=OVER_ALPHA, seeds=5, variant=True,
                claims=(*_claims_of_figure2(SHORT_ALPHAS, (1,)),
                        Claim("With few clients in a round FedAvg is slower on non-identical data: C = 0.05 is below "
                              "C = 0.4", "section 4.1, figure 3",
                              lambda ours: [ours[_cell(1, 0.4, alpha)] - ours[_cell(1, 0.05, alpha)]
                                            for alpha in (0.1, 0.0)])),
                notes=f"{NOTES} A rate of {FIXED_RATE}, figure 3's, instead of the best of eight; four values of alpha "
                      "instead of eight; five local epochs at C = 0.05 and two values of alpha only, where they have "
                      "done five times the steps. The value is the mean of the last ten evaluations, here "
                      f"every {SHORT_EVERY} rounds. Runs are far from converged after 2,000 rounds, so that levels are "
                      "lower than the paper's; what is compared is compared at the same round.")


def _figure4(fraction: float, epochs: int) -> Item:
    rows = tuple(Row(f"alpha={alpha:g}, lr={lr:g}", (recipe(alpha, fraction, epochs, lr),), END,
                     series=f"alpha={alpha:g}", x=lr)
                 for alpha in ALPHAS for lr in RATES)

    def good(ours: Mapping[str, float], alpha: float) -> int:
        """Rates that come to nine tenths of the best one's accuracy."""
        values = [ours[f"alpha={alpha:g}, lr={lr:g}"] for lr in RATES]
        return sum(value >= 0.9 * max(values) for value in values)

    careful = Claim("The rate must be tuned more carefully at small alpha: "
                    "fewer rates are good at alpha 0 than at alpha 100 (C = 0.05)",
                    "section 4.1, figure 4", lambda ours: good(ours, 100.0) - good(ours, 0.0), lost_counts=LOST)
    return Item("hsu2019", f"figure4-c{fraction:g}-e{epochs}",
                f"FedAvg's accuracy over the client's rate, C = {fraction:g}, E = {epochs}", rows, quick,
                tuple(f"alpha={alpha:g}, lr={lr:g}" for alpha in (100.0, 0.0) for lr in RATES[2::2]),
                plot=Plot("points", "client's rate", log_x=True),
                claims=(careful,) if (fraction, epochs) == QUOTED else (), notes=NOTES, seeds=5)


def _figure5(fraction: float, epochs: int) -> Item:
    quoted = (fraction, epochs) == QUOTED

    def rates(alpha: float) -> tuple[float, ...]:
        return RATES_TRIED.get(alpha, RATES_BETWEEN) if quoted else RATES

    rows = tuple(Row(f"{method}, alpha={alpha:g}", recipes, END, series=method, x=_point(alpha)) for alpha in ALPHAS
                 for method, recipes in (("FedAvg", _fedavg(alpha, fraction, epochs, rates(alpha))),
                                         ("FedAvgM", _fedavgm(alpha, fraction, epochs))))
    where = "section 4.2, figure 5"
    claims = (
        Claim("FedAvgM is better than FedAvg at every alpha (C = 0.05, E = 1)", where,
              lambda ours: [ours[f"FedAvgM, alpha={alpha:g}"] - ours[f"FedAvg, alpha={alpha:g}"] for alpha in ALPHAS]),
        Claim("FedAvgM stays above 75% at every alpha (C = 0.05, E = 1)", where,
              lambda ours: [ours[f"FedAvgM, alpha={alpha:g}"] - 75 for alpha in ALPHAS]),
        Claim("FedAvg falls rapidly, in the paper to around 35%: by more than 30 points (C = 0.05, E = 1)", where,
              lambda ours: ours["FedAvg, alpha=100"] - ours["FedAvg, alpha=0"] - 30))
    partly = (" FedAvg at two rates and FedAvgM at two pairs of momentum and rate (at the ends of the axis three, and "
              "four at alpha 0), not at the paper's full grid: those around the best ones at the ends.")
    return Item("hsu2019", f"figure5-c{fraction:g}-e{epochs}",
                f"FedAvg and FedAvgM over alpha, C = {fraction:g}, E = {epochs}", rows, quick_tuned,
                tuple(f"{method}, alpha={alpha:g}" for method in ("FedAvg", "FedAvgM") for alpha in (100.0, 0.1, 0.0)),
                plot=OVER_ALPHA, claims=claims if quoted else (), notes=NOTES + (partly if quoted else ""), seeds=5)


def _abstract() -> Item:
    rows = (Row("FedAvg", _fedavg(0.0, *QUOTED, RATES_TRIED[0.0]), END), Row("FedAvgM", _fedavgm(0.0, *QUOTED), END))
    better = Claim("In the most skewed setting FedAvgM is far better than FedAvg "
                   "(by more than 20 points; the paper has 46.8)", "abstract",
                   lambda ours: ours["FedAvgM"] - ours["FedAvg"] - 20)
    return Item("hsu2019", "abstract", "The most skewed setting: one class a client", rows, quick_tuned, seeds=5,
                claims=(better,),
                notes=f"{NOTES} The abstract does not say which C and E its numbers belong to; here C = 0.05 and "
                      "E = 1, for which section 4.2 says \"around 35%\" and \"above 75%\".")


def _figure6(fraction: float, epochs: int) -> Item:
    quoted = (fraction, epochs) == QUOTED
    tried = PAIRS_AT_1 if quoted else [(beta, lr) for beta in BETAS for lr in RATES]
    pairs = {f"beta={beta:g}, lr={lr:g}": (beta, lr) for beta, lr in tried}
    rows = tuple(Row(name, (recipe(1.0, fraction, epochs, lr, beta),), END, series=f"beta={beta:g}", x=lr / (1 - beta))
                 for name, (beta, lr) in pairs.items())
    claim = Claim("With few clients in a round the best point has a low rate and high momentum: "
                  "beta of 0.9 or more (C = 0.05, E = 1)", "section 4.2, figure 6",
                  lambda ours: max(ours[name] for name, (beta, _) in pairs.items() if beta >= 0.9)
                  - max(ours[name] for name, (beta, _) in pairs.items() if beta < 0.9), lost_counts=LOST)
    partly = (" A part of the paper's grid: with a beta below 0.9 the rates on both sides of the best one, with higher "
              "betas those of figure 5 and one between; more of the latter could only raise their best.")
    return Item("hsu2019", f"figure6-c{fraction:g}-e{epochs}",
                "FedAvgM's accuracy over the effective rate lr / (1 - beta), alpha = 1, "
                f"C = {fraction:g}, E = {epochs}", rows, quick,
                tuple(name for name, (beta, lr) in pairs.items() if beta in (0.0, 0.9) and lr in RATES[2::2]),
                plot=Plot("points", "effective rate", log_x=True),
                claims=(claim,) if quoted else (), notes=NOTES + (partly if quoted else ""), seeds=5)

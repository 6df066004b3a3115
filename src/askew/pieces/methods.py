"""Every method of the five papers as one readable edit of a recipe.

A method takes a base recipe (which says data, federation, network, rates) and adds its own pieces, so that methods
can be applied one after the other, and each reads as its paper's one-line description.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, Literal

from askew.core.client_piece import ClientPiece, Optimiser
from askew.core.errors import AskewError
from askew.core.population_spec import PopulationSpec
from askew.core.recipe import Recipe
from askew.core.registry import build, find, piece
from askew.core.schedule import PositiveRate
from askew.core.server_piece import Aggregator, ServerPiece

# From their own files: a package's name for a piece is that of the file, too, whichever was imported last.
from askew.pieces.client.add_dynamic_regulariser import add_dynamic_regulariser
from askew.pieces.client.add_gradient_noise import add_gradient_noise
from askew.pieces.client.add_proximal import add_proximal
from askew.pieces.client.clip_update import clip_update
from askew.pieces.client.correct_drift import correct_drift
from askew.pieces.client.project_to_ball import project_to_ball
from askew.pieces.client.quantize import quantize
from askew.pieces.client.quantize_at_random import quantize_at_random
from askew.pieces.client.stay_local import stay_local
from askew.pieces.server.adagrad import adagrad
from askew.pieces.server.adam import adam
from askew.pieces.server.add_noise import add_noise
from askew.pieces.server.correct_dynamically import correct_dynamically
from askew.pieces.server.evaluate_average import evaluate_average
from askew.pieces.server.extrapolate import extrapolate
from askew.pieces.server.mask_by_sign_agreement import mask_by_sign_agreement
from askew.pieces.server.mean import mean
from askew.pieces.server.mean_per_step import mean_per_step
from askew.pieces.server.median import median as middle
from askew.pieces.server.momentum import momentum
from askew.pieces.server.quantize import quantize as quantize_model
from askew.pieces.server.rescale_to_mean_norm import rescale_to_mean_norm
from askew.pieces.server.train_on_server import train_on_server
from askew.pieces.server.trimmed_mean import trimmed_mean as without_extremes
from askew.pieces.server.update_control import update_control
from askew.pieces.server.yogi import yogi

__all__ = ["centralised", "data_sharing", "dp_fedavg", "fedadagrad", "fedadam", "fedavg", "fedavgm", "fedbn",
           "fedcd", "feddyn", "fedexp", "fednnnn", "fednova", "fedper", "fedprox", "fedyogi", "kept_momentum", "median",
           "norm_norm", "ozdayi_combination", "projected", "scaffold", "server_momentum", "server_training",
           "sign_agreement", "trimmed_mean"]


@piece("method")
def fedavg(base: Recipe | None = None) -> Recipe:
    """Federated averaging: the weighted mean of the clients' models (McMahan et al. 2017)."""
    return _named(base, "fedavg")


@piece("method")
def centralised(base: Recipe | None = None) -> Recipe:
    """Plain SGD on the pooled data: the ceiling that every method is compared with.

    The batch is as many times larger as clients train in a round (zhao2018, section 2.1), so that one round takes as
    many steps as a client of the base recipe takes. Where only the data know how many clients there are (`natural()`),
    it stays as it is, with more steps: a ceiling is not to be low for want of them. Only the optimiser is
    kept of the base's pieces. Client momentum, where the base has it, restarts at each round, that is, once per epoch.
    Nothing goes wrong in one place: adversities and guards are left out.
    """
    recipe = _named(base, "centralised")
    cohort = max(1, round(recipe.fraction * _num_clients(recipe.population)))
    optimiser = tuple(spec for spec in recipe.client if isinstance(build("client", spec), Optimiser))
    place, noise = PopulationSpec.of("pooled()"), recipe.population.get("feature_noise")
    if noise is not None:  # a property of the examples, which they keep; 100 levels where only the data know how many
        number = _num_clients(recipe.population)
        place += noise.with_args(clients=noise.args.get("clients") or (number if number > 1 else 100))
    return recipe.replace(population=place, batch_size=recipe.batch_size * cohort, fraction=1.0, start="random()",
                          client=optimiser, server=("mean()",), pool="single_model()", probes=(), adversity=(),
                          guard=())


@piece("method")
def fedavgm(base: Recipe | None = None, beta: float = 0.9) -> Recipe:
    """FedAvg with Nesterov momentum at the server (hsu2019, section 4.2)."""
    recipe = _named(base, "fedavgm")
    return recipe.replace(server=_then(recipe, momentum(beta, nesterov=True)))


@piece("method")
def server_momentum(base: Recipe | None = None, beta: float = 0.5) -> Recipe:
    """FedAvg with plain momentum at the server (ozdayi2020, section 3.3; fednnnn2020, eq. (10)-(11))."""
    recipe = _named(base, "server_momentum")
    return recipe.replace(server=_then(recipe, momentum(beta)))


@piece("method")
def fedprox(base: Recipe | None = None, mu: float = 0.01) -> Recipe:
    """A proximal term in each client's loss (Sahu et al. 2018)."""
    recipe = _named(base, "fedprox")
    return recipe.replace(client=(add_proximal(mu), *recipe.client))


@piece("method")
def norm_norm(base: Recipe | None = None, beta: float = 1.0) -> Recipe:
    """The averaged update at the clients' average length (fednnnn2020, eq. (8)); the plain average is evaluated."""
    recipe = _named(base, "norm_norm")
    return recipe.replace(server=_then(recipe, rescale_to_mean_norm(beta), evaluate_average()))


@piece("method")
def fednnnn(base: Recipe | None = None, beta: float = 0.7, gamma: float = 0.8) -> Recipe:
    """Norm normalisation, then momentum (fednnnn2020, eq. (12)-(13)); the plain average is evaluated."""
    recipe = _named(base, "fednnnn")
    return recipe.replace(server=_then(recipe, rescale_to_mean_norm(beta), momentum(gamma), evaluate_average()))


@piece("method")
def server_training(base: Recipe | None = None, hold_out: float = 0.05, epochs: int = 1) -> Recipe:
    """The server fine-tunes the average on a small balanced set each round (ozdayi2020, section 3.1)."""
    recipe = _named(base, "server_training")
    return recipe.replace(population=_at_server(recipe, hold_out), server=_then(recipe, train_on_server(epochs)))


@piece("method")
def projected(base: Recipe | None = None, radius: float = 3.0, noise: float = 0.0,
              centre: Literal["origin", "start"] = "origin") -> Recipe:
    """Projected SGD at the clients, with noise on the gradients if wanted (ozdayi2020, section 3.2, table 3)."""
    recipe = _named(base, "projected")
    noisy = (add_gradient_noise(noise),) if noise else ()
    return recipe.replace(client=(*noisy, *recipe.client, project_to_ball(radius, centre)))


@piece("method")
def sign_agreement(base: Recipe | None = None, theta: float = 2.0) -> Recipe:
    """Move only where enough clients pull the same way (ozdayi2020, section 3.4)."""
    recipe = _named(base, "sign_agreement")
    return recipe.replace(server=_then(recipe, mask_by_sign_agreement(theta)))


@piece("method")
def ozdayi_combination(base: Recipe | None = None, theta: float = 2.0, beta: float = 0.9,
                       hold_out: float = 0.05) -> Recipe:
    """The best of ozdayi2020's grid search: sign agreement, momentum and server training together."""
    recipe = _named(base, "ozdayi_combination")
    return recipe.replace(population=_at_server(recipe, hold_out),
                          server=_then(recipe, mask_by_sign_agreement(theta), momentum(beta), train_on_server()))


@piece("method")
def data_sharing(base: Recipe | None = None, hold_out: float = 0.1, alpha: float = 0.5,
                 warm_up_until: float = 0.6) -> Recipe:
    """A warm-up model and a random share of a small global set for every client (zhao2018, section 4.2)."""
    recipe = _named(base, "data_sharing")
    start = f"warm_up(until={warm_up_until})" if warm_up_until else recipe.start
    return recipe.replace(population=_at_server(recipe, hold_out, f"share({alpha})"), start=start)


@piece("method")
def fedcd(base: Recipe | None = None, milestones: list[int] | None = None, bits: int = 8,
          rounding: Literal["random", "nearest"] = "random") -> Recipe:
    """Many global models: clone, score, delete (fedcd2020). Needs validation data on the devices; where the
    population gives none, a fifth of each client's examples is kept for it.

    Args:
        rounding: how models are quantised; "random": weights of layers, on devices only, as the authors' notebook does;
            "nearest": all tensors, on devices and in each round at the server.
    """
    recipe = _named(base, "fedcd")
    at = milestones if milestones is not None else [5, 15, 25, 30]
    population = recipe.population
    # Those two have their own.
    if population.get("validation") is None and population.name not in ("hierarchical", "hypergeometric"):
        population += "validation(0.2)"
    average = tuple("mean(weights='score')" if spec.name == "mean" else spec for spec in recipe.server)
    return quantised(recipe.replace(population=population, pool=f"clone_and_delete(milestones={at})", server=average),
                     bits, rounding)


def quantised(recipe: Recipe, bits: int = 8, rounding: Literal["random", "nearest"] = "random") -> Recipe:
    """The recipe with models of few bits per weight, as `fedcd` has them."""
    if rounding == "nearest":
        return recipe.replace(client=_sent(recipe, quantize(bits)), server=(*recipe.server, quantize_model(bits)))
    # Section 2 also compresses the server's models, at milestones; the notebook, which made the figures, does not.
    return recipe.replace(client=_sent(recipe, quantize_at_random(bits)))


@piece("method")
def scaffold(base: Recipe | None = None, lr: PositiveRate | None = None) -> Recipe:
    """Steps corrected by control variates that clients and server keep (Karimireddy et al. 2020, option II).

    Args:
        lr: the clients' rate, for control variates as the paper's formula has them; None
            measures the gradients themselves.
    """
    recipe = _named(base, "scaffold")
    drift = correct_drift() if lr is None else correct_drift(lr)
    return recipe.replace(client=(drift, *recipe.client),
                          server=_then(_aggregated(recipe, mean("uniform")), update_control()))


@piece("method")
def fednova(base: Recipe | None = None, momentum: float = 0.0) -> Recipe:
    """Updates averaged per local step (Wang et al. 2020); `momentum` is that of the clients."""
    recipe = _named(base, "fednova")
    return _aggregated(recipe, mean_per_step(momentum) if momentum else mean_per_step())


@piece("method")
def feddyn(base: Recipe | None = None, alpha: float = 0.1) -> Recipe:
    """A penalty that moves with the clients' drift, taken back at the server (Acar et al. 2021)."""
    recipe = _named(base, "feddyn")
    server = _then(_aggregated(recipe, mean("uniform")), correct_dynamically(alpha))
    return recipe.replace(client=(add_dynamic_regulariser(alpha), *recipe.client), server=server)


@piece("method")
def fedadam(base: Recipe | None = None, lr: PositiveRate = 0.03, beta1: float = 0.9, beta2: float = 0.99,
            tau: float = 1e-3) -> Recipe:
    """Adam at the server (Reddi et al. 2021)."""
    recipe = _named(base, "fedadam")
    return recipe.replace(server=_then(recipe, adam(lr, beta1, beta2, tau)))


@piece("method")
def fedyogi(base: Recipe | None = None, lr: PositiveRate = 0.03, beta1: float = 0.9, beta2: float = 0.99,
            tau: float = 1e-3) -> Recipe:
    """Yogi at the server (Reddi et al. 2021)."""
    recipe = _named(base, "fedyogi")
    return recipe.replace(server=_then(recipe, yogi(lr, beta1, beta2, tau)))


@piece("method")
def fedadagrad(base: Recipe | None = None, lr: PositiveRate = 0.1, tau: float = 1e-3) -> Recipe:
    """Adagrad at the server (Reddi et al. 2021)."""
    recipe = _named(base, "fedadagrad")
    return recipe.replace(server=_then(recipe, adagrad(lr, tau=tau)))


@piece("method")
def fedexp(base: Recipe | None = None, epsilon: float = 1e-3) -> Recipe:
    """A server rate that grows where updates cancel (Jhunjhunwala et al. 2023)."""
    recipe = _named(base, "fedexp")
    return recipe.replace(server=_then(_aggregated(recipe, mean("uniform")), extrapolate(epsilon)))


@piece("method")
def median(base: Recipe | None = None) -> Recipe:
    """The coordinate-wise median of the updates (Yin et al. 2018)."""
    return _aggregated(_named(base, "median"), middle())


@piece("method")
def trimmed_mean(base: Recipe | None = None, share: float = 0.2) -> Recipe:
    """The coordinate-wise mean without the extremes (Yin et al. 2018)."""
    return _aggregated(_named(base, "trimmed_mean"), without_extremes(share))


@piece("method")
def kept_momentum(base: Recipe | None = None, momentum: float = 0.9) -> Recipe:
    """Clients whose momentum goes on from round to round, as in the programs of zhao2018 and fedcd2020."""
    recipe = _named(base, "kept_momentum")
    keeps = [spec.name for spec in recipe.client
             if "keep_momentum" in inspect.signature(find("client", spec.name)).parameters]
    if not keeps:
        raise AskewError(f"kept_momentum: none of {', '.join(map(str, recipe.client))} takes keep_momentum, so that "
                         "nothing would change; use sgd(), or adam(keep_state=True) without this method")
    return recipe.replace(client=tuple(
        spec.with_args(momentum=momentum, keep_momentum=True) if spec.name in keeps else spec
        for spec in recipe.client))


@piece("method")
def dp_fedavg(base: Recipe | None = None, noise: float = 1.0, length: float = 1.0) -> Recipe:
    """Clipped updates and Gaussian noise on their mean: client-level differential privacy (McMahan et al. 2018).

    Args:
        noise: z, in units of what one client can do; `askew.privacy.epsilon` says what it promises.
        length: to which updates are clipped.
    """
    recipe = _named(base, "dp_fedavg")
    return recipe.replace(client=(*recipe.client, clip_update(length)),
                          server=_then(_aggregated(recipe, mean("uniform")), add_noise(noise, length)))


@piece("method")
def fedper(base: Recipe | None = None, names: list[str] | None = None) -> Recipe:
    """Layers that stay at the client (Arivazhagan et al. 2019); by default those named fc2, the
    head of the small networks here."""
    recipe = _named(base, "fedper")
    return recipe.replace(client=(*recipe.client, stay_local(names or ["fc2.*"])))


@piece("method")
def fedbn(base: Recipe | None = None, names: list[str] | None = None) -> Recipe:
    """Normalisation layers that stay at the client (Li et al. 2021); by default those with bn or norm in the name."""
    recipe = _named(base, "fedbn")
    return recipe.replace(client=(*recipe.client, stay_local(names or ["*bn*", "*norm*"])))


def _aggregated(recipe: Recipe, aggregator: Aggregator) -> Recipe:
    """With another piece in the place of the plain mean; one that a method before it chose is not silently dropped."""
    present = next((spec for spec in recipe.server if isinstance(build("server", spec), Aggregator)), None)
    if (present is not None and present != aggregator.spec
            and (present.name != "mean" or present.args.get("weights") == "score")):
        raise AskewError(f"{recipe.name}: {present} and {aggregator} both say how updates become one; "
                         "leave a method out, or put the one that chooses the robust or scored average last")
    return recipe.replace(server=tuple(aggregator if spec == present else spec for spec in recipe.server))


def _then(recipe: Recipe, *pieces: ServerPiece) -> tuple[Any, ...]:
    """The server chain with further pieces; what changes the bytes on the wire (FedCD's quantisation) stays last."""
    compresses = [build("server", spec).payload is not None for spec in recipe.server]
    last = tuple(spec for spec, at_end in zip(recipe.server, compresses, strict=True) if at_end)
    return (*(spec for spec, at_end in zip(recipe.server, compresses, strict=True) if not at_end), *pieces, *last)


def _sent(recipe: Recipe, piece: ClientPiece) -> tuple[Any, ...]:
    """The client chain with a piece that rounds the model, before one that takes the client's own tensors out of it."""
    at = next((i for i, spec in enumerate(recipe.client) if build("client", spec).enters), len(recipe.client))
    return (*recipe.client[:at], piece, *recipe.client[at:])


def _at_server(recipe: Recipe, fraction: float, *further: str) -> PopulationSpec:
    """The population with so many examples at the server, if it has none there yet, and with further combinators."""
    population: PopulationSpec = recipe.population
    return population.with_first(population.get("hold_out") or f"hold_out({fraction})", *further)


def _num_clients(population: PopulationSpec) -> int:
    """As many as the scheme is told, or makes by itself; 1 where only the data know (`natural`)."""
    parameters = inspect.signature(find("partition", population.name)).parameters
    if population.name == "pooled":
        return 1
    number = population.args.get("clients", parameters["clients"].default if "clients" in parameters else None)
    return number if isinstance(number, int) else 1


def _named(base: Recipe | None, name: str) -> Recipe:
    """The base under the method's name; a second method adds its name to the first one's."""
    base = base or Recipe()
    plain = Recipe.__dataclass_fields__["name"].default
    return dataclasses.replace(base, name=name if base.name == plain or name == base.name else f"{base.name}+{name}")

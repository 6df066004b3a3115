"""Write the test vectors: every number of three rounds of every method, in float64, without askew.

    python vectors/make.py [FOLDER]        (default: this folder; `make vectors` does it)

docs/vectors.md says what the files hold and how to check a program with them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from reference import clients, pool, servers
from reference.clients import At, Local
from reference.federation import CLIENTS, PARTICIPANTS, RATE, SERVER, START, Client, Vector, as_json, named
from reference.servers import In, Server

FORMAT = 1
SGD = f"sgd(lr={RATE})"
UNIFORM = "mean(weights='uniform')"


@dataclass(frozen=True)
class Method:
    """One file.

    Args:
        method: as askew writes it; None for a vector of single pieces.
        reference: whose equations.
        client, server: the pieces, in order.
        local, rules: the same in numpy.
        base: the local step that the method is applied to.
        shapes: of tensors that are not flat.
        one_client: the federation is client 2 alone.
    """

    name: str
    method: str | None
    reference: str
    client: tuple[str, ...]
    server: tuple[str, ...]
    local: Local
    rules: Server
    base: str = SGD
    shapes: dict[str, list[int]] | None = None
    one_client: bool = False


def methods() -> Iterator[Method]:
    """The named methods of askew."""
    plain, mean = clients.sgd(RATE), ("mean()",)
    yield Method("fedavg", "fedavg()", "McMahan et al. 2017, algorithm 1", (SGD,), mean, plain, servers.average())
    yield Method("centralised", "centralised()", "zhao2018, section 2.1: FedAvg with one client that has all examples",
                 (SGD,), mean, plain, servers.average(), one_client=True)
    yield Method("fedavgm", "fedavgm(beta=0.9)", "hsu2019, section 4.2", (SGD,),
                 (*mean, "momentum(beta=0.9, nesterov=True)"), plain, servers.momentum(0.9, True))
    yield Method("server_momentum", "server_momentum(beta=0.5)", "ozdayi2020, eq. (2)-(3)", (SGD,),
                 (*mean, "momentum(beta=0.5)"), plain, servers.momentum(0.5, False))
    yield Method("fedprox", "fedprox(mu=0.5)", "Sahu et al. 2018", ("add_proximal(mu=0.5)", SGD), mean,
                 clients.fedprox(RATE, 0.5), servers.average())
    yield Method("norm_norm", "norm_norm(beta=0.7)", "fednnnn2020, eq. (8)", (SGD,),
                 (*mean, "rescale_to_mean_norm(beta=0.7)", "evaluate_average()"), plain, servers.norm_norm(0.7))
    yield Method("fednnnn", "fednnnn(beta=0.7, gamma=0.8)", "fednnnn2020, eq. (12)-(13)", (SGD,),
                 (*mean, "rescale_to_mean_norm(beta=0.7)", "momentum(beta=0.8)", "evaluate_average()"), plain,
                 servers.norm_norm(0.7, 0.8))
    yield Method("server_training", "server_training()", "ozdayi2020, section 3.1", (SGD,),
                 (*mean, "train_on_server(epochs=1)"), plain, servers.server_training())
    yield Method("projected", "projected(radius=1.25, noise=0.01)", "ozdayi2020, section 3.2",
                 ("add_gradient_noise(std=0.01)", SGD, "project_to_ball(radius=1.25)"), mean,
                 clients.projected(RATE, 1.25, 0.01), servers.average())
    yield Method("sign_agreement", "sign_agreement(theta=2.0)", "ozdayi2020, eq. (4)", (SGD,),
                 (*mean, "mask_by_sign_agreement(theta=2.0)"), plain, servers.sign_agreement(2.0))
    yield Method("ozdayi_combination", "ozdayi_combination(theta=2.0, beta=0.9)", "ozdayi2020, section 4.5", (SGD,),
                 (*mean, "mask_by_sign_agreement(theta=2.0)", "momentum(beta=0.9)", "train_on_server()"), plain,
                 servers.combination(2.0, 0.9))
    yield Method("scaffold", "scaffold()", "Karimireddy et al. 2020, algorithm 1, option II", ("correct_drift()", SGD),
                 (UNIFORM, "update_control()"), clients.scaffold(RATE), servers.control())
    yield Method("fednova", "fednova()", "Wang et al. 2020, eq. (6)", (SGD,), ("mean_per_step()",), plain,
                 servers.nova(0.0))
    yield Method("feddyn", "feddyn(alpha=0.5)", "Acar et al. 2021, algorithm 1",
                 ("add_dynamic_regulariser(alpha=0.5)", SGD), (UNIFORM, "correct_dynamically(alpha=0.5)"),
                 clients.feddyn(RATE, 0.5), servers.dynamic(0.5))
    adaptive = "Reddi et al. 2021, algorithm 2"
    for kind in ("adam", "yogi"):
        given = "lr=0.1, beta1=0.9, beta2=0.99, tau=0.01"
        yield Method(f"fed{kind}", f"fed{kind}({given})", adaptive, (SGD,), (*mean, f"{kind}({given})"), plain,
                     servers.adaptive(kind, 0.1, 0.9, 0.99, 0.01))
    yield Method("fedadagrad", "fedadagrad(lr=0.1, tau=0.01)", adaptive, (SGD,), (*mean, "adagrad(lr=0.1, tau=0.01)"),
                 plain, servers.adaptive("adagrad", 0.1, 0.0, 0.0, 0.01))
    yield Method("fedexp", "fedexp(epsilon=0.001)", "Jhunjhunwala et al. 2023, eq. (2)", (SGD,),
                 (UNIFORM, "extrapolate(epsilon=0.001)"), plain, servers.extrapolated(0.001))
    yield Method("median", "median()", "Yin et al. 2018, definition 1", (SGD,), ("median()",), plain, servers.median())
    yield Method("trimmed_mean", "trimmed_mean(share=0.34)", "Yin et al. 2018, definition 2", (SGD,),
                 ("trimmed_mean(share=0.34)",), plain, servers.trimmed_mean(0.34))
    yield Method("kept_momentum", "kept_momentum(momentum=0.9)", "the programs of zhao2018 and fedcd2020",
                 (f"sgd(lr={RATE}, momentum=0.9, keep_momentum=True)",), mean, clients.sgd(RATE, 0.9, keep=True),
                 servers.average())
    yield Method("dp_fedavg", "dp_fedavg(noise=0.5, length=0.25)", "McMahan et al. 2018, algorithm 1",
                 (SGD, "clip_update(length=0.25)"), (UNIFORM, "add_noise(multiplier=0.5, length=0.25)"),
                 clients.clipped_updates(RATE, 0.25), servers.noisy(0.5, 0.25))
    yield Method("fedper", "fedper(names=['head'])", "Arivazhagan et al. 2019", (SGD, "stay_local(names=['head'])"),
                 mean, clients.stay_local(RATE, "head"), servers.average())


def single_pieces() -> Iterator[Method]:
    """Pieces and arguments that no named method shows."""
    plain, mean = clients.sgd(RATE), ("mean()",)
    yield Method("scaffold_printed", f"scaffold(lr={RATE})",
                 "Karimireddy et al. 2020, option II as printed: the same numbers as scaffold",
                 (f"correct_drift(lr={RATE})", SGD), (UNIFORM, "update_control()"), clients.scaffold(RATE, True),
                 servers.control())
    walk = f"sgd(lr={RATE}, momentum=0.9)"
    for form, argument in (("measured", ""), ("printed", f"lr={RATE}")):
        yield Method(f"scaffold_momentum_{form}", f"scaffold({argument})",
                     f"SCAFFOLD behind momentum 0.9, control variates {form}", (f"correct_drift({argument})", walk),
                     (UNIFORM, "update_control()"), clients.scaffold(RATE, form == "printed", 0.9), servers.control(),
                     base=walk)
    yield Method("fednova_momentum", "fednova(momentum=0.5)", "Wang et al. 2020, table 1",
                 (f"sgd(lr={RATE}, momentum=0.5)",), ("mean_per_step(momentum=0.5)",), clients.sgd(RATE, 0.5),
                 servers.nova(0.5), base=f"sgd(lr={RATE}, momentum=0.5)")
    yield Method("sgd_options", None,
                 "torch.optim.SGD with weight decay and Nesterov's momentum; a rate that decays per round",
                 (f"sgd(lr=decay({RATE}, 0.5), momentum=0.5, weight_decay=0.1, nesterov=True)",), mean,
                 clients.sgd(RATE, 0.5, 0.1, True, decay=0.5), servers.average())
    for name, keep in (("client_adam", False), ("client_adam_kept", True)):
        yield Method(name, None, "Kingma and Ba 2015, algorithm 1",
                     (f"adam(lr=0.1, beta1=0.9, beta2=0.99, epsilon=1e-08, keep_state={keep})",), mean,
                     clients.adam(0.1, 0.9, 0.99, 1e-8, keep), servers.average())
    yield Method("clip_gradient", None, "Pascanu et al. 2013, algorithm 1", ("clip_gradient(length=2.0)", SGD), mean,
                 clients.clipped_gradients(RATE, 2.0), servers.average())
    yield Method("projected_around_start", "projected(radius=0.25, centre='start')",
                 "ozdayi2020: the program's reading", (SGD, "project_to_ball(radius=0.25, centre='start')"), mean,
                 clients.projected(RATE, 0.25, 0.0, True), servers.average())
    yield Method("quantized", None, "fedcd2020, section 3.4, rounded to nearest, at devices and server",
                 (SGD, "quantize(bits=4)"), (*mean, "quantize(bits=5)"), clients.quantised(RATE, 4),
                 servers.quantised(5))
    yield Method("quantized_at_random", None, "fedcd2020's notebook; Zhou et al. 2016",
                 (SGD, "quantize_at_random(bits=3)"), mean, clients.quantised_at_random(RATE, 3), servers.average(),
                 shapes={"body": [1, 3]})
    yield Method("score_mean", None, "fedcd2020, eq. (1), with given scores", (SGD,), ("mean(weights='score')",), plain,
                 servers.average("score"))
    yield Method("server_rate", None, "ozdayi2020, eq. (1)", (SGD,), (*mean, "scale(lr=0.5)"), plain,
                 servers.scaled(0.5))
    yield Method("noise_on_the_update", None, "ozdayi2020: a related program", (SGD,),
                 (*mean, "add_update_noise(std=0.1)"), plain, servers.noisy_update(0.1))
    yield Method("plateau", None, "torch.optim.lr_scheduler.ReduceLROnPlateau, on the clients' mean local loss",
                 (SGD, "scale_by_server()"), (*mean, "plateau(patience=0, factor=0.5, threshold=0.9)"),
                 clients.scaled_by_server(RATE), servers.plateau(0, 0.5, 0.9))
    yield Method("norm_norm_per_tensor", None, "fednnnn2020, eq. (8), tensor by tensor", (SGD,),
                 (*mean, "rescale_to_mean_norm(beta=1.0, per='layer')", "evaluate_average()"), plain,
                 servers.norm_norm(1.0, per_tensor=True))
    yield Method("sign_agreement_literal", None, "ozdayi2020, eq. (4) as printed", (SGD,),
                 (*mean, "mask_by_sign_agreement(theta=2.0, literal=True)"), plain, servers.sign_agreement(2.0, True))


WITHOUT = {"data_sharing": "FedAvg on other data: it changes which examples clients have and where the model starts, "
                           "not one formula",
           "fedbn": "the piece of fedper with other names; its buffers need a network with BatchNorm"}


def trace(method: Method) -> dict[str, Any]:
    """All numbers of one method."""
    random = np.random.default_rng(0)
    federation = [CLIENTS[2]] if method.one_client else list(CLIENTS)
    memories = [method.local.memory() for _ in federation]
    w, state, rounds = START, method.rules.state(), []
    for number, takes_part in enumerate([[0]] * 3 if method.one_client else PARTICIPANTS):
        shared = method.rules.broadcast(state)
        local = [client_round(method.local, federation[k], k, w, number, shared, memories[k], random)
                 for k in takes_part]
        draws = drawn(method.rules.draws, random)
        given = incoming(w, [federation[k] for k in takes_part], local, len(federation), state, draws)
        out = method.rules.update(given)
        update = out.after[-1][1]
        rounds.append({"round": number, "participants": takes_part, "model_before": w, "broadcast": shared,
                       "local": local,
                       "server": {"weights": out.weights, "statistics": out.statistics, **optional(draws),
                                  "state_before": state, "after": pieces(out.after), "state_after": out.state,
                                  "update": update},
                       "model_after": w + update, "evaluated": method.rules.evaluated(w + update, out.state)})
        w, state = w + update, out.state
    at_server = {"server_examples": SERVER.as_json()} if trains_at_server(method) else {}
    return {"format": FORMAT, "name": method.name, "method": method.method, "base_step": method.base,
            "reference": method.reference, "client": method.client, "server": method.server,
            "shapes": method.shapes or {}, "model": named(START), "clients": [c.as_json() for c in federation],
            **at_server, "rounds": as_json(rounds)}


def client_round(rule: Local, client: Client, k: int, w: Vector, round: int, shared: dict[str, Vector],
                 memory: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
    """One client's round; `memory` is changed."""
    before, start = dict(memory), rule.enter(w, memory)
    at, steps = At(start, start, round, 0, len(client.targets), shared, memory), []
    losses: list[float] = []
    for step in range(at.steps):
        at.step, at.draws = step, drawn(rule.draws_per_step, random)
        gradient = client.gradient(at.w, at.step)
        losses.append(client.loss(at.w, at.step))
        after = rule.step(gradient, at)
        update = after[-1][1]
        steps.append({"weights": at.w, "gradient": gradient, **optional(at.draws), "after": pieces(after),
                      "update": update, "weights_after": at.w + update})
        at.w = at.w + update
    at.draws = drawn(rule.draws_per_upload, random)
    sent = rule.end(at.w - start, at)
    return {"client": k, "start": start, "memory_before": before, "steps": steps, "loss": float(np.mean(losses)),
            **optional(at.draws), "sent": sent, "memory_after": dict(memory)}


def incoming(w: Vector, senders: list[Client], local: list[dict[str, Any]], clients: int, state: dict[str, Any],
             draws: Vector | None) -> In:
    sent = {name: np.stack([one["sent"][name] for one in local]) for name in local[0]["sent"]}
    numbers = np.array([[c.examples, len(c.targets), c.score] for c in senders], dtype=np.float64).T
    losses = np.array([one["loss"] for one in local])
    return In(w, sent.pop("update"), sent, *numbers, clients, state, draws, losses)


def optional(draws: Vector | None) -> dict[str, Vector]:
    return {} if draws is None else {"draws": draws}


def drawn(kind: str | None, random: np.random.Generator) -> Vector | None:
    """Random numbers of three decimals: part of the vector, since generators differ."""
    if kind is None:
        return None
    return np.round(random.normal(size=START.shape) if kind == "normal" else random.uniform(size=START.shape), 3)


def pieces(after: list[tuple[str, Vector]]) -> list[dict[str, Any]]:
    return [{"piece": name, "value": value} for name, value in after]


def trains_at_server(method: Method) -> bool:
    return any(name.startswith("train_on_server") for name in method.server)


def pool_trace() -> dict[str, Any]:
    return {"format": FORMAT, "name": "fedcd", "method": f"fedcd(milestones={list(pool.MILESTONES)})",
            "reference": "fedcd2020, eq. (2)-(4)",
            "pool": f"clone_and_delete(milestones={list(pool.MILESTONES)}, window={pool.WINDOW}, "
                    f"score_noise={pool.NOISE}, late_round={pool.LATE_ROUND}, "
                    f"late_score={pool.LATE_SCORE}, keep_at_least={pool.KEEP})",
            "devices": pool.DEVICES, "rounds": as_json(pool.rounds(np.random.default_rng(0)))}


def text(value: Any, indent: int = 0) -> str:
    """JSON that people can read: what fits into one line stands in one."""
    flat = json.dumps(value)
    if len(flat) + indent <= 130 or not isinstance(value, dict | list | tuple):
        return flat
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        inner = [f"{json.dumps(str(name))}: {text(v, indent + 1)}" for name, v in value.items()]
        return "{\n" + ",\n".join(pad + line for line in inner) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + text(v, indent + 1) for v in value) + "\n" + " " * indent + "]"


def files() -> dict[str, str]:
    """Name -> content of every file."""
    made = [trace(method) for method in (*methods(), *single_pieces())] + [pool_trace()]
    listed = [{name: one.get(name) for name in ("name", "method", "reference")} for one in made]
    index = {"format": FORMAT, "files": listed, "methods_without": WITHOUT}
    return {**{f"{one['name']}.json": text(one) + "\n" for one in made}, "index.json": text(index) + "\n"}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, content in files().items():
        (folder / name).write_text(content)


if __name__ == "__main__":
    main()

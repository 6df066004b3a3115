"""Every registered piece of every kind with calls to try, and recipes that put pieces together."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import askew
from askew.core import registry
from askew.core.client_piece import OnGradient, Optimiser
from askew.core.recipe import Recipe
from askew.core.server_piece import Aggregator
from askew.pieces.methods import fedcd, fednnnn, ozdayi_combination, projected
from conform import strangers  # noqa: F401, files its pieces

# kind -> name -> calls to try. A new piece joins by one line here; `{files}` is a folder of
# small files (see `loaders`).
PIECES: dict[str, dict[str, list[str]]] = {
    "data": {
        "cifar10": ["cifar10()"],
        "digits": ["digits()"],
        "image_folder": ["image_folder(path='{files}/images')",
                         "image_folder(path='{files}/images', size=2, test_fraction=0.5)"],
        "mnist": ["mnist()"],
        "npz": ["npz(path='{files}/arrays.npz')"],
        "speech_commands": ["speech_commands()", "speech_commands(validation='train')"],
        "table": ["table(path='{files}/rows.csv', label='kind')",
                  "table(path='{files}/rows.csv', label='kind', client='owner')"],
    },
    "partition": {
        "classes_per_client": ["classes_per_client(clients=5, classes=2)",
                               "classes_per_client(clients=5, classes=2, equal_sizes=True)"],
        "dirichlet": ["dirichlet(clients=5, alpha=0.5)",
                      "dirichlet(clients=5, alpha=1.0, examples_per_client=20, prior='uniform')"],
        "dirichlet_per_class": ["dirichlet_per_class(clients=5, alpha=0.5)",
                                "dirichlet_per_class(clients=5, alpha=0.5, min_examples=1, balance=True)"],
        "dirichlet_sizes": ["dirichlet_sizes(clients=5, beta=0.5)", "dirichlet_sizes(clients=5)"],
        "emd": ["emd(clients=10, emd=1.0)"],
        "hierarchical": ["hierarchical(clients=10)", "hierarchical(clients=10, examples=30)"],
        "hypergeometric": ["hypergeometric(clients=12)", "hypergeometric(clients=12, examples=30)"],
        "iid": ["iid(clients=5)", "iid(clients=5, stratified=False)"],
        "label_blocks": ["label_blocks(clients=5)"],
        "natural": ["natural()", "natural(clients=3)", "natural(min_examples=60)"],
        "pooled": ["pooled()"],
        "power_law": ["power_law(clients=5)", "power_law(clients=5, exponent=0.7, classes=3, min_examples=2)"],
        "shards": ["shards(clients=5, shards_per_client=2)", "shards(clients=5, shards_per_client=2, distinct=True)"],
    },
    "combinator": {
        "feature_noise": ["feature_noise(0.1)", "feature_noise(0.1, clients=20)"],
        "hold_out": ["hold_out(0.2)", "hold_out(0.2, use=50)"],
        "share": ["share(0.5)"],
        "shuffle": ["shuffle()"],
        "subset": ["subset(0.5)"],
        "validation": ["validation(0.2)"],
    },
    "preprocess": {
        "normalise": ["normalise()", "normalise(mean=0.5, std=0.25)"],
        "random_crop": ["random_crop(padding=1)"],
        "random_flip": ["random_flip()"],
        "tf_cifar": ["tf_cifar(size=6)"],
    },
    "model": {
        "bag_of_words": ["bag_of_words(vocabulary=5, width=4)"],
        "fedcd_cnn": ["fedcd_cnn()"],
        "fednnnn_cifar_cnn": ["fednnnn_cifar_cnn()"],
        "fednnnn_mnist_cnn": ["fednnnn_mnist_cnn()"],
        "hello_edge_cnn": ["hello_edge_cnn()", "hello_edge_cnn(batch_norm=False, dropout=0.3)"],
        "mcmahan_cifar_cnn": ["mcmahan_cifar_cnn()", "mcmahan_cifar_cnn(init='torch')"],
        "mcmahan_mnist_cnn": ["mcmahan_mnist_cnn()"],
        "mlp": ["mlp()", "mlp(hidden=[16, 8])"],
        "resnet20": ["resnet20()"],
        "resnet20_fixup": ["resnet20_fixup()"],
        "small_cnn": ["small_cnn()"],
    },
    "client": {
        "adam": ["adam(lr=0.01)", "adam(lr=decay(0.01, 0.5), keep_state=True)"],
        "add_dynamic_regulariser": ["add_dynamic_regulariser(alpha=0.1)"],
        "clip_update": ["clip_update(length=0.5)"],
        "correct_drift": ["correct_drift()", "correct_drift(lr=0.1)", "correct_drift(lr=decay(0.1, 0.5))"],
        "stay_local": ["stay_local(names=['a*', 'fc1.*'])"],
        "add_gradient_noise": ["add_gradient_noise(std=0.1)", "add_gradient_noise(std=0.0)"],
        "add_proximal": ["add_proximal(mu=0.5)"],
        "clip_gradient": ["clip_gradient(length=0.5)", "clip_gradient(length=inf)"],
        "project_to_ball": ["project_to_ball(radius=1.0)", "project_to_ball(radius=1.0, centre='start')",
                            "project_to_ball(radius=inf)"],
        "sgd": ["sgd(lr=0.1)", "sgd(lr=drops(decay(0.1, 0.9), at=[1, 2]), momentum=0.9, weight_decay=0.01)",
                "sgd(lr=0.1, momentum=0.9, nesterov=True)", "sgd(lr=0.1, momentum=0.9, keep_momentum=True)"],
        "quantize": ["quantize(bits=4)", "quantize(bits=4, what='update')", "quantize(bits=32)"],
        "scale_by_server": ["scale_by_server()"],
        "quantize_at_random": ["quantize_at_random(bits=4)", "quantize_at_random(bits=32)"],
    },
    "schedule": {
        "cosine": ["cosine(0.1, rounds=2)", "cosine(0.2, rounds=4, end=0.05)"],
        "decay": ["decay(0.1, 0.5)"],
        "drops": ["drops(0.1, at=[1])", "drops(decay(0.1, 0.5), at=[1, 2], factor=0.3)"],
        "linear_warm_up": ["linear_warm_up(0.1, rounds=2)", "linear_warm_up(decay(0.1, 0.5), rounds=2)"],
    },
    "server": {
        "adagrad": ["adagrad(lr=0.1)", "adagrad(lr=decay(0.1, 0.5))"],
        "adam": ["adam(lr=0.1)", "adam(lr=decay(0.1, 0.5))"],
        "add_noise": ["add_noise(multiplier=0.1, length=1.0)"],
        "add_update_noise": ["add_update_noise(std=0.01)"],
        "correct_dynamically": ["correct_dynamically(alpha=0.1)"],
        "extrapolate": ["extrapolate()"],
        "mean_per_step": ["mean_per_step()", "mean_per_step(momentum=0.5)"],
        "median": ["median()"],
        "trimmed_mean": ["trimmed_mean(share=0.2)", "trimmed_mean(share=0.4)"],
        "update_control": ["update_control()"],
        "yogi": ["yogi(lr=0.1)", "yogi(lr=decay(0.1, 0.5))"],
        "evaluate_average": ["evaluate_average()"],
        "mask_by_sign_agreement": ["mask_by_sign_agreement(theta=2.0)",
                                   "mask_by_sign_agreement(theta=2.0, literal=True)"],
        "mean": ["mean()", "mean(weights='uniform')", "mean(weights='score')"],
        "plateau": ["plateau(patience=0, factor=0.5, threshold=0.9, server=True)", "plateau(patience=1)"],
        "momentum": ["momentum(beta=0.9)", "momentum(beta=0.9, nesterov=True)"],
        "quantize": ["quantize(bits=4)", "quantize(bits=4, what='update')", "quantize(bits=32)"],
        "rescale_to_mean_norm": ["rescale_to_mean_norm(beta=0.7)", "rescale_to_mean_norm(per='layer')"],
        "scale": ["scale(lr=0.5)", "scale(lr=decay(0.5, 0.5))"],
        "train_on_server": ["train_on_server(epochs=2)"],
    },
    "pool": {"clone_and_delete": ["clone_and_delete(milestones=[1, 2])"], "single_model": ["single_model()"]},
    "start": {
        "pretrained": ["pretrained(path='{files}/start.safetensors')"],
        "random": ["random()"],
        "warm_up": ["warm_up(until=1.0, epochs=2)", "warm_up(until=0.5, epochs=3, on='everyone', batch_size=64)"],
    },
    "objective": {  # each with data of its own in `objectives.py`
        "binary_cross_entropy": ["binary_cross_entropy()"],
        "cross_entropy": ["cross_entropy()", "cross_entropy(label_smoothing=0.1)"],
        "mean_squared_error": ["mean_squared_error()"],
        "next_token": ["next_token()", "next_token(ignore=0)"],
    },
    "probe": {
        "accuracy_on_devices_of": ["accuracy_on_devices_of(population='iid(clients=3)')"],
        "hypothesis_conflicts": ["hypothesis_conflicts(inputs=50)"],
        "sign_cancellation": ["sign_cancellation()", "sign_cancellation(theta=2.0, per='layer')"],
        "update_norms": ["update_norms()", "update_norms(per='layer')"],
        "weight_divergence": ["weight_divergence()", "weight_divergence(per='tensor')",
                              "weight_divergence(per='group')"],
    },
    "adversity": {
        "drop_out": ["drop_out(0.3)", "drop_out(share=[0.9, 0.0, 0.5, 1.0, 0.2, 0.0])"],
        "flip_labels": ["flip_labels(0.4)", "flip_labels(share=1.0, of_clients=0.5)"],
        "flip_sign": ["flip_sign(0.5)"],
        "send_nan": ["send_nan(0.3)", "send_nan(0.2, lasting=True)"],
        "send_scaled": ["send_scaled(-100.0, clients=[2, 3])"],
        "straggle": ["straggle(deadline=2.0)"],
    },
    "guard": {"leave_out": ["leave_out(times=2.0)", "leave_out(times=inf)"]},
    "method": {
        "centralised": ["centralised()"],
        "data_sharing": ["data_sharing(alpha=0.5)"],
        "fedavg": ["fedavg()"],
        "fedavgm": ["fedavgm(beta=0.5)"],
        "fedcd": ["fedcd(milestones=[1], bits=16)"],
        "fednnnn": ["fednnnn()"],
        "fedprox": ["fedprox(mu=0.1)"],
        "norm_norm": ["norm_norm()"],
        "ozdayi_combination": ["ozdayi_combination()"],
        "projected": ["projected(radius=3.0, noise=0.01)"],
        "server_momentum": ["server_momentum()"],
        "server_training": ["server_training()"],
        "sign_agreement": ["sign_agreement()"],
        "dp_fedavg": ["dp_fedavg(noise=0.1)"],
        "fedadagrad": ["fedadagrad()"],
        "fedadam": ["fedadam()"],
        "fedbn": ["fedbn(names=['fc1.*'])"],
        "feddyn": ["feddyn()"],
        "fedexp": ["fedexp()"],
        "fednova": ["fednova()"],
        "fedper": ["fedper()"],
        "fedyogi": ["fedyogi()"],
        "kept_momentum": ["kept_momentum()"],
        "median": ["median()"],
        "scaffold": ["scaffold()", "scaffold(lr=0.1)"],
        "trimmed_mean": ["trimmed_mean()"],
    },
}


class Normed(nn.Module):
    """Convolution, BatchNorm, dropout: what is hard to batch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.drop, self.out = nn.Dropout(0.25), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.drop(F.max_pool2d(F.relu(self.norm(self.conv(x))), 2).flatten(1)))


def normed() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return Normed()


class Rows(nn.Module):
    """An LSTM besides, over the rows of the picture: what is hard to compile, at once."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.rows, self.drop, self.out = nn.LSTM(16, 8, batch_first=True), nn.Dropout(0.25), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        seen = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.out(self.drop(self.rows(seen.transpose(1, 2).flatten(2))[0][:, -1]))


def rows() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return Rows()


ALL = "power_law(clients=6, exponent=1.0, min_examples=20)"
UNEQUAL = askew.Recipe(population=f"{ALL} + subset(0.25)", rounds=3, batch_size=32, fraction=0.7,
                       model="mlp(hidden=[16])")
KEPT = "sgd(lr=0.05, momentum=0.9, keep_momentum=True)"
# What a client piece wants of the server -> the piece that sends it.
SENDERS = {"control": "update_control()", "factor": "plateau(patience=0, threshold=0.9)"}
# name -> (recipe, network in place of the recipe's); of clients that remember something, four of six in each round.
REMEMBERING = {
    "kept momentum": (UNEQUAL.replace(client=[KEPT], epochs=2), None),
    "kept momentum behind a clip, Nesterov": (
        UNEQUAL.replace(client=["clip_gradient(0.5)", "sgd(lr=0.05, momentum=0.9, nesterov=True, keep_momentum=True)"]),
        None),
    "kept momentum, one client": (UNEQUAL.replace(client=[KEPT], population="pooled()", batch_size=100), None),
    "kept momentum, one client a round": (UNEQUAL.replace(client=[KEPT], fraction=0.1, rounds=8), None),
    "kept momentum, batchnorm and dropout": (UNEQUAL.replace(client=["sgd(lr=0.01, momentum=0.9, keep_momentum=True)"]),
                                             normed),
    "kept momentum, batchnorm, dropout, an LSTM": (
        UNEQUAL.replace(client=["sgd(lr=0.01, momentum=0.9, keep_momentum=True)"], rounds=2), rows),
    "kept momentum and random rounding": (UNEQUAL.replace(client=[KEPT, "quantize_at_random(bits=16)"]), None),
    "kept momentum of several models": (fedcd(UNEQUAL.replace(client=[KEPT], rounds=5), milestones=[1, 2], bits=16),
                                        None),
    "a counter": (UNEQUAL.replace(client=["step_by_rounds()"], rounds=5), None),
    "a counter and momentum": (UNEQUAL.replace(client=["pull_by_count()", KEPT], rounds=5), None),
    "memory that stays as it is": (UNEQUAL.replace(client=["with_a_rate_that_is_kept()", "sgd(lr=0.1)"]), None),
    "control variates": (UNEQUAL.replace(client=["subtract_control()", "sgd(lr=0.1)"],
                                         server=["mean('uniform')", "add_up_control()"], rounds=5), None),
    "control variates, equal clients": (
        askew.Recipe(client=["subtract_control()", "sgd(lr=0.1)"], server=["mean()", "add_up_control()"], rounds=4,
                     fraction=0.5), None),
    "a layer that stays at home": (UNEQUAL.replace(client=["sgd(lr=0.1)", "stay_at_home(part='fc2.')"], rounds=5),
                                   None),
    "a layer that stays at home, batchnorm": (UNEQUAL.replace(client=["sgd(lr=0.01)", "stay_at_home(part='norm.')"],
                                                              rounds=4), normed),
}
RECIPES = {
    **REMEMBERING,
    "what is known of a client": (UNEQUAL.replace(client=["sgd(lr=0.1)", "by_facts()"], epochs=2), None),
    "what is known of a client, from the first step on": (UNEQUAL.replace(client=["begin_by_facts()", "sgd(lr=0.1)"],
                                                                          epochs=2), None),
    "more in the message": (UNEQUAL.replace(client=["sgd(lr=0.1)", "tell()"],
                                            server=["mean()", "scale_by_what_is_told()"]), None),
    "what the server sends besides": (UNEQUAL.replace(client=["pull_to_shared()", "sgd(lr=0.1)"],
                                                      server=["mean()", "send_average()"]), None),
    "a rate that falls on a plateau, of clients and server": (
        UNEQUAL.replace(client=["sgd(lr=0.1, momentum=0.9, keep_momentum=True)", "scale_by_server()"], rounds=5,
                        server=["mean()", "plateau(patience=0, factor=0.5, threshold=0.9, server=True)"]), None),
    "median": (UNEQUAL.replace(server=["coordinate_median()"]), None),
    "mean of all updates that are kept": (UNEQUAL.replace(server=["mean_of_everything()", "momentum(0.5)"]), None),
    "fedavg, equal clients": (askew.Recipe(rounds=3), None),
    "unequal clients, several epochs": (UNEQUAL.replace(epochs=2), None),
    "one batch a client": (UNEQUAL.replace(batch_size=0), None),
    "one client a round": (UNEQUAL.replace(fraction=0.1), None),
    "one client": (UNEQUAL.replace(population="pooled()", batch_size=100), None),
    "client momentum, decay, proximal term": (
        UNEQUAL.replace(client=["add_proximal(0.1)",
                              "sgd(lr=drops(decay(0.1, 0.9), at=[2]), momentum=0.9, weight_decay=0.01)"]), None),
    "clipped gradients, momentum": (UNEQUAL.replace(client=["clip_gradient(0.5)",
                                                          "sgd(lr=0.05, momentum=0.9, nesterov=True)"]), None),
    "projection and noise": (projected(UNEQUAL, radius=3.0, noise=0.01), None),
    "projection around the start": (projected(UNEQUAL, radius=0.5, centre="start"), None),
    "state that starts at 1": (UNEQUAL.replace(client=["adam_from_one()"]), None),
    "state that starts at the weights": (UNEQUAL.replace(client=["pull_to_first()"]), None),
    "state that counts": (UNEQUAL.replace(client=["step_by_count()"]), None),
    "state that starts at 1 behind a clip, two epochs": (
        UNEQUAL.replace(client=["clip_gradient(0.5)", "adam_from_one(lr=0.005)"], epochs=2), None),
    "quantised updates": (UNEQUAL.replace(client=[*UNEQUAL.client, "quantize(bits=12, what='update')"]), None),
    "fednnnn": (fednnnn(UNEQUAL), None),
    "ozdayi's combination": (ozdayi_combination(UNEQUAL), None),
    "fedcd": (fedcd(UNEQUAL, milestones=[1, 2], bits=16), None),
    "convolution": (UNEQUAL.replace(model="small_cnn()"), None),
    "augmentation": (UNEQUAL.replace(preprocess=["random_crop(padding=1)", "random_flip()"]), None),
    # Over a handful of examples BatchNorm magnifies rounding.
    "batchnorm and dropout": (UNEQUAL.replace(population=ALL), normed),
    "batchnorm, dropout and a state that starts at 1": (UNEQUAL.replace(client=["adam_from_one(lr=0.001)"]), normed),
}


def recipe_with(kind: str, call: str) -> Recipe:
    """Two rounds of a small recipe that has this piece in its place."""
    base = UNEQUAL.replace(rounds=2, population=UNEQUAL.population + "hold_out(0.2)")
    if kind == "preprocess":
        return base.replace(preprocess=[call], model="small_cnn()")
    if kind == "client":
        built, sgd = registry.build(kind, call), "sgd(lr=0.1)"
        if built.wants:
            base = base.replace(server=["mean()", SENDERS[built.wants[0]]])
        return base.replace(client=[call] if isinstance(built, Optimiser)
                            else [call, sgd] if isinstance(built, OnGradient) else [sgd, call])
    if kind == "schedule":
        return base.replace(client=[f"sgd(lr={call})"])
    if kind == "server" and isinstance(registry.build(kind, call), Aggregator):
        base = base.replace(client=f"sgd(lr=0.1, momentum={registry.parse(kind, call).args.get('momentum', 0.0)})")
        base = fedcd(base, milestones=[1], bits=16) if "score" in call else base
        return base.replace(server=[call])
    if kind == "server":
        clients = ["correct_drift()", "sgd(lr=0.1)"] if registry.build(kind, call).wants else base.client
        if call.startswith("plateau"):
            clients = ["sgd(lr=0.1)", "scale_by_server()"]
        if call.startswith("add_noise"):
            clients = ["sgd(lr=0.1)", "clip_update(length=1.0)"]
        return base.replace(client=clients, server=["mean('uniform')", call])
    if kind == "pool":
        return base.replace(pool=call, population=base.population + "validation(0.2)")
    if kind == "start":
        return base.replace(start=call)
    if kind == "probe":
        return base.replace(probes=[call])
    if kind == "adversity":
        guard = ["leave_out()"] if registry.build(kind, call).spoil else []
        return base.replace(adversity=[call], guard=guard, fraction=1.0)
    if kind == "guard":
        return base.replace(guard=[call], adversity=["send_scaled(3.0, share=0.4)"], fraction=1.0)
    assert kind == "method", kind
    return registry.build(kind, call, base=base.replace(population=UNEQUAL.population))

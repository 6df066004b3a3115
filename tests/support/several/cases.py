"""What two processes train, and one beside them: every method, and what crosses the border between processes."""

from __future__ import annotations

import math

from torch import nn

import askew
from askew.core import registry

SMALL = askew.Recipe(population="dirichlet(clients=7, alpha=0.5)", rounds=2, batch_size=60, model="mlp(hidden=[8])",
                     name="small")
METHODS = [n for n in registry.names("method") if registry.find("method", n).__module__.startswith("askew.")]
# Methods that need something else of the recipe than the default.
OTHERS = {"fedcd": {"milestones": [1, 2]}, "fedbn": {"names": ["*bias"]}, "fedper": {}}


@registry.piece("model")
def with_norm(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """BatchNorm, whose buffers clients send."""
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(math.prod(input_shape)),
                         nn.Linear(math.prod(input_shape), num_classes))


def cases() -> dict[str, askew.Recipe]:
    """By name."""
    table = {name: registry.find("method", name)(SMALL, **OTHERS.get(name, {})) for name in METHODS
             if name not in ("quantised", "centralised")}  # which has one client
    m = askew.methods
    return {
        **table,
        "quantised": m.quantised(m.fedavg(SMALL), bits=4),
        # Rounds in which a process, or one of FedCD's models in it, has no client
        "a third of the clients": m.scaffold(SMALL.replace(fraction=0.3, rounds=3)),
        "one client": m.fednova(SMALL.replace(fraction=0.15, rounds=4)),
        "kept momentum, some": m.kept_momentum(SMALL.replace(fraction=0.5, rounds=3)),
        "fedcd with memory": m.fedcd(m.kept_momentum(SMALL.replace(rounds=3)), milestones=[1, 2]),
        "a guard": m.scaffold(SMALL.replace(adversity=["send_scaled(1000.0, share=0.3)", "send_nan(share=0.2)"],
                                            guard=["leave_out()"])),
        "failing clients": m.scaffold(SMALL.replace(adversity=["drop_out(share=0.5)"])),
        "probes": m.fedavg(SMALL.replace(probes=["update_norms()", "sign_cancellation()", "weight_divergence()",
                                                 "hypothesis_conflicts(inputs=50)"])),
        "stopped early": m.fedper(SMALL.replace(population="dirichlet(clients=7, alpha=0.5) + validation(0.2)",
                                                stop_after_no_gain=1, rounds=12)),
        "buffers": m.fedavg(SMALL.replace(model="with_norm()")),
        "buffers of one's own": m.fedbn(SMALL.replace(model="with_norm()"), names=["1.*"]),
        # By rule one client after the other within a process
        "wide": m.fednnnn(SMALL.replace(model="mlp(hidden=[2000])", rounds=2)),
    }

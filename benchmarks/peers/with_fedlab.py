"""FedLab's standalone simulation: its serial SGD trainer and its synchronous server, round by round.

    python with_fedlab.py
"""

from __future__ import annotations

import logging
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from contestant import Federation, serve, take_over_stdout
from torch import Tensor
from torch.utils.data import DataLoader

LINES = take_over_stdout()  # before FedLab's logger takes hold of standard output

if find_spec("torchvision") is None:
    # FedLab's ready-made data sets import torchvision, which is not published for every build of torch. None of them
    # is used here: an empty module lets the import pass.
    for name in ("torchvision", "torchvision.transforms"):
        sys.modules[name] = ModuleType(name)
    sys.modules["torchvision"].transforms = sys.modules["torchvision.transforms"]  # type: ignore[attr-defined]

from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer  # noqa: E402
from fedlab.contrib.algorithm.basic_server import SyncServerHandler  # noqa: E402
from fedlab.contrib.dataset.basic_dataset import BaseDataset, FedDataset  # noqa: E402
from fedlab.utils import Logger  # noqa: E402


class Clients(FedDataset):
    """The federation as FedLab wants it: a data loader a client; in the given order, so nothing is shuffled."""

    def __init__(self, federation: Federation) -> None:
        super().__init__()
        self.federation, self.round = federation, 0
        self.num = federation.num_clients

    def get_dataloader(self, id: int, batch_size: int, type: str = "train") -> DataLoader:
        position = self.federation.clients[self.round].tolist().index(id)
        return DataLoader(BaseDataset(*self.federation.examples_of(self.round, position)), batch_size=batch_size)


class GivenClients(SyncServerHandler):
    """FedLab's server, told who takes part."""

    chosen: list[int]

    def sample_clients(self) -> list[int]:
        return self.chosen


class FedLab:
    """The body of `fedlab.core.standalone.StandalonePipeline.main`, without its evaluation."""

    note = ""

    def __init__(self, federation: Federation) -> None:
        logging.getLogger().setLevel(logging.WARNING)
        self.clients = Clients(federation)
        self.handler = GivenClients(federation.module, global_round=sys.maxsize, logger=Logger("server"),
                                    sample_ratio=federation.cohort / federation.num_clients)
        self.trainer = SGDSerialClientTrainer(federation.module, federation.num_clients, logger=Logger("trainer"))
        self.trainer.setup_dataset(self.clients)
        self.trainer.setup_optim(epochs=1, batch_size=federation.batch_size, lr=federation.lr)
        self.handler.num_clients = federation.num_clients

    def round(self, number: int) -> None:
        self.clients.round = number
        self.handler.chosen = self.clients.federation.clients[number].tolist()
        chosen = self.handler.sample_clients()
        self.trainer.local_process(self.handler.downlink_package, chosen)
        for pack in self.trainer.uplink_package:
            self.handler.load(pack)

    def weights(self) -> dict[str, Tensor]:
        return dict(self.handler.model.named_parameters())


def make(file: Path) -> FedLab:
    return FedLab(Federation.load(file))


if __name__ == "__main__":
    serve(make, ["fedlab"], LINES)

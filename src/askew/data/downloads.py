"""Which data sets can be downloaded, from where, and how to know that they arrived whole.

SHA-256 of the archives as published by TensorFlow Datasets (MNIST, CIFAR-10, Speech Commands 0.02) and torchaudio
(Speech Commands 0.01 and 0.02). MNIST comes from the mirror that torchvision uses: the original host refuses downloads.
"""

from __future__ import annotations

from dataclasses import dataclass

from askew.core.errors import AskewError, suggest


@dataclass(frozen=True)
class Download:
    """One file to fetch: its name, the address of the folder it lies in, its SHA-256 and size in bytes."""

    file: str
    base_url: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Downloadable:
    """A data set that can be downloaded.

    Args:
        name: as `askew data get` knows it.
        folder: where it ends up below the root.
        downloads: the files to fetch.
        archive: None: the files go into `folder` as they are. "folder": a tar archive that holds `folder`.
            "content": a tar archive of what `folder` holds.
        unpacked: bytes on disk when done.
        licence, origin: what to say about it.
    """

    name: str
    folder: str
    downloads: tuple[Download, ...]
    archive: str | None
    unpacked: int
    licence: str
    origin: str

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(download.size for download in self.downloads)


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_TENSORFLOW = "http://download.tensorflow.org/data"
_WARDEN = "P. Warden, arXiv:1804.03209"

DATA_SETS = (
    Downloadable(
        "mnist", "mnist", (
            Download("train-images-idx3-ubyte.gz", _MNIST,
                     "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9_912_422),
            Download("train-labels-idx1-ubyte.gz", _MNIST,
                     "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28_881),
            Download("t10k-images-idx3-ubyte.gz", _MNIST,
                     "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1_648_877),
            Download("t10k-labels-idx1-ubyte.gz", _MNIST,
                     "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4_542),
        ), None, 11_594_722, "as distributed by Y. LeCun", "Y. LeCun, C. Cortes, C. Burges 1998"),
    Downloadable(
        "cifar10", "cifar-10-batches-bin", (
            Download("cifar-10-binary.tar.gz", "https://www.cs.toronto.edu/~kriz",
                     "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", 170_052_171),
        ), "folder", 184_380_000, "none stated", "A. Krizhevsky 2009"),
    Downloadable(
        "speech_commands_v0.01", "speech_commands_v0.01", (
            Download("speech_commands_v0.01.tar.gz", _TENSORFLOW,
                     "743935421bb51cccdb6bdd152e04c5c70274e935c82119ad7faeec31780d811d", 1_489_096_277),
        ), "content", 2_100_000_000, "CC BY 4.0", _WARDEN),
    Downloadable(
        "speech_commands_v0.02", "speech_commands_v0.02", (
            Download("speech_commands_v0.02.tar.gz", _TENSORFLOW,
                     "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58", 2_428_923_189),
        ), "content", 3_500_000_000, "CC BY 4.0", _WARDEN),
)

_ALIASES = {"speech_commands": "speech_commands_v0.01"}  # the default version of `speech_commands()`


def find_data_set(name: str) -> Downloadable:
    """The data set of that name."""
    known = {data_set.name: data_set for data_set in DATA_SETS}
    try:
        return known[_ALIASES.get(name, name)]
    except KeyError:
        raise AskewError(f"no data set {name!r} to download; {suggest(name, known)}") from None

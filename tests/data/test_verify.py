import shutil

import numpy as np
import pytest

from askew.data import verify as verify_module  # the module: nothing of that name is exported
from askew.data.verify import present, verify


def test_present_looks_at_names_only(mnist_folder, tmp_path):
    assert present("mnist", mnist_folder) == mnist_folder / "mnist"
    (mnist_folder / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"")
    assert present("mnist", mnist_folder) is not None
    (mnist_folder / "mnist" / "train-images-idx3-ubyte.gz").unlink()
    assert present("mnist", mnist_folder) is None
    assert present("cifar10", tmp_path) is None


def test_present_finds_either_cifar_archive(cifar_folder):
    assert present("cifar10", cifar_folder).name == "cifar-10-batches-bin"
    (cifar_folder / "cifar-10-batches-bin").rename(cifar_folder / "cifar-10-batches-py")
    assert present("cifar10", cifar_folder) is None  # the names of its files are others
    for path in (cifar_folder / "cifar-10-batches-py").iterdir():
        path.rename(path.with_suffix(""))
    assert present("cifar10", cifar_folder).name == "cifar-10-batches-py"


def test_the_embedded_digits_are_whole():
    assert verify("digits")[0]["check"].startswith("SHA-256")


def test_other_content_under_the_right_names_is_refused(mnist_folder, cifar_folder, refused):
    with refused("train-images-idx3-ubyte.gz: the SHA-256 of its content is [0-9a-f]{64}, not ba891046"):
        verify("mnist", mnist_folder)
    with refused("data_batch_1.bin: the SHA-256 of its content is [0-9a-f]{64}, not cee91656"):
        verify("cifar10", cifar_folder)


def test_speech_commands_are_counted_read_and_listed(speech_folder, refused, monkeypatch):
    with refused("yes: 3 clips, 2377 expected"):
        verify("speech_commands", speech_folder)
    monkeypatch.setitem(verify_module._SPEECH_COMMANDS, "speech_commands_v0.01", (3,) * 10)
    checks = verify("speech_commands", speech_folder)
    assert len(checks) == 12
    assert checks[-2]["check"] == "its 10 clips of the ten words are there"
    folder = speech_folder / "speech_commands_v0.01"
    (folder / "off" / "bb_nohash_0.wav").write_bytes(b"damaged")
    with refused("off/bb_nohash_0.wav is not a whole wav file"):
        verify("speech_commands", speech_folder)
    shutil.copy(folder / "off" / "aa_nohash_0.wav", folder / "off" / "bb_nohash_0.wav")
    with (folder / "validation_list.txt").open("a") as file:
        file.write("go/dd_nohash_0.wav\n")
    with refused("validation_list.txt lists go/dd_nohash_0.wav, which is not there"):
        verify("speech_commands", speech_folder)


def test_missing_data_say_how_to_get_them(refused, tmp_path):
    for name in ("mnist", "cifar10", "speech_commands_v0.02"):
        with refused(f"askew data get {name} --data-dir"):
            verify(name, tmp_path)
    with refused("no data set 'imagenet' to download; known: mnist, cifar10"):
        verify("imagenet", tmp_path)


def test_real_mnist_is_the_published_one(real_data):
    assert len(verify("mnist", real_data("mnist"))) == 4


def test_real_cifar10_is_the_published_one_in_either_archive(real_data, tmp_path):
    import pickle

    root = real_data("cifar-10-batches-bin")
    assert len(verify("cifar10", root)) == 6
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for path in (root / "cifar-10-batches-bin").glob("*.bin"):
        records = np.fromfile(path, np.uint8).reshape(-1, 3073)
        batch = {"data": records[:, 1:].copy(), "labels": records[:, 0].tolist()}
        (folder / path.stem).write_bytes(pickle.dumps(batch, protocol=4))
    assert len(verify("cifar10", tmp_path)) == 6


@pytest.mark.slow
def test_real_speech_commands_are_all_there(real_data):
    assert len(verify("speech_commands", real_data("speech_commands_v0.01"))) == 12

import numpy as np
import pytest
import torch

from askew.data import load, npz


@pytest.fixture
def save(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "mine.npz", **arrays)
        return str(tmp_path / "mine.npz")

    return write


def test_four_arrays(save):
    data = npz(save(x_train=np.ones((6, 4), np.float64), y_train=[0, 1, 2, 0, 1, 2], clients_train=[7, 7, 8, 8, 9, 9],
                    x_test=np.zeros((2, 4)), y_test=[2, 1]))
    assert data.name == "mine"
    assert data.train.x.shape == (6, 4)
    assert data.train.x.dtype == torch.float32
    assert data.test.y.tolist() == [2, 1]
    assert data.client_ids.tolist() == [7, 7, 8, 8, 9, 9]


def test_two_arrays_are_split_by_class(save):
    path = save(x=np.arange(100)[:, None] * np.ones(3), y=np.repeat(["cat", "dog"], 50), clients=np.arange(100) // 10)
    data = load(f"npz({path!r}, test_fraction=0.1)")
    assert data.test.y.bincount().tolist() == [5, 5]
    assert data.classes == ("cat", "dog")
    rows = torch.cat([data.train.x, data.test.x])[:, 0]
    assert rows.sort().values.tolist() == list(range(100))
    assert (data.train.x[:, 0] >= 50).long().tolist() == data.train.y.tolist()  # inputs stay with their labels
    assert data.client_ids.tolist() == (data.train.x[:, 0] // 10).tolist()  # and with their owners
    assert data.test_client_ids.tolist() == (data.test.x[:, 0] // 10).tolist()


def test_images_keep_their_bytes_and_get_a_channel(save):
    data = npz(save(x=np.full((10, 5, 6), 200, np.uint8), y=np.arange(10) % 2))
    assert data.input_shape == (1, 5, 6)
    assert data.train.x.dtype == torch.uint8
    assert npz(save(x=np.zeros((10, 3, 5, 6), np.uint8), y=np.arange(10) % 2)).input_shape == (3, 5, 6)


def test_images_whose_channels_stand_last_are_told(save):
    with pytest.warns(UserWarning, match=r"taken for 5 channels of 6 x 3 pixels; if the channels stand last, give"):
        npz(save(x=np.zeros((10, 5, 6, 3), np.uint8), y=np.arange(10) % 2))


def test_bad_files_are_refused(save, refused, tmp_path):
    with refused("'nowhere.npz' cannot be read: No such file or directory; name a .npz file"):
        npz("nowhere.npz")
    (tmp_path / "text.npz").write_text("hello")
    with refused("cannot be read as a .npz file"):
        npz(str(tmp_path / "text.npz"))
    np.save(tmp_path / "single.npy", np.zeros(3))
    with refused("cannot be read as a .npz file"):
        npz(str(tmp_path / "single.npy"))
    path = save(x=np.zeros((10, 2)), y=np.arange(10) % 2)
    with open(path, "rb") as file:
        content = file.read()
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    with refused("cannot be read as a .npz file"):
        npz(str(tmp_path / "cut.npz"))


def test_bad_arrays_are_refused(save, refused):
    with refused(r"no array 'y_test' \(it has x_train, y_train, x_test\)"):
        npz(save(x_train=np.zeros((2, 2)), y_train=[0, 1], x_test=np.zeros((2, 2))))
    with refused("3 inputs in 'x' but 2 labels in 'y'"):
        npz(save(x=np.zeros((3, 2)), y=[0, 1]))
    with refused("inputs must be numbers"):
        npz(save(x=np.array([["a"], ["b"]]), y=[0, 0]))
    with refused("inputs must be numbers"):
        npz(save(x=np.zeros(4), y=[0, 0, 1, 1]))
    with refused("label 0.5 of example 0 is no class"):
        npz(save(x=np.zeros((2, 2)), y=[0.5, 1]))
    with refused("holds NaN or infinity"):
        npz(save(x=np.full((4, 2), np.nan), y=[0, 0, 1, 1]))
    with refused("'clients' must hold 4 whole numbers"):
        npz(save(x=np.zeros((4, 2)), y=[0, 0, 1, 1], clients=[1.5, 2, 3, 4]))
    with refused("cannot be read as a .npz file"):  # an array of Python objects is a pickle: never loaded
        npz(save(x=np.array([{}, {}], dtype=object), y=[0, 1]))
    with refused("test_fraction must be between 0 and 1, not 1.5"):
        npz(save(x=np.zeros((4, 2)), y=[0, 0, 1, 1]), test_fraction=1.5)

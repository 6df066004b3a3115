import numpy as np
import torch
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, TensorDataset

from askew.data import from_torch_dataset


class Squares(TorchDataset):
    """Yields (tensor, int), as the data sets of torchvision do."""

    classes = ("even", "odd")

    def __init__(self, count, dtype=torch.float64):
        self.count, self.dtype = count, dtype

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if i >= self.count:
            raise IndexError(i)
        return torch.full((1, 2, 2), i * i, dtype=self.dtype), i % 2


def test_every_example_is_read():
    data = from_torch_dataset(Squares(6), Squares(3), name="squares", client_ids=[0, 0, 1, 1, 2, 2])
    assert data.train.x.shape == (6, 1, 2, 2)
    assert data.train.x.dtype == torch.float32
    assert data.train.x[:, 0, 0, 0].tolist() == [0, 1, 4, 9, 16, 25]
    assert data.train.y.tolist() == [0, 1, 0, 1, 0, 1]
    assert data.classes == ("even", "odd")
    assert data.client_ids.tolist() == [0, 0, 1, 1, 2, 2]


def test_bytes_stay_and_classes_are_counted():
    train = TensorDataset(torch.zeros(4, 3, dtype=torch.uint8), torch.tensor([0, 2, 1, 0]))
    test = TensorDataset(torch.zeros(2, 3, dtype=torch.uint8), torch.tensor([3, 0]))
    data = from_torch_dataset(train, test)
    assert data.train.x.dtype == torch.uint8
    assert data.classes == ("0", "1", "2", "3")
    assert from_torch_dataset(train, test, classes=list("abcd")).classes == ("a", "b", "c", "d")


def test_what_does_not_fit_is_refused(refused):
    good = Squares(2)

    class Endless(IterableDataset):
        def __iter__(self):
            return iter([])

    with refused("Endless has no length"):
        from_torch_dataset(Endless(), good)
    with refused("custom: test: no examples"):
        from_torch_dataset(good, [])
    with refused(r"example 0 is \(ndarray, int\), not \(Tensor, target\)"):
        from_torch_dataset([(np.zeros(2), 1)], good)
    with refused("example 0 is Tensor, not"):
        from_torch_dataset([torch.zeros(2)], good)
    with refused(r"example 1 has shape \(3,\), example 0 \(2,\)"):
        from_torch_dataset([(torch.zeros(2), 0), (torch.zeros(3), 0)], good)
    with refused("label of example 0 is 0.5, not a whole number"):
        from_torch_dataset([(torch.zeros(2), 0.5)], good)
    with refused("label of example 0 is 'cat', not a whole number"):
        from_torch_dataset([(torch.zeros(2), "cat")], good)
    with refused("label -1 is outside"):
        from_torch_dataset([(torch.zeros(2), -1), (torch.zeros(2), 1)], [(torch.zeros(2), 0)])

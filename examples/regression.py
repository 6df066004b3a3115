"""Numbers to learn: how far diabetes goes in a year (scikit-learn's 442 patients), at five clinics that see other ages.

    python examples/regression.py
"""

import numpy as np
import torch
from sklearn.datasets import load_diabetes

import askew


def main() -> None:
    patients = load_diabetes()
    x = torch.tensor(patients.data, dtype=torch.float32)
    y = torch.tensor(patients.target, dtype=torch.float32)
    y = (y - y.mean()) / y.std()  # an error of about 1 is what the mean alone would make
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, test = order[:350], order[350:]
    data = askew.Dataset.from_tensors((x[train], y[train]), (x[test], y[test]), name="diabetes", targets="numbers")

    # The youngest at the first clinic, the oldest at the last.
    clinics = np.array_split(x[train, 0].argsort().numpy(), 5)
    population = askew.Population.of(askew.Ownership.of(clinics), np.zeros(350, np.int64), 1)
    recipe = askew.Recipe(objective="mean_squared_error()", preprocess=["normalise()"], model="mlp(hidden=[])",
                          client="sgd(lr=0.01)", rounds=20)
    result = askew.run(recipe, data=data, population=population)
    print(f"the mean alone: {float(data.test.y.var()):.3f}")
    print(f"{result.headline.replace('_', ' ')} of five clinics' common model: {result.score:.3f}")


if __name__ == "__main__":
    main()

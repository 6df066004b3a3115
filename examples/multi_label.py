"""Several labels per example: made documents (scikit-learn's generator), each about some of six subjects.

    python examples/multi_label.py
"""

import torch
from sklearn.datasets import make_multilabel_classification

import askew


def main() -> None:
    words, subjects = make_multilabel_classification(n_samples=1200, n_features=30, n_classes=6, random_state=0)
    x, y = torch.tensor(words, dtype=torch.float32), torch.tensor(subjects)
    data = askew.Dataset.from_tensors((x[:1000], y[:1000]), (x[1000:], y[1000:]), name="subjects", targets="labels",
                                      classes=("art", "law", "maths", "music", "physics", "sport"))
    recipe = askew.Recipe(objective="binary_cross_entropy()", preprocess=["normalise()"], model="mlp(hidden=[32])",
                          population="power_law(clients=8, min_examples=40)", client="sgd(lr=0.1)", rounds=15)
    last = askew.run(recipe, data=data).records[-1]
    never = 1 - float(data.test.y.mean())  # what a model has that never names one
    print(f"labels that are right: {last['label_accuracy']:.3f}; without naming any: {never:.3f}")
    print(f"documents with all six right: {last['exact_match']:.3f}")


if __name__ == "__main__":
    main()

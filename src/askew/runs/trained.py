"""A trained model to use: `askew.load(folder)` gives predictions, and a plain network with its preprocessing in it."""

from __future__ import annotations

import copy
import re
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from askew.core.arguments import checked
from askew.core.arrays import read_arrays
from askew.core.cells import named
from askew.core.columns import Columns
from askew.core.dataset import check_inputs
from askew.core.errors import AskewError, first_line, shown, suggest
from askew.data.rows import Rows, read_rows, rows_of
from askew.engine.build import prepared
from askew.engine.device import available
from askew.engine.evaluate import in_parts
from askew.runs.deployed import Deployed, network_of, put_personal, put_weights, step_of
from askew.runs.model_file import PERSONAL, About, read_about
from askew.runs.run_folder import FAILED, INTERRUPTED, MODEL, RunFolder

MOST_NAMES = 20  # of clients in an error


class Trained:
    """The model or models of a finished run; made by `askew.load`.

    Args:
        folder: the run folder.
        about: what its model.json says.
        model: the network of one's own, where the run was given one.
        device: on which it predicts.
    """

    def __init__(self, folder: RunFolder, about: About, model: nn.Module | None, device: torch.device) -> None:
        self._folder, self.about, self._device = folder, about, device
        self._network = network_of(about, model)
        self._steps = [step_of(spec) for spec in about.preprocess]
        self._modules: dict[int, Deployed] = {}
        self._for(next(iter(map(int, about.models))), None)  # what does not fit is refused now

    def __repr__(self) -> str:
        about = self.about
        many = f", {len(about.models)} models" if len(about.models) > 1 else ""
        personal = f", {self._personal_names} of each client's own" if about.personal else ""
        return (f"<Trained {about.network or about.network_class} on {about.data}: {about.recipe}, {about.rounds} "
                f"rounds, {len(about.classes)} {about.targets}{many}{personal}>")

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, or of the numbers, labels or tokens that are predicted."""
        return self.about.classes

    @property
    def clients(self) -> tuple[str, ...] | None:
        """The clients' names."""
        return self.about.clients

    @property
    def columns(self) -> Columns | None:
        """How rows of a table become inputs, where the data were one."""
        return self.about.table

    @property
    def module(self) -> Deployed:
        """A plain PyTorch network from stored inputs to outputs; of several models, the one that most clients use."""
        return self.module_for(None)

    @checked
    def module_for(self, client: str | int | None) -> Deployed:
        """The same for one client: the model that it uses, with the tensors that it keeps for itself."""
        return self._for(*self._model_of(client))

    @checked
    def predict(self, x: Any, client: str | int | None = None) -> np.ndarray:
        """What the model says of each example, as the data write it: classes by their names (whole numbers as such),
        numbers, labels as 0 and 1, tokens.

        Args:
            x: inputs as the data store them (bytes of images), or a table: a list of dicts, pandas' data frame, ...; or
                the path of a CSV, Parquet or .npz file (with an array x).
            client: whose model; rows of a table that name their client have the model of that one.
        """
        outputs = self.outputs(x, client)
        if self.about.targets == "numbers":
            numbers = outputs.numpy()
            return numbers[:, 0] if numbers.ndim == 2 and numbers.shape[1] == 1 else numbers
        if self.about.targets == "labels":
            return (outputs > 0).numpy().astype(np.int64)
        return self._names[outputs.argmax(dim=-1).numpy()]

    @checked
    def predict_proba(self, x: Any, client: str | int | None = None) -> np.ndarray:
        """How likely each class, label or token is; arguments as of `predict`."""
        if self.about.targets == "numbers":
            raise AskewError("predict_proba: the model predicts numbers, which have no probabilities; use predict")
        outputs = self.outputs(x, client)
        return (outputs.sigmoid() if self.about.targets == "labels" else outputs.softmax(dim=-1)).numpy()

    @checked
    def outputs(self, x: Any, client: str | int | None = None) -> Tensor:
        """The network's outputs, float32 [examples, ...]; arguments as of `predict`."""
        where = str(x) if isinstance(x, str | Path) else "predict"
        if isinstance(x, str | Path) and where.endswith(".npz"):
            arrays = read_arrays(x, ".npz file")
            if "x" not in arrays:
                raise AskewError(f"{where}: no array 'x'; it has {', '.join(arrays) or 'none'}")
            x = arrays["x"]
            if x.ndim == len(self.about.input_shape) == 3:
                x = x[:, None]  # grey images, whose channel `npz(...)` adds
        rows = self.read(x) if isinstance(x, str | Path) else rows_of(where, x)
        if rows is None:
            return self._run(self._stored(x), *self._model_of(client))
        table = self._table(where, rows)
        inputs = table.encode(where, {name: values for name, values in rows.items() if values is not None})
        if client is not None or table.client not in rows or not (self.about.choice or self.about.personal):
            return self._run(inputs, *self._model_of(client))
        owners = rows[table.client]
        return self._by_client(inputs, [None] * len(inputs) if owners is None else named(owners))

    @checked
    def read(self, path: str | Path) -> Rows:
        """The columns of a file, read as that of the training data was."""
        return read_rows(path, None if self.about.table is None else self.about.table.delimiter)

    @cached_property
    def _names(self) -> np.ndarray:
        names = self.about.classes
        if self.about.targets == "tokens":
            return np.arange(len(names))
        all_whole = all(re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", name) for name in names)
        return np.array([int(name) for name in names]) if all_whole else np.array(names, object)

    def _table(self, where: str, rows: Rows) -> Columns:
        table = self.about.table
        if table is None:
            raise AskewError(f"{where}: the model was not trained on a table; give inputs as arrays {self._wanted}")
        table.check(where, list(rows))
        for name in table.used:
            if rows[name] is None:
                raise AskewError(f"{where}: column {name!r} holds lists or records, not one value per row")
        return table

    @property
    def _wanted(self) -> str:
        return f"[examples, {', '.join(map(str, self.about.input_shape))}] of {self.about.input_dtype}"

    def _stored(self, x: Any) -> Tensor:
        """Inputs of any type as the data store them; whatever is not the same numbers in that type is refused."""
        if not isinstance(x, Tensor):
            try:
                x = torch.from_numpy(np.array(x))
            except (TypeError, ValueError, RuntimeError, OverflowError) as error:
                raise AskewError(f"predict: {type(x).__name__} is neither inputs {self._wanted} nor a table "
                                 f"({first_line(error)})") from None
        x = x.detach().cpu()
        if tuple(x.shape[1:]) != self.about.input_shape or x.ndim == 0 or len(x) == 0:
            alone = "; for one example write x[None]" if tuple(x.shape) == self.about.input_shape else ""
            raise AskewError(f"predict: inputs of shape {list(x.shape)}, where {self._wanted} are needed{alone}")
        dtype = self.about.dtype
        if x.is_complex() or (x.is_floating_point() and not dtype.is_floating_point):
            raise AskewError(f"predict: inputs are {str(x.dtype).removeprefix('torch.')}, and the data were stored as "
                             f"{self.about.input_dtype}{' (0..255)' if dtype == torch.uint8 else ''}; give them as "
                             "they were stored")
        stored = x.to(dtype)
        # As int64: torch knows little of other wide integers.
        numbers = x.to(torch.int64) if not dtype.is_floating_point else None
        if numbers is not None and not torch.equal(stored.to(torch.int64), numbers):
            raise AskewError(f"predict: inputs hold {int(numbers.min())}..{int(numbers.max())}, which "
                             f"{self.about.input_dtype} cannot; give them as the data store them")
        check_inputs("predict", stored)
        return stored

    def _run(self, x: Tensor, number: int, row: int | None) -> Tensor:
        module = self._for(number, row)
        try:
            with torch.no_grad():
                return torch.cat([module(part.to(self._device)).float().cpu()
                                  for part in in_parts(x, self._device)])
        except (RuntimeError, IndexError) as error:  # a token beyond the vocabulary, memory
            raise AskewError(f"predict: the network does not take these inputs: {first_line(error)}") from None

    def _by_client(self, inputs: Tensor, names: list[str | None]) -> Tensor:
        """Each row with the model of its client."""
        outputs: list[Tensor] = [torch.zeros(0)] * len(names)
        of_client: dict[str | None, list[int]] = {}
        for row, name in enumerate(names):
            of_client.setdefault(name, []).append(row)
        for name, rows in of_client.items():
            known = name is not None and name in (self.about.clients or ())
            if not known and self.about.personal:
                raise AskewError(f"predict: row {rows[0] + 1} is of client {shown(name)}, who has no model of its own; "
                                 f"{self._known(name)}")
            for row, output in zip(rows, self._run(inputs[rows], *self._model_of(name if known else None)),
                                   strict=True):
                outputs[row] = output
        return torch.stack(outputs)

    @property
    def _personal_names(self) -> str:
        names = self.about.personal or ()
        return ", ".join(names[:2]) + (f" and {len(names) - 2} more tensors" if len(names) > 2 else "")

    def _known(self, name: object) -> str:
        return suggest(name, (self.about.clients or ())[:MOST_NAMES])

    def _model_of(self, client: str | int | None) -> tuple[int, int | None]:
        """The number of a client's model, and its row of tensors of its own."""
        about = self.about
        first = int(next(iter(about.models)))
        if client is None:
            if about.personal:
                raise AskewError(f"each client has {self._personal_names} of its own: name one (client=, --client); "
                                 f"{self._known('')}")
            return first, None
        if about.clients is None:
            raise AskewError(f"client {shown(client)}: all clients of this run use one model, and their names are not "
                             "kept; leave it out")
        if str(client) not in about.clients:
            raise AskewError(f"unknown client {shown(client)}; {self._known(client)}")
        at = about.clients.index(str(client))
        return first if about.choice is None else about.choice[at], at if about.personal else None

    def _for(self, number: int, row: int | None) -> Deployed:
        """A model with its preprocessing; shared ones are made once, those of single clients each time."""
        if row is not None or number not in self._modules:
            network = copy.deepcopy(self._network)
            weights = self._folder.load_weights(self.about.models[str(number)].removesuffix(".safetensors"))
            put_weights(network, weights, self._folder.path)
            if row is not None:
                put_personal(network, self._personal, row, self._folder.path)
            x = torch.zeros(2, *self.about.input_shape, dtype=self.about.dtype)
            module = Deployed(network, prepared(self._steps, network, x)).eval().to(self._device)
            if row is not None:
                return module.requires_grad_(False)
            self._modules[number] = module.requires_grad_(False)
        return self._modules[number]

    @cached_property
    def _personal(self) -> dict[str, Tensor]:
        return self._folder.load_weights(PERSONAL)


@checked
def load(folder: str | Path, model: nn.Module | None = None, device: str = "cpu") -> Trained:
    """The trained model of a run folder, to be used: `predict`, `predict_proba`, `module`. No file runs code.

    Args:
        folder: of a finished run.
        model: the network, where the run was given one of your own; its weights do not matter.
        device: where it predicts.

    Example:
        model = askew.load("runs/first")
        model.predict("visits.csv"), model.predict(images), model.module
    """
    run = RunFolder.open(Path(folder))
    if "stopped" not in run.summary or run.summary["stopped"] is not None:
        stopped = run.summary.get("stopped")
        if stopped not in (None, INTERRUPTED, FAILED):
            raise AskewError(f"{str(folder)!r} has no model to use: training broke off ({stopped})")
        why = {None: "has not ended", INTERRUPTED: "was interrupted", FAILED: "failed"}[stopped]
        raise AskewError(f"{str(folder)!r} has no model to use yet: the run {why}; continue with: askew resume "
                         f"{folder}")
    if not (run.path / MODEL).exists():
        raise AskewError(f"{str(folder)!r} is of an earlier version of askew, which did not write {MODEL}; train it "
                         "again, or load its weights into your network yourself")
    about = read_about(run.path / MODEL)
    run.check_files()
    return Trained(run, about, model, available(device))

"""What a trained model says of the sequences in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import DataError, Split, tokenize
from ..data.own import read_csv, read_parquet
from .objective import every_step
from .saved import SavedModel

BATCH = 256
PADDING, UNKNOWN = 0, 1  # token ids


def predict(saved: SavedModel, path: Path) -> list[dict[str, Any]]:
    """An answer for each sequence of a file.

    classify: ``class`` and ``probability``. regress and predict: ``value``, of the sequence or
    of the step after its last. tag: ``classes``, one for each step.
    """
    split = read_inputs(saved, path)
    answers: list[dict[str, Any]] = []
    for first in range(0, len(split), BATCH):
        inputs = split.inputs[first : first + BATCH]
        lengths = None if split.lengths is None else split.lengths[first : first + BATCH]
        with torch.no_grad():
            output = saved.model(inputs, lengths)
        sizes = [inputs.shape[1]] * len(inputs) if lengths is None else lengths.tolist()
        answers += [_answer(saved, y, n) for y, n in zip(output, sizes, strict=True)]
    return answers


def _answer(saved: SavedModel, output: Tensor, length: int) -> dict[str, Any]:
    """Output (n_out,), or (L, n_out) for the tasks that answer at every step."""
    if saved.task == "tag":
        return {"classes": [_class(saved, k) for k in output[:length].argmax(-1).tolist()]}
    if saved.task == "classify":
        chances = output.softmax(-1)
        best = int(chances.argmax())
        return {"class": _class(saved, best), "probability": round(float(chances[best]), 6)}
    value = output[length - 1] if every_step(saved.task) else output
    if saved.scaling is not None:
        value = value * torch.tensor(saved.scaling.std) + torch.tensor(saved.scaling.mean)
    return {"value": value.tolist()}


def _class(saved: SavedModel, index: int) -> str:
    return saved.classes[index] if saved.classes else str(index)


def read_inputs(saved: SavedModel, path: Path) -> Split:
    """The sequences of a file, as the model reads them.

    .npz: ``sequences`` (N, L) or (N, L, C), and ``lengths`` if they differ; or one ``series``.
    .csv, .parquet: a row a sequence (a column ``label`` is passed over); for a model of one
    series: a row a step. .txt, for a model of words: a line a text.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; check the path")
    if saved.model.embedding is not None:
        return _texts(saved, path)
    if path.suffix == ".npz":
        values, lengths = _arrays(path)
    elif path.suffix in (".csv", ".parquet"):
        values, lengths = _table(saved, path)
    else:
        raise DataError(f"{path}: expected .npz, .csv or .parquet")
    return _checked(saved, path, values, lengths)


def _arrays(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path}: cannot be read as .npz of plain arrays ({error})") from error
    if "series" in arrays:
        return arrays["series"].reshape(1, len(arrays["series"]), -1), None
    if "sequences" not in arrays:
        raise DataError(f"{path}: holds {', '.join(arrays)}; expected sequences, or series")
    values = arrays["sequences"]
    return values.reshape(*values.shape[:2], -1), arrays.get("lengths")


def _table(saved: SavedModel, path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    table = read_csv(path) if path.suffix == ".csv" else read_parquet(path)
    columns = [cells for name, cells in table.items() if name != "label"]
    rows = [[cell for cell in row if cell not in ("", None)] for row in zip(*columns, strict=True)]
    try:
        sequences = [np.array(row, dtype=np.float64) for row in rows]
    except ValueError as error:
        raise DataError(f"{path}: holds what is not a number ({error})") from None
    if saved.scaling is not None:
        return np.array(sequences)[None], None  # one series, a row a step
    lengths = np.array([len(row) for row in sequences])
    values = np.zeros((len(sequences), lengths.max(initial=1), 1))
    for target, row in zip(values, sequences, strict=True):
        target[: len(row), 0] = row
    return values, lengths


def _texts(saved: SavedModel, path: Path) -> Split:
    lines = [tokenize(line) for line in path.read_text().splitlines() if line.strip()]
    if path.suffix != ".txt" or not lines:
        raise DataError(f"{path}: expected a .txt file with a text on each line")
    index = {word: i for i, word in enumerate(saved.words)}
    ids = torch.full((len(lines), saved.seq_len), PADDING)
    for row, line in zip(ids, lines, strict=True):
        known = [index.get(word, UNKNOWN) for word in line[: saved.seq_len]]
        row[: len(known)] = torch.tensor(known, dtype=torch.int64)
    lengths = torch.tensor([min(max(len(line), 1), saved.seq_len) for line in lines])
    return Split(ids, ids, lengths)


def _checked(
    saved: SavedModel, path: Path, values: np.ndarray, lengths: np.ndarray | None
) -> Split:
    """The values as a part of a data set, once they fit the model."""
    n, steps, width = values.shape
    if width != saved.input_size:
        raise DataError(f"{path}: has {width} numbers a step, the model reads {saved.input_size}")
    if saved.scaling is not None:
        values = (values[:, -saved.seq_len :] - saved.scaling.mean) / saved.scaling.std
    longest = values.shape[1] if lengths is None else int(lengths.max(initial=0))
    if n == 0 or steps == 0 or (lengths is not None and lengths.min() < 1):
        raise DataError(f"{path}: holds no sequences, or an empty one")
    if longest > saved.seq_len:
        raise DataError(
            f"{path}: has a sequence of {longest} steps, the model reads at most {saved.seq_len}"
        )
    inputs = torch.from_numpy(values.astype(np.float32))[:, : saved.seq_len]
    true = None if lengths is None else torch.from_numpy(lengths.astype(np.int64))
    return Split(inputs, inputs, true)

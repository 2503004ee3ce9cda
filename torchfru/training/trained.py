"""A trained model, loaded from its run, and its predictions for the sequences of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import DataError, DataSpec, Split, tokenize
from ..data.imdb import token_ids
from ..data.user_file import holds_sequences, read_sequences, read_series
from ..io import file_problem
from ..nn import SequenceModel
from ..records import RunResult, checkpoint_folder
from .checkpoint import NAME, Checkpoint, restore_weights
from .config import RunConfig
from .loop import build_model
from .objective import every_step

BATCH = 256


@dataclass(frozen=True)
class TrainedModel:
    """A model in evaluation mode, and the description of the data that it was trained on."""

    model: SequenceModel
    data: DataSpec


def load_trained(run: str, results: Path) -> TrainedModel:
    """The model of a run: by its record, by ``experiment/model-seed0``, or by its checkpoint."""
    path = find_checkpoint(run, results)
    checkpoint = Checkpoint.load(path)
    try:
        config = RunConfig.from_dict(checkpoint.config)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ValueError(
            f"{path}: its configuration does not describe a model; train it again"
        ) from None
    try:
        spec = DataSpec.from_dict(checkpoint.data)
        _require_sizes(config, spec, checkpoint)
        model = build_model(config, spec, checkpoint.seed)
    except (TypeError, AttributeError, RuntimeError, ValueError) as error:
        known = f": {error}" if isinstance(error, ValueError) else ""
        raise ValueError(f"{path} does not describe a model{known}; train it again") from None
    restore_weights(model, checkpoint, path)
    return TrainedModel(model.eval(), spec)


def _require_sizes(config: RunConfig, spec: DataSpec, checkpoint: Checkpoint) -> None:
    """Compare the sizes that a checkpoint names with its weights, before anything is allocated."""
    weights = {name: value.shape for name, value in checkpoint.weights.items()}
    elements = sum(shape.numel() for shape in weights.values())
    sizes = config.model.options()
    sizes |= {name: getattr(spec, name) for name in ("input_size", "output_size", "vocab_size")}
    if spec.vocab_size is None:
        del sizes["embedding_size"]  # nothing is embedded
    for name, size in sizes.items():
        if isinstance(size, int) and size > (len(weights) if name == "num_layers" else elements):
            raise ValueError(f"its {name} is {size}, too much for its weights")
    with torch.device("meta"):
        model = build_model(config, spec, checkpoint.seed)
    if weights != {name: value.shape for name, value in model.state_dict().items()}:
        raise ValueError("its weights do not have the sizes that it names")


def find_checkpoint(run: str, results: Path) -> Path:
    """The path of the checkpoint of a run."""
    path = Path(run)
    if path.suffix == ".safetensors":
        problem = file_problem(path)
        if problem is not None:
            raise ValueError(f"{path}: {problem}")
        return path
    if path.suffix != ".json":
        path = results / f"{run}.json"
    record = RunResult.load(path)
    folder = checkpoint_folder(
        path.absolute().parents[1], path.absolute().parent.name, record.model, record.seed
    )
    if not (folder / NAME).is_file():
        raise ValueError(f"{path} has no checkpoint at {folder / NAME}; train it again")
    return folder / NAME


def predict_file(trained: TrainedModel, path: Path) -> list[dict[str, Any]]:
    """The prediction for each sequence of a file.

    classify: ``class`` and ``probability``. regress and predict: ``value``, of the sequence or
    of the step after its last. tag: ``classes``, one for each step.
    """
    split = read_inputs(trained, path)
    predictions: list[dict[str, Any]] = []
    for first in range(0, len(split), BATCH):
        inputs = split.inputs[first : first + BATCH]
        lengths = None if split.lengths is None else split.lengths[first : first + BATCH]
        with torch.no_grad():
            output = trained.model(inputs, lengths)
        sizes = [inputs.shape[1]] * len(inputs) if lengths is None else lengths.tolist()
        predictions += [_describe(trained.data, y, n) for y, n in zip(output, sizes, strict=True)]
    return predictions


def _describe(spec: DataSpec, output: Tensor, length: int) -> dict[str, Any]:
    """Output (n_out,), or (L, n_out) for the tasks with an output at every step."""
    output = output[:length] if every_step(spec.task) else output
    if spec.task == "tag":
        _require_finite(output)
        return {"classes": [_class(spec, k) for k in output.argmax(-1).tolist()]}
    if spec.task == "classify":
        chances = _require_finite(output.softmax(-1))
        best = int(chances.argmax())
        return {"class": _class(spec, best), "probability": round(float(chances[best]), 6)}
    value = output[-1] if every_step(spec.task) else output
    if spec.scaling is not None:
        value = value * torch.tensor(spec.scaling.std) + torch.tensor(spec.scaling.mean)
    return {"value": _require_finite(value).tolist()}


def _require_finite(output: Tensor) -> Tensor:
    if not bool(output.isfinite().all()):
        raise ValueError(
            "the model's output is not finite: the run has diverged, or the values are far larger "
            "than those it was trained on"
        )
    return output


def _class(spec: DataSpec, index: int) -> str:
    return spec.classes[index] if spec.classes else str(index)


def read_inputs(trained: TrainedModel, path: Path) -> Split:
    """The sequences of a file, read and scaled as the training data were.

    .npz: ``sequences`` (N, L) or (N, L, C), and ``lengths`` if they differ; or one ``series``.
    .csv, .parquet: a sequence per row (the column of labels is skipped), or for a model of one
    series: a step per row. .txt, for a model of words: a text per line.
    """
    spec = trained.data
    if trained.model.embedding is not None:
        return _read_texts(spec, path)
    if spec.scaling is None or holds_sequences(path):
        values, lengths = read_sequences(path, spec)[:2]
        _check(spec, path, values.shape[2], int(lengths.max()))
        ragged = bool((lengths < values.shape[1]).any())
        return _split(spec, values, lengths if ragged else None)
    series = read_series(path, spec).values
    _check(spec, path, series.shape[1], 0)
    return _split(spec, series[None, -spec.seq_len :], None)


def _split(spec: DataSpec, values: np.ndarray, lengths: np.ndarray | None) -> Split:
    if spec.scaling is not None:
        values = (values - spec.scaling.mean) / spec.scaling.std
    inputs = torch.from_numpy(np.ascontiguousarray(values, np.float32))
    return Split(inputs, inputs, None if lengths is None else torch.from_numpy(lengths))


def _check(spec: DataSpec, path: Path, channels: int, longest: int) -> None:
    if channels != spec.input_size:
        raise DataError(
            f"{path}: has {channels} features per step, the model reads {spec.input_size}"
        )
    if longest > spec.seq_len:
        raise DataError(
            f"{path}: has a sequence of {longest} steps, the model reads at most {spec.seq_len}"
        )


def _read_texts(spec: DataSpec, path: Path) -> Split:
    problem = file_problem(path)
    if problem is not None:
        raise DataError(f"{path}: {problem}")
    if path.suffix != ".txt":
        raise DataError(f"{path}: expected a .txt file with a text on each line")
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip().split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8; save it in UTF-8") from None
    texts = [tokenize(line)[: spec.seq_len] for line in lines]
    for i, text in enumerate(texts):
        if not text:
            raise DataError(f"{path}: line {i + 1} has no words; give each line a text")
    ids = torch.from_numpy(token_ids(texts, spec.words, spec.seq_len).astype(np.int64))
    return Split(ids, ids, torch.tensor([len(text) for text in texts]))

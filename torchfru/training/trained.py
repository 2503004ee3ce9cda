"""A trained model, loaded from its run, and its predictions for the sequences of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data import DataSpec
from ..data.imdb import read_texts
from ..data.user_file import read_inputs
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
    except ValueError:
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
        if problem := file_problem(path):
            raise ValueError(f"{path}: {problem}")
        return path
    if path.suffix != ".json":
        path = results / f"{run}.json"
    record, place = RunResult.load(path), path.absolute().parent
    folder = checkpoint_folder(place.parent, place.name, record.model, record.seed)
    if not (folder / NAME).is_file():
        raise ValueError(f"{path} has no checkpoint at {folder / NAME}; train it again")
    return folder / NAME


def predict_file(trained: TrainedModel, path: Path) -> list[dict[str, Any]]:
    """The prediction for each sequence of a file.

    classify: ``class`` and ``probability``. regress and predict: ``value``, of the sequence or
    of the step after its last. tag: ``classes``, one for each step.

    .npz: ``sequences`` (N, L) or (N, L, C), and ``lengths`` if they differ; or one ``series``.
    .csv, .parquet: a sequence per row (the column of labels is skipped), or for a model of one
    series: a step per row. .txt, for a model of words: a text per line.
    """
    spec = trained.data
    read = read_inputs if trained.model.embedding is None else read_texts
    split, predictions = read(path, spec), []
    for first in range(0, len(split), BATCH):
        part = split[first : first + BATCH]
        with torch.no_grad():
            output = trained.model(part.inputs, part.lengths)
        whole = torch.full((len(part),), part.inputs.shape[1])
        sizes = (whole if part.lengths is None else part.lengths).tolist()
        predictions += [_describe(spec, y, n) for y, n in zip(output, sizes, strict=True)]
    return predictions


def _describe(spec: DataSpec, output: Tensor, length: int) -> dict[str, Any]:
    """Output (n_out,), or (L, n_out) for the tasks with an output at every step."""
    if every_step(spec.task):
        output = output[:length] if spec.task == "tag" else output[length - 1]
    if spec.task == "classify":
        output = output.softmax(-1)
    elif spec.scaling is not None:
        output = output * torch.tensor(spec.scaling.std) + torch.tensor(spec.scaling.mean)
    if not bool(output.isfinite().all()):
        raise ValueError(
            "the model's output is not finite: the run has diverged, or the values are far larger "
            "than those it was trained on"
        )
    names = spec.classes or tuple(map(str, range(spec.output_size)))
    if spec.task == "tag":
        return {"classes": [names[k] for k in output.argmax(-1).tolist()]}
    if spec.task == "classify":
        best = int(output.argmax())
        return {"class": names[best], "probability": round(float(output[best]), 6)}
    return {"value": output.tolist()}

"""A trained model, loaded from its run, and its predictions for the sequences of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data import DataSpec, Split
from ..data.imdb import read_texts
from ..data.user_file import read_inputs
from ..io import file_problem
from ..nn import AnyModel
from ..records import RunResult, folder_beside
from .checkpoint import NAME, Checkpoint, restore_weights
from .config import RunConfig
from .forecast import quantile_offsets, spread
from .loop import build_model
from .objective import every_step

BATCH = 256
COUNTS = ("members", "num_layers")  # of parts that have weights of their own
INTERVAL = 0.8  # the share of values that the interval of a forecast should hold


@dataclass(frozen=True)
class TrainedModel:
    """A model in evaluation mode, and the description of the data that it was trained on."""

    model: AnyModel
    data: DataSpec
    errors: dict[str, Any] | None = None  # of forecasts: how large they are, for intervals

    @torch.no_grad()
    def outputs(self, split: Split) -> Tensor:
        """The outputs for scaled sequences, (N, n_out) or (N, L, n_out), some at a time."""
        parts = (split[first : first + BATCH] for first in range(0, len(split), BATCH))
        return torch.cat([self.model(part.inputs, part.lengths) for part in parts])


def load_trained(run: str, results: Path) -> TrainedModel:
    """The model of a run: by its record, by ``experiment/model-seed0``, or by its checkpoint."""
    path = find_checkpoint(run, results)
    return trained_from(Checkpoint.load(path).at_best(), path)


def trained_from(checkpoint: Checkpoint, path: Path) -> TrainedModel:
    """The model of a checkpoint, which was read from ``path``."""
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
    return TrainedModel(model.eval(), spec, checkpoint.measurements.get("errors"))


def _require_sizes(config: RunConfig, spec: DataSpec, checkpoint: Checkpoint) -> None:
    """Compare the sizes that a checkpoint names with its weights, before anything is allocated."""
    weights = {name: value.shape for name, value in checkpoint.weights.items()}
    elements = sum(shape.numel() for shape in weights.values())
    sizes = config.model.options() | {"members": config.model.members}
    sizes |= {name: getattr(spec, name) for name in ("input_size", "output_size", "vocab_size")}
    if spec.vocab_size is None:
        del sizes["embedding_size"]  # nothing is embedded
    for name, size in sizes.items():
        if isinstance(size, int) and size > (len(weights) if name in COUNTS else elements):
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
    folder = folder_beside(path, RunResult.load(path))
    if not (folder / NAME).is_file():
        raise ValueError(f"{path} has no checkpoint at {folder / NAME}; train it again")
    return folder / NAME


def predict_file(trained: TrainedModel, path: Path) -> list[dict[str, Any]]:
    """The prediction for each sequence of a file.

    classify: ``class``, its ``probability``, and ``probability_of`` each class by name. regress
    and predict: ``value``, of the sequence or of the step after its last; by name where a table
    had several columns. tag: ``classes``, one for each step.

    A model that forecasts a block of steps gives ``step``, ``value`` and the interval that should
    hold four of five values, ``low`` and ``high``, for each one; by name where there are several
    channels.

    .npz: ``sequences`` (N, L) or (N, L, C), and ``lengths`` if they differ; or one ``series``.
    .csv, .parquet: a sequence per row (the column of labels is skipped), or for a model of one
    series: a step per row. .txt, for a model of words: a text per line.
    """
    spec = trained.data
    read = read_inputs if trained.model.embedding is None else read_texts
    split = read(path, spec)
    if spec.horizon is not None:
        return _describe_steps(trained, split)
    whole = torch.full((len(split),), split.inputs.shape[1])
    sizes = (whole if split.lengths is None else split.lengths).tolist()
    return [_describe(spec, y, n) for y, n in zip(trained.outputs(split), sizes, strict=True)]


def _describe_steps(trained: TrainedModel, split: Split) -> list[dict[str, Any]]:
    """For each step ahead, ``value`` of each channel, and the bounds of an interval."""
    spec, scaled = trained.data, trained.outputs(split)  # (S, horizon n)
    assert spec.scaling is not None
    assert spec.horizon is not None
    lines = {"value": scaled}
    if trained.errors is not None:
        size = spread(split.inputs, spec.output_size // spec.horizon, spec.horizon)
        for name, level in (("low", (1 - INTERVAL) / 2), ("high", (1 + INTERVAL) / 2)):
            lines[name] = scaled + quantile_offsets(trained.errors, size, level)
    mean, std = torch.tensor(spec.scaling.mean), torch.tensor(spec.scaling.std)
    found = {}
    names = tuple(map(spec.channel, range(spec.channels)))
    for name, line in lines.items():
        steps = line.unflatten(1, (spec.horizon, -1)).transpose(0, 1).flatten(1)  # (horizon, C)
        values = (steps * std + mean).tolist()
        found[name] = [dict(zip(names, v, strict=True)) if len(names) > 1 else v for v in values]
    rows = zip(*found.values(), strict=True)
    return [{"step": i + 1, **dict(zip(found, row, strict=True))} for i, row in enumerate(rows)]


def _describe(spec: DataSpec, output: Tensor, length: int) -> dict[str, Any]:
    """Output (n_out,), or (L, n_out) for the tasks with an output at every step."""
    if every_step(spec.task):
        output = output[:length] if spec.task == "tag" else output[length - 1]
    if spec.task == "classify":
        output = output.softmax(-1)
    elif (scaling := spec.output_scaling) is not None:
        output = output * torch.tensor(scaling.std) + torch.tensor(scaling.mean)
    if not bool(output.isfinite().all()):
        raise ValueError(
            "the model's output is not finite: the run has diverged, or the values are far larger "
            "than those it was trained on"
        )
    names = spec.classes or tuple(map(str, range(spec.output_size)))
    if spec.task == "tag":
        return {"classes": [names[k] for k in output.argmax(-1).tolist()]}
    if spec.task == "classify":
        best, chances = int(output.argmax()), [round(p, 6) for p in output.tolist()]
        of = dict(zip(names, chances, strict=True))
        return {"class": names[best], "probability": chances[best], "probability_of": of}
    if spec.task == "predict" and spec.reading is not None and spec.output_size > 1:
        return {"value": {spec.channel(i): value for i, value in enumerate(output.tolist())}}
    return {"value": output.tolist()}

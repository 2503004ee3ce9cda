"""A trained model, loaded from its run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..data import DataSpec
from ..io import file_problem
from ..nn import SequenceModel
from ..results import RunResult, checkpoint_folder
from .checkpoint import NAME, Checkpoint, restore_weights
from .config import RunConfig
from .loop import build_model


@dataclass(frozen=True)
class SavedModel:
    """A model in evaluation mode, and the description of the data that it was trained on."""

    model: SequenceModel
    data: DataSpec


def load_model(run: str, results: Path) -> SavedModel:
    """The model of a run: by its record, by ``experiment/model-seed0``, or by its checkpoint."""
    path = find_weights(run, results)
    checkpoint = Checkpoint.load(path)
    try:
        config = RunConfig.from_dict(checkpoint.config)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ValueError(
            f"{path}: its configuration does not describe a model; train it again"
        ) from None
    try:
        spec = DataSpec.from_dict(checkpoint.data)
        model = build_model(config, spec, checkpoint.seed)
    except (TypeError, AttributeError, RuntimeError, ValueError) as error:
        known = f": {error}" if isinstance(error, ValueError) else ""
        raise ValueError(f"{path} does not describe a model{known}; train it again") from None
    restore_weights(model, checkpoint, path)
    return SavedModel(model.eval(), spec)


def find_weights(run: str, results: Path) -> Path:
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

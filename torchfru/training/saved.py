"""A trained model, brought back from its run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..data import Scaling, SequenceData, Split, Task
from ..experiments.config import RunConfig
from ..nn import SequenceModel
from ..results import RunResult, checkpoint_folder
from .checkpoint import Checkpoint, restore_weights
from .module import build_model
from .run import CHECKPOINT


@dataclass(frozen=True)
class SavedModel:
    """A model in evaluation mode, and what its answers mean."""

    model: SequenceModel
    task: Task
    input_size: int
    output_size: int
    seq_len: int
    classes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    scaling: Scaling | None = None


def load_model(run: str, results: Path) -> SavedModel:
    """The model of a run: by its record, by ``experiment/model-seed0``, or by its checkpoint."""
    path = find_weights(run, results)
    checkpoint = Checkpoint.load(path)
    try:
        config, known = RunConfig.from_dict(checkpoint.config), checkpoint.data
        scaling = known["scaling"] and Scaling(*map(tuple, known["scaling"].values()))
        model = build_model(config, _sizes(checkpoint), checkpoint.seed)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} does not describe a model: {error}") from None
    restore_weights(model, checkpoint, path)
    return SavedModel(
        model.eval(),
        known["task"],
        known["input_size"],
        known["output_size"],
        known["seq_len"],
        tuple(known["classes"]),
        tuple(known["words"]),
        scaling,
    )


def find_weights(run: str, results: Path) -> Path:
    """Where the checkpoint of a run is."""
    path = Path(run)
    if path.suffix == ".safetensors":
        return path
    if path.suffix != ".json":
        path = results / f"{run}.json"
    record = RunResult.load(path)
    where = checkpoint_folder(path.parents[1], path.parent.name, record.model, record.seed)
    if not (where / CHECKPOINT).exists():
        raise ValueError(f"{path} has no checkpoint at {where / CHECKPOINT}; train it again")
    return where / CHECKPOINT


def _sizes(checkpoint: Checkpoint) -> SequenceData:
    """As much of the data set as a model is built from."""
    nothing = Split(*[next(iter(checkpoint.weights.values()))[:0]] * 2)
    names = ("name", "task", "input_size", "output_size", "seq_len", "vocab_size")
    return SequenceData(
        train=nothing, test=nothing, **{name: checkpoint.data[name] for name in names}
    )

"""A trained model as ONNX: one step, checked against onnxruntime before it is written."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..io import write_atomically
from .trained import TrainedModel

CHECKED_STEPS, CHECKED_BATCH = 8, 3
TOLERANCE = 1e-4


def export_onnx(trained: TrainedModel, path: Path) -> float:
    """Write the step of a model as an ONNX file; gives the largest difference that was found.

    Inputs ``x`` and the state (``u``, ``t``, ``h``, ``c``, by layer), outputs ``output`` and the
    state after the step (``u_next``, ...), each for a batch of any size.
    """
    step = trained.model.step_model()
    content = _convert(step, trained)
    difference = _compare(step, trained, content)
    if not difference <= TOLERANCE:
        raise RuntimeError(
            f"onnxruntime gives other results than torch (difference {difference:.1e}); nothing "
            f"was written to {path}"
        )
    write_atomically(path, content)
    return difference


def _inputs(trained: TrainedModel, steps: int) -> Tensor:
    """Random input for some steps: (steps, N, n_in), or tokens (steps, N)."""
    make = torch.Generator().manual_seed(0)
    embedding = trained.model.embedding
    if embedding is not None:
        size = (steps, CHECKED_BATCH)
        return torch.randint(0, embedding.num_embeddings, size, generator=make)
    return torch.randn(steps, CHECKED_BATCH, trained.data.input_size, generator=make)


def _convert(step: Any, trained: TrainedModel) -> bytes:
    state = step.start(CHECKED_BATCH)
    batch = torch.export.Dim("batch")
    axes = tuple({axis: batch} for axis in step.batch_axes)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on torch's own deprecations
        program = torch.onnx.export(
            step,
            (_inputs(trained, 1)[0], *state),
            dynamo=True,
            verbose=False,
            external_data=False,
            input_names=["x", *step.state_names],
            output_names=["output", *(f"{name}_next" for name in step.state_names)],
            dynamic_shapes=({0: batch}, axes),
        )
    assert program is not None
    proto = program.model_proto
    notes: dict[str, Any] = {"task": trained.data.task, "seq_len": trained.data.seq_len}
    notes |= {"classes": trained.data.classes} if trained.data.classes else {}
    if trained.data.scaling is not None:
        notes |= {"mean": trained.data.scaling.mean, "std": trained.data.scaling.std}
    if (target := trained.data.target_scaling) is not None:
        notes |= {"target_mean": target.mean, "target_std": target.std}
    for key, value in notes.items():
        proto.metadata_props.add(key=f"torchfru.{key}", value=json.dumps(value))
    return proto.SerializeToString()


@torch.no_grad()
def _compare(step: Any, trained: TrainedModel, content: bytes) -> float:
    """Steps by onnxruntime against the whole sequence by torch, relative to the largest value."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    inputs = _inputs(trained, min(CHECKED_STEPS, trained.data.seq_len))  # (L, N, ...)
    expected = trained.model(inputs.transpose(0, 1))
    state = [value.numpy() for value in step.start(CHECKED_BATCH)]
    for x in inputs:
        feed = {"x": x.numpy(), **dict(zip(step.state_names, state, strict=True))}
        output, *state = session.run(None, feed)
    last = expected[:, -1] if trained.model.every_step else expected
    gap = (last - torch.from_numpy(output)).abs().max() / last.abs().max().clamp(min=1.0)
    return float(gap)

"""How much of an error reaches the initial state, or each layer of a deep network.

:class:`GradientProbe` is the paper's figure of gradients.

For each t, the norm of d (yhat(t) - y(t))^2 / d s(0), where s is all that a layer carries from
step to step: u of FRU, the averages of SRU, h of RNN and GRU, h and c of LSTM. It is the mean
over the first 16 test sequences and over 20 consecutive steps, in float64, since what vanishes
soon vanishes below float32. :class:`DepthProbe` has the layers in the place of the steps.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from torchfru.data import SequenceData
from torchfru.nn import SequenceModel
from torchfru.records import nan_to_none
from torchfru.training import Hook, Training

from .networks import DeepLayer

IMAGES, LAYERS = 64, 50
SEQUENCES, STEPS = 16, 20
NORMS = {"l1": 1.0, "l2": 2.0, "linf": float("inf")}


class ProbeHook(Hook):
    """Measures before training and after every ``training.probe_every`` epochs.

    The measurements take none of an epoch's seconds, and change nothing of the training.
    """

    probes = True
    probe: GradientProbe | DepthProbe

    def on_start(self, training: Training) -> None:
        if training.config.probe_every is not None:
            deep = isinstance(training.model.layer, DeepLayer)
            self.probe = (DepthProbe if deep else GradientProbe)(training.data)
            if not training.epochs:
                self._measure(training)

    def on_epoch(self, training: Training) -> None:
        every = training.config.probe_every
        if every is not None and len(training.epochs) % every == 0:
            self._measure(training)

    def _measure(self, training: Training) -> None:
        entries, model = training.measurements.setdefault("gradients", []), training.model
        assert isinstance(model, SequenceModel)
        entries.append({"epoch": len(training.epochs), **nan_to_none(self.probe(model))})


class GradientProbe:
    """``probe(model)`` gives ``step``, the first of each mean's steps, and the norms by name."""

    def __init__(self, data: SequenceData) -> None:
        if data.task != "predict":
            raise ValueError(
                "training.probe_every measures the error at every step, for which the task must "
                f"be predict; {data.name} is for {data.task}"
            )
        self.inputs = data.test.inputs[:SEQUENCES].double()  # (N, L, n_in)
        self.targets = data.test.targets[:SEQUENCES].double()  # (N, L, n_out)

    def __call__(self, model: SequenceModel) -> dict[str, list[Any]]:
        frozen = copy.deepcopy(model).double().eval().requires_grad_(False)
        length = self.inputs.shape[1]
        found: dict[str, list[Any]] = {"step": [], **{name: [] for name in NORMS}}
        for first in range(0, length, STEPS):
            gradients = self._gradients(frozen, first, min(first + STEPS, length))
            found["step"].append(first + 1)
            for name, order in NORMS.items():
                norms = torch.linalg.vector_norm(gradients, order, dim=-1)
                found[name].append(float(norms.mean()))
        return found

    def _gradients(self, model: SequenceModel, first: int, last: int) -> Tensor:
        """(steps * N, n_s): of the errors at steps first..last - 1, counted from 0.

        Each sequence is read once for each of the steps, from an initial state of its own, so
        that one backward pass gives all of them.
        """
        steps, device = last - first, next(model.parameters()).device
        x = self.inputs[:, :last].to(device).repeat(steps, 1, 1)
        y = self.targets[:, :last].to(device).repeat(steps, 1, 1)
        step = torch.arange(first, last, device=device).repeat_interleave(len(self.inputs))
        rows = torch.arange(len(x), device=device)
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # no cuDNN in eval
            state = model.layer.start_state(len(x), x)
            carried = [part.requires_grad_() for part in state if part.is_floating_point()]
            output, _ = model.layer(x, state)
            error = (model.head_output(output) - y)[rows, step].square().sum()
            found = torch.autograd.grad(error, carried)
        return torch.cat([part.transpose(0, 1).flatten(1) for part in found], -1)


class DepthProbe:
    """``probe(model)`` gives ``layer``, up to 50 numbers from 0 to L, and for each the L2 norm of
    d loss / d u_layer: the loss is the mean over the first 64 training images."""

    def __init__(self, data: SequenceData) -> None:
        self.inputs = data.train.inputs[:IMAGES].double()
        self.targets = data.train.targets[:IMAGES]

    def __call__(self, model: SequenceModel) -> dict[str, list[Any]]:
        frozen = copy.deepcopy(model).double().eval().requires_grad_(False)
        device = next(model.parameters()).device
        layer: DeepLayer = frozen.layer
        with torch.enable_grad():
            states = layer.states(self.inputs.to(device).requires_grad_())
            kept = list(states)
            output = frozen.head_output(layer.output(kept[-1]))
            loss = torch.nn.functional.cross_entropy(output, self.targets.to(device))
            depth = len(kept) - 1
            places = sorted({round(depth * i / LAYERS) for i in range(LAYERS + 1)})
            found = torch.autograd.grad(loss, [kept[place] for place in places])
        return {"layer": places, "l2": [float(gradient.norm()) for gradient in found]}

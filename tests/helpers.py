"""What several test files need: random layers, runs of them, and how far two runs are apart."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import assume, reject
from hypothesis import strategies as st
from torch import Tensor

import torchfru
from torchfru.ops.weights import NONLINEARITIES

FAST = tuple(name for name in torchfru.available_backends() if name != "reference")

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}

# For each of these a kernel is compiled anew, which takes most of the time of the tests: each
# dtype and each nonlinearity is among them, and all pairs only where a longer search is asked for.
KINDS = [
    (torch.float32, "relu"),
    (torch.float32, "tanh"),
    (torch.float64, "relu"),
    (torch.float64, "identity"),
]
if "TORCHFRU_EXAMPLES" in os.environ:
    KINDS += [(torch.float32, "identity"), (torch.float64, "tanh")]


@dataclass(frozen=True)
class Case:
    """One layer, and one batch for it."""

    arguments: dict[str, Any]
    steps: int
    batch: int
    started: int | None  # steps taken before; None: no state; -1: each sample its own number
    ragged: bool
    dtype: torch.dtype
    seed: int

    def build(self) -> torchfru.FRU:
        torch.manual_seed(self.seed)
        layer = torchfru.FRU(**self.arguments, dtype=self.dtype)
        for parameter in layer.parameters():  # larger than at the start, so that all terms count
            torch.nn.init.uniform_(parameter, -0.7, 0.7)
        return layer

    def inputs(self, layer: torchfru.FRU) -> dict[str, Any]:
        """Arguments for a call of the layer, made from the seed."""
        make = torch.Generator().manual_seed(self.seed)
        x = torch.randn(self.steps, self.batch, layer.input_size, generator=make, dtype=self.dtype)
        inputs: dict[str, Any] = {"input": x.requires_grad_()}
        layers = layer.num_layers * layer.num_directions
        if self.started is not None:
            size = (layers, self.batch, layer.state_size)
            u = torch.randn(size, generator=make, dtype=self.dtype).requires_grad_()
            t = torch.full((layers, self.batch), max(self.started, 0))
            if self.started < 0:
                t = torch.randint(0, 5, (layers, self.batch), generator=make)
            inputs["hx"] = (u, t)
        if self.ragged:
            inputs["lengths"] = torch.randint(0, self.steps + 1, (self.batch,), generator=make)
        return inputs


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Small layers of every kind that there is."""
    per_block = draw(st.sampled_from([1, 2, 3]))
    dtype, nonlinearity = draw(st.sampled_from(KINDS))
    steps = draw(st.integers(1, 14))
    started = draw(st.sampled_from([None, 0, 4, -1]))
    arguments = {
        "input_size": draw(st.integers(1, 3)),
        "hidden_size": draw(st.integers(1, 5)),
        "num_layers": draw(st.integers(1, 2)),
        "bias": draw(st.booleans()),
        "bidirectional": draw(st.booleans()),
        "seq_len": steps + 4 + draw(st.integers(0, 30)),
        "num_freqs": per_block * draw(st.integers(1, 4)),
        "freq_dim": draw(st.integers(1, 4)),
        "gate_size": draw(st.integers(1, 7)),
        "freqs_per_block": per_block,
        "basis": draw(st.sampled_from(["fourier", "chebyshev", "legendre", "walsh"])),
        "nonlinearity": nonlinearity,
        "return_sequences": draw(st.booleans()),
    }
    return Case(
        arguments,
        steps=steps,
        batch=draw(st.sampled_from([0, 1, 2, 3, 17])),
        started=started,
        ragged=draw(st.booleans()),
        dtype=dtype,
        seed=draw(st.integers(0, 10_000)),
    )


def results(layer: torch.nn.Module, inputs: dict[str, Any], backend: str) -> dict[str, Tensor]:
    """Output, final state, and the gradient of every parameter and input, by one backend."""
    layer.zero_grad()
    tensors = {"input": inputs["input"]}
    if "hx" in inputs:
        tensors["u0"] = inputs["hx"][0]
    for tensor in tensors.values():
        tensor.grad = None
    with torchfru.use_backend(backend):
        output, (u, t) = layer(**inputs)
        loss = (output * wave(output)).sum() + (u * wave(u)).sum()
        loss.backward()
    found = {"output": output, "u": u, "t": t}
    found |= {f"grad {name}": p.grad for name, p in layer.named_parameters()}
    found |= {f"grad {name}": tensor.grad for name, tensor in tensors.items()}
    return {name: value.detach().clone() for name, value in found.items()}


def definition(layer: torch.nn.Module, inputs: dict[str, Any]) -> dict[str, Tensor]:
    """The results by definition, in float64.

    Where the argument of a ReLU is 0 but for rounding, float32 cannot know its slope: an example
    with such an argument, or one on which the definition in float32 disagrees with itself in
    float64, has no gradient to compare with and is dropped.
    """
    arguments = [torch.ones(1)]

    def recorded_relu(a: Tensor) -> Tensor:
        arguments.append(a.detach().abs().flatten().float())
        return torch.relu(a)

    wide_inputs = {name: in_float64(value) for name, value in inputs.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(NONLINEARITIES, "relu", recorded_relu)
        wide = results(copy.deepcopy(layer).double(), wide_inputs, "reference")
    expected = {name: value.to(layer.weight_ug_l0.dtype) for name, value in wide.items()}
    expected["t"] = wide["t"]
    sizes = torch.cat(arguments)
    assume(not bool(((sizes > 0) & (sizes < 1e-6)).any()))
    try:
        assert_close(results(layer, inputs, "reference"), expected, 1e-5)
    except AssertionError:
        reject()
    return expected


def in_float64(value: Any) -> Any:
    """The tensors of a value in float64, as leaves; integers stay."""
    if isinstance(value, tuple):
        return tuple(in_float64(item) for item in value)
    if not value.is_floating_point():
        return value
    return value.detach().double().requires_grad_()


def wave(like: Tensor) -> Tensor:
    """Weights for a sum: different for every number, and none of them cancels another."""
    return 1 + torch.cos(torch.arange(like.numel(), dtype=like.dtype)).reshape(like.shape) / 2


def distance(a: Tensor, b: Tensor, scale: float) -> float:
    """The largest difference, relative to ``scale`` or, if that is more, to the values."""
    assert a.shape == b.shape
    if a.numel() == 0:
        return 0.0
    assert bool(torch.isfinite(a).all())
    assert bool(torch.isfinite(b).all())
    return ((a - b).abs().max() / max(b.abs().max().item(), scale)).item()


def assert_close(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    """Every entry agrees, relative to its largest value.

    An entry whose largest value is below a hundredth of the largest of all is a remainder of
    larger terms that cancelled, in which float32 has lost digits: that hundredth is its scale.
    """
    assert found.keys() == expected.keys()
    peak = max((v.abs().max().item() for v in expected.values() if v.numel()), default=0.0)
    for name, value in expected.items():
        gap = distance(found[name], value, scale=max(1e-2 * peak, 1e-30))
        assert gap <= tolerance, f"{name}: relative difference {gap:.2e} above {tolerance:.0e}"


@contextmanager
def empty_is_nan() -> Iterator[None]:
    """A new tensor without values is full of NaN: what is read before it is written shows."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert torch.empty(1).isnan().all()
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def bits(tensors):
    """The memory of tensors, as bytes."""
    return [tensor.detach().clone().view(torch.uint8) for tensor in tensors]


def assert_pure(layer, inputs):
    """Call the layer twice with gradients and once without; compare all that it was given."""
    state = list(inputs.get("hx", ()))
    given = [inputs["input"], *state, *layer.parameters(), *layer.buffers()]
    given += [inputs["lengths"]] if "lengths" in inputs else []
    before, found = bits(given), []
    for _ in range(2):
        output, (u, _) = layer(**inputs)
        upstream = [torch.randn_like(output), torch.randn_like(u)]
        as_given = bits(upstream)
        torch.autograd.backward([output, u], upstream)
        assert all(map(torch.equal, bits(upstream), as_given))
        found.append(bits([output, u]))
    with torch.no_grad():
        output, (u, _) = layer(**inputs)
    found.append(bits([output, u]))
    assert all(map(torch.equal, bits(given), before))
    assert all(all(map(torch.equal, again, found[0])) for again in found[1:])


def make_fru(**changes):
    arguments = {"seq_len": 20, "num_freqs": 4, "freq_dim": 3, "gate_size": 5}
    sizes = {"input_size": 3, "hidden_size": 6, "dtype": torch.float64}
    return torchfru.FRU(**(sizes | arguments | changes))


def make_sru(**changes):
    sizes = {"input_size": 3, "hidden_size": 6, "stat_size": 4, "gate_size": 5}
    return torchfru.SRU(**(sizes | {"dtype": torch.float64} | changes))


both = pytest.mark.parametrize("make", [make_fru, make_sru])
backends = pytest.mark.parametrize("backend", torchfru.available_backends())

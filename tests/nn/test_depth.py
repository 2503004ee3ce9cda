"""Networks summed over depth against their definition, and everything a module of torch can do."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap

import torchfru
from torchfru import FourierConv2d, FourierMLP
from torchfru.nn.depth import _FourierDepth
from torchfru.ops import NONLINEARITIES

SIZES = {"depth": 7, "num_freqs": 3, "freq_dim": 2, "gate_size": 4, "dtype": torch.float64}


def make_mlp(**changes) -> FourierMLP:
    return enlarge(FourierMLP(5, 3, **(SIZES | changes)))


def make_conv(**changes) -> FourierConv2d:
    return enlarge(FourierConv2d(2, 3, **(SIZES | changes)))


def enlarge(net: _FourierDepth) -> _FourierDepth:
    """Weights so large that every term counts, biases included."""
    for parameter in net.parameters():
        nn.init.uniform_(parameter, -0.7, 0.7)
    return net


def an_input(net: _FourierDepth, batch: int = 4) -> Tensor:
    shape = (5,) if isinstance(net, FourierMLP) else (2, 5, 6)
    return torch.randn(batch, *shape, dtype=net.weight_xu.dtype)


both = pytest.mark.parametrize("make", [make_mlp, make_conv])


def by_definition(net: _FourierDepth, x: Tensor) -> Tensor:
    """The formula of the docstring, layer by layer, with u as (N, K, d, ...)."""
    phi = NONLINEARITIES[net.nonlinearity]
    if isinstance(net, FourierMLP):
        apply = F.linear
    else:

        def apply(u: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            return F.conv2d(u, weight, bias, padding="same" if weight.shape[-1] > 1 else 0)

    u = apply(x, net.weight_xu, net.bias_u)
    for layer in range(net.depth):
        g = phi(apply(u, net.weight_ug[layer], net.bias_g[layer]))
        h = phi(apply(g, net.weight_gh[layer], net.bias_h[layer]))
        step, phase = torch.tensor([layer + 1]), getattr(net, "phase", None)
        c = net.basis.rows(step, net.freqs, phase, net.depth)[0] / net.depth  # (K,)
        u = u + torch.cat([weight * h for weight in c], 1)
    y = net.weight_uy if isinstance(net, FourierMLP) else net.weight_uy[:, :, None, None]
    return apply(u, y, net.bias_y)


def gradients(net: nn.Module, y: Tensor) -> list[Tensor]:
    loss = (y * torch.cos(torch.arange(y.numel(), dtype=y.dtype)).reshape(y.shape)).sum()
    return list(torch.autograd.grad(loss, list(net.parameters())))


@settings(max_examples=40)
@given(
    convolves=st.booleans(),
    depth=st.integers(1, 9),
    num_freqs=st.integers(1, 4),
    freq_dim=st.integers(1, 3),
    gate_size=st.integers(1, 4),
    basis=st.sampled_from(["fourier", "chebyshev", "legendre", "walsh"]),
    nonlinearity=st.sampled_from(sorted(NONLINEARITIES)),
    batch=st.integers(1, 3),
)
def test_outputs_and_gradients_are_those_of_the_definition(convolves, batch, **options):
    net = (make_conv if convolves else make_mlp)(**options)
    x = an_input(net, batch)
    found, expected = net(x), by_definition(net, x)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(gradients(net, found), gradients(net, expected), rtol=0, atol=1e-10)
    *_, u = net.states(x)
    mlp = isinstance(net, FourierMLP)
    u = u.view(net.state_size, -1).t() if mlp else u
    y = net.weight_uy if mlp else net.weight_uy[:, :, None, None]
    torch.testing.assert_close((F.linear if mlp else F.conv2d)(u, y, net.bias_y), found)


def test_fast_is_faster_than_the_definition():
    net = FourierMLP(20, 10, depth=150)
    x, seconds = torch.randn(64, 20), {}
    for _ in range(4):
        for run in (by_definition, lambda net, x: net(x)):
            start = time.perf_counter()
            gradients(net, run(net, x))
            took = time.perf_counter() - start
            seconds[run is by_definition] = min(took, seconds.get(run is by_definition, took))
    assert seconds[False] < 0.7 * seconds[True]  # about a quarter


# Recompute ----------------------------------------------------------------------------------


@both
def test_recompute_gives_the_same_bits(make):
    net = make(depth=11)
    x = an_input(net).requires_grad_()
    found = []
    for recompute in (False, True):
        net.recompute = recompute
        y = net(x)
        found.append([y, *gradients(net, y)])
    assert all(map(torch.equal, *found))


PEAKS = """
import re, sys, torch
from pathlib import Path
from torchfru import FourierMLP

def memory(name):
    return 1024 * int(re.search(name + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

def peak(depth, recompute):
    net, x = FourierMLP(20, 10, depth, recompute=recompute), torch.randn(512, 20)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    before = memory("VmRSS")
    net(x).sum().backward()
    return memory("VmHWM") - before - 2 * sum(p.nbytes for p in net.parameters())

peak(10, True)
print(peak(900, True), peak(900, False))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_recompute_holds_little_however_deep():
    """More than twice the weights, for gradients: u at 30 layers, and all of 30 layers."""
    returned = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    program = [sys.executable, "-c", PEAKS]
    ran = subprocess.run(program, capture_output=True, text=True, env=returned, check=True)
    recomputed, held = map(int, ran.stdout.split())
    layer = 512 * (128 + 32 + 16) * 4  # bytes of u, g and h
    assert held > 0.7 * 900 * layer
    assert recomputed < 100 * layer


# As any module of torch ---------------------------------------------------------------------


@both
@pytest.mark.parametrize("recompute", [False, True])
def test_second_derivatives(make, recompute):
    net = make(depth=3, nonlinearity="tanh", recompute=recompute)
    x = an_input(net, 2)[..., :3] if isinstance(net, FourierConv2d) else an_input(net, 2)
    names, values = zip(*net.named_parameters(), strict=True)

    def run(x: Tensor, *values: Tensor) -> Tensor:
        return functional_call(net, dict(zip(names, values, strict=True)), (x,)).sum()

    inputs = [value.detach().requires_grad_() for value in (x, *values)]
    assert torch.autograd.gradgradcheck(run, inputs, fast_mode=True)


@both
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_transforms_of_functions(make):
    net = make(recompute=True)
    x, parameters = an_input(net), dict(net.named_parameters())

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(net, parameters, (x[None],)).sum()

    each = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    for name, parameter in parameters.items():
        (expected,) = torch.autograd.grad(net(x).sum(), parameter)
        torch.testing.assert_close(each[name].sum(0), expected, rtol=1e-9, atol=1e-9)
    _, slope = jvp(lambda x: net(x).sum(), (x,), (torch.ones_like(x),))
    given = x.clone().requires_grad_()
    torch.testing.assert_close(slope, torch.autograd.grad(net(given).sum(), given)[0].sum())


@pytest.mark.parametrize("make", [make_mlp, pytest.param(make_conv, marks=pytest.mark.long)])
@pytest.mark.filterwarnings("ignore")
def test_compile_and_export(make):
    net = make(depth=3, recompute=True).eval()
    x = an_input(net)
    torch._dynamo.reset()
    compiled = torch.compile(net, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), net(x))
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(net, (x,), dynamic_shapes={"input": {0: batch}})
    assert "torchfru" not in str(program.graph)
    more = an_input(net, 9)
    torch.testing.assert_close(program.module()(more), net(more))


@both
def test_meta_device_dtypes_and_state(make):
    net = make()
    with torch.device("meta"):
        empty = make()
    assert empty.weight_ug.is_meta
    loaded = empty.to_empty(device="cpu")
    loaded.load_state_dict(net.state_dict())
    x = an_input(net)
    assert torch.equal(loaded(x), net(x))
    exact = net(x)
    half = copy.deepcopy(net).bfloat16()
    torch.testing.assert_close(half(x.bfloat16()).double(), exact, rtol=0.1, atol=0.1)
    single = copy.deepcopy(net).float()
    with torch.autocast("cpu", torch.bfloat16):
        y = single(x.float())
    torch.testing.assert_close(y.double(), exact, rtol=0.1, atol=0.1)
    assert half(x.bfloat16()).dtype == torch.bfloat16


def test_half_precision_does_not_lose_small_steps():
    """1/L of a number of order 1 is nothing beside it in bfloat16: u is carried in float32."""
    net = FourierMLP(1, 1, depth=2000, num_freqs=1, freq_dim=1, gate_size=1, freqs=[0.0])
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.fill_(1.0 if name in ("weight_uy", "bias_h", "bias_u") else 0.0)
    torch.testing.assert_close(net.bfloat16()(torch.zeros(1, 1).bfloat16()).item(), 2.0)


@both
def test_no_samples_and_no_batch(make):
    net = make()
    x = an_input(net)
    assert net(x[:0]).shape[0] == 0
    torch.testing.assert_close(net(x[1]), net(x)[1])


def test_leading_dimensions_and_no_read_out():
    net, x = make_mlp(), torch.randn(2, 3, 5, dtype=torch.float64)
    torch.testing.assert_close(net(x)[1, 2], net(x[1, 2]))
    assert FourierMLP(5, depth=2, num_freqs=3, freq_dim=2)(torch.randn(4, 5)).shape == (4, 6)
    assert FourierConv2d(2, depth=2)(torch.randn(1, 2, 3, 3)).shape == (1, 128, 3, 3)


def test_a_basis_of_one_s_own():
    class Ramp(torchfru.Basis):
        def rows(self, steps, freqs, phase, seq_len):
            return (steps.unsqueeze(-1) / seq_len) ** freqs

    net = make_mlp(basis=Ramp())
    x = an_input(net)
    torch.testing.assert_close(net(x), by_definition(net, x))
    assert "phase" not in dict(net.named_parameters())
    assert net.basis_matrix()[-1].tolist() == [1.0, 1.0, 1.0]


def test_the_code_of_the_page_runs():
    page = Path(__file__).parents[2] / "docs" / "depth.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    found = {}
    exec(compile(block, page.name, "exec"), found)
    assert found["features"].shape == (2, 64, 32, 32)


class TooLarge(torchfru.Basis):
    def rows(self, steps, freqs, phase, seq_len):
        return 2 * torch.ones(*steps.shape, len(freqs))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FourierMLP(5, 3, depth=0), "FourierMLP: depth must be greater than zero, got 0"),
        (lambda: FourierMLP(5, 0), "FourierMLP: output_size must be greater than zero, got 0"),
        (lambda: FourierMLP(5, 3, freqs=[1.0]), "must hold num_freqs=8 values"),
        (lambda: FourierMLP(5, 3, basis=TooLarge()), r"must lie within \[-1, 1\], got 2"),
        (lambda: FourierMLP(5, 3, nonlinearity="sin"), "nonlinearity must be one of"),
        (lambda: FourierMLP(5, 3, recompute=1), "recompute should be of type bool, got: int"),
        (lambda: FourierConv2d(2, 3, kernel_size=2), "kernel_size must be odd, got 2"),
        (lambda: make_mlp()(torch.zeros(2, 4).double()), "Expected 5, got 4"),
        (lambda: make_mlp()(torch.zeros(()).double()), "to be 1D, got 0D"),
        (lambda: make_mlp()(torch.zeros(2, 5)), "does not match weight dtype"),
        (lambda: make_conv()(torch.zeros(1, 3, 4, 4).double()), "Expected 2 channels, got 3"),
        (lambda: make_conv()(torch.zeros(4, 4).double()), "to be 3D or 4D, got 2D"),
    ],
)
def test_errors_name_the_value(call, message):
    with pytest.raises((ValueError, RuntimeError, TypeError), match=message):
        call()

"""The fused CPU kernels: awkward sizes, the rules of an operator, threads, processes, caches."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import KINDS, TOLERANCE, assert_close, definition, empty_is_nan, results
from hypothesis import given
from hypothesis import strategies as st

import torchfru

pytest.importorskip("numba")
from numba import njit

from torchfru.ops.cpu import gates, nonlinear, plan, runtime, simd, walk
from torchfru.ops.cpu import scan as cpu


@st.composite
def problems(draw):
    """Sizes that are no multiple of anything, on both sides of every limit in the kernels."""
    per_block = draw(st.sampled_from([1, 1, 2, 3]))
    dtype, nonlinearity = draw(st.sampled_from(KINDS))
    layer = {
        "input_size": draw(st.sampled_from([1, 2, 7, 16, 19, 33])),
        "hidden_size": draw(st.sampled_from([1, 3, 17])),
        "num_freqs": per_block * draw(st.integers(1, 3)),
        "freq_dim": draw(st.sampled_from([1, 2, 3, 5, 7, 10])),
        "gate_size": draw(st.sampled_from([1, 2, 3, 8, 17, 60])),
        "freqs_per_block": per_block,
        "bias": draw(st.booleans()),
        "nonlinearity": nonlinearity,
        "return_sequences": draw(st.booleans()),
        "dtype": dtype,
    }
    steps = draw(st.sampled_from([1, 2, 15, 16, 17, 31, 63, 65]))
    batch = draw(st.sampled_from([1, 2, 3, 4, 5, 9, 16, 17, 31, 33, 70, 130]))
    return layer, steps, batch, draw(st.booleans()), draw(st.integers(0, 999))


@given(problems())
def test_kernels_equal_the_definition_at_awkward_sizes(problem):
    arguments, steps, batch, ragged, seed = problem
    torch.manual_seed(seed)
    layer = torchfru.FRU(**arguments, seq_len=steps + 3)
    for parameter in layer.parameters():
        torch.nn.init.uniform_(parameter, -0.5, 0.5)
    dtype = arguments["dtype"]
    u = torch.randn(1, batch, layer.state_size, dtype=dtype, requires_grad=True)
    x = torch.randn(steps, batch, layer.input_size, dtype=dtype, requires_grad=True)
    inputs = {"input": x, "hx": (u, torch.full((1, batch), 3))}
    if ragged:
        inputs["lengths"] = torch.randint(0, steps + 1, (batch,))
    expected = (
        definition(layer, inputs) if dtype == torch.float32 else results(layer, inputs, "reference")
    )
    with empty_is_nan():
        assert_close(results(layer, inputs, "numba"), expected, TOLERANCE[dtype])


@pytest.mark.parametrize("batch", [3, 40, 70])  # with 70 samples, A(t) is kept
@pytest.mark.parametrize("every_step", [True, False])
def test_chunks_over_time_change_nothing(batch, every_step, monkeypatch):
    layer = torchfru.FRU(2, 5, seq_len=80, return_sequences=every_step, dtype=torch.float64)
    inputs = {
        "input": torch.randn(80, batch, 2, dtype=torch.float64, requires_grad=True),
        "lengths": torch.randint(0, 81, (batch,)),
    }
    whole = results(layer, inputs, "numba")
    monkeypatch.setattr(plan, "CHUNK", 32)
    assert_close(results(layer, inputs, "numba"), whole, 1e-12)


@pytest.mark.parametrize("n_in", [7, 16, 19, 33])  # read by numbers, vectors, both; as U x
@pytest.mark.parametrize("batch", [3, 20, 70])
@pytest.mark.parametrize("batch_first", [False, True])
def test_padding_is_never_read(n_in, batch, batch_first):
    """Whole rows of samples end before others do, and NaN follows them."""
    layer = torchfru.FRU(n_in, 5, seq_len=50, batch_first=batch_first, dtype=torch.float64)
    lengths = torch.linspace(0, 50, batch).long()
    for order in (lengths, lengths.flip(0), lengths[torch.randperm(batch)]):
        x = torch.randn(50, batch, n_in, dtype=torch.float64)
        x[torch.arange(50).unsqueeze(-1) >= order] = torch.nan
        x = (x.transpose(0, 1).contiguous() if batch_first else x).requires_grad_()
        inputs = {"input": x, "lengths": order}
        expected = results(layer, inputs, "reference")
        with empty_is_nan():
            assert_close(results(layer, inputs, "numba"), expected, 1e-10)


def write(layer, how):
    """Change W1 of a layer in place, seen or unseen by torch's counter of versions."""
    weight = layer.weight_ug_l0
    if how == "optimizer":
        weight.grad = torch.ones_like(weight)
        torch.optim.SGD([weight], 0.1).step()
    elif how == "data":
        weight.data.add_(0.1)
    elif how == "memory":
        weight.detach().numpy()[0, 0] += 1
    elif how == "exchange":
        weight.data = weight.data + 0.1
    elif how == "phase":
        layer.phase_l0.data.add_(0.1)
    elif how == "frequencies":
        layer.freqs.mul_(1.5)
    else:
        layer.weight_uy_l0.data[0, 0] += 1


@pytest.mark.parametrize(
    "how", ["optimizer", "data", "memory", "exchange", "phase", "frequencies", "outputs"]
)
def test_matrices_that_are_kept_between_calls_are_never_stale(how):
    """A(t) and E(t) of a call without gradients serve the next one, until a weight changes."""
    layer, x = torchfru.FRU(2, 5, seq_len=60), torch.randn(60, 3, 2)
    with torch.no_grad():
        first, again = layer(x)[0], layer(x)[0]
        assert torch.equal(first, again)
        assert len(walk._kept) <= walk.KEPT
    write(layer, how)
    with torch.no_grad():
        after = layer(x)[0]
        with torchfru.use_backend("reference"):
            expected = layer(x)[0]
    torch.testing.assert_close(after, expected)
    assert not torch.allclose(after, first)


def test_matrices_are_made_once_without_gradients(monkeypatch):
    layer, x, made = torchfru.FRU(2, 5, seq_len=60), torch.randn(60, 3, 2), []
    prepare = walk.prepare
    monkeypatch.setattr(walk, "prepare", lambda *a: made.append(1) or prepare(*a))
    with torch.no_grad():
        for _ in range(3):
            layer(x)
    assert made == [1]
    layer(x)[0].sum().backward()
    assert len(made) > 1


def test_each_form_has_its_batches():
    assert plan.layout_of(4, 3, 2, torch.float32).small
    assert not plan.layout_of(5, 3, 2, torch.float32).small


def operator_arguments(batch=5, every_step=True, waves=True, dtype=torch.float64):
    """Arguments of the operator for a small problem, all of them with gradients."""
    make = torch.Generator().manual_seed(0)

    def tensor(*shape):
        values = torch.randn(shape, generator=make, dtype=dtype) / 2
        return values.requires_grad_()

    rows, phase = (None, tensor(3)) if waves else (tensor(7, 3), None)
    freqs = torch.tensor([0.0, 1.0, 2.5], dtype=dtype) if waves else None
    weights = [tensor(4, 6), tensor(4), tensor(2, 4), tensor(2, 3), tensor(2)]
    outputs = [tensor(5, 6), tensor(5)] if every_step else [None, None]
    lengths = torch.randint(0, 8, (batch,), generator=make)
    x, u = tensor(7, batch, 3), tensor(batch, 6)
    return (x, u, rows, phase, *weights, *outputs, freqs, lengths, 2, 12, "tanh")


def assert_keeps_the_rules(arguments):
    """opcheck for the operator and for that of its derivative, with every gradient."""
    torch.library.opcheck(torch.ops.torchfru.fru_scan.default, arguments)
    with torch.no_grad():
        y, u, *saved = torch.ops.torchfru.fru_scan(*arguments)
    plain = [a.detach() if isinstance(a, torch.Tensor) else a for a in arguments]
    needs = (True, arguments[2] is not None, arguments[3] is not None)
    backward = (None if arguments[9] is None else y, u, *plain, *saved, *needs)
    torch.library.opcheck(torch.ops.torchfru.fru_scan_backward.default, backward)


@pytest.mark.parametrize("batch", [3, 20])
@pytest.mark.parametrize("every_step", [True, False])
def test_operator_keeps_the_rules_of_torch(batch, every_step):
    assert_keeps_the_rules(operator_arguments(batch, every_step, waves=every_step))


@pytest.mark.parametrize("batch", [2, 10])
@pytest.mark.parametrize("every_step", [True, False])
@pytest.mark.parametrize("waves", [True, False])
def test_derivatives_of_the_operator(batch, every_step, waves):
    arguments = operator_arguments(batch, every_step, waves)

    def run(*arguments):
        y, u, *_ = torch.ops.torchfru.fru_scan(*arguments)
        return (y, u) if every_step else u

    assert torch.autograd.gradcheck(run, arguments)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_the_basis_are_those_of_torch(dtype):
    """Up to a million steps, with phases of several turns."""
    make = np.random.default_rng(0)
    freqs = np.concatenate([[0.0], np.logspace(-1, 6, 40)]).astype(dtype)
    phase = (make.standard_normal(41) * 10).astype(dtype)
    c, dc = np.empty((30, 41), dtype), np.empty((30, 41), dtype)
    rate, shift = gates.turns_of(freqs, phase, 1_000_000)
    gates.fourier_rows(rate, shift, 999_980, 1_000_000, c, dc, 0, 30)
    steps = np.minimum(np.arange(999_981, 1_000_011), 1_000_000)[:, None]
    turns = (steps * (freqs.astype(np.float64) / 1_000_000)) % 1
    angle = turns * 2 * np.pi + phase
    tolerance = 1e-6 * max(4 * np.finfo(dtype).eps, 2e-14)  # the phases have rounding errors
    np.testing.assert_allclose(c, np.cos(angle) / 1e6, rtol=0, atol=tolerance)
    np.testing.assert_allclose(dc, -np.sin(angle) / 1e6, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_at_awkward_sizes(dtype):
    make = np.random.default_rng(0)
    lanes = simd.lanes(np.dtype(dtype).itemsize)
    for terms, rows, columns in ((1, 1, lanes), (7, 9, 3 * lanes), (65, 21, 2 * lanes)):
        numbers = make.standard_normal((terms, rows + 1)).astype(dtype)  # more than are used
        vectors = make.standard_normal((terms, columns)).astype(dtype)
        out = np.ones((rows, columns), dtype)
        expected = numbers[:, :rows].T @ vectors
        gates.add_product(numbers, vectors, out, 0, False, 0, columns)
        np.testing.assert_allclose(out, 1 + expected, rtol=1e-4, atol=1e-4)
        gates.add_product(numbers, vectors, out, 0, True, 0, columns)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_backward_twice_gives_the_same():
    layer = torchfru.FRU(1, 2, seq_len=40)
    for batch in (3, 20):
        x = torch.randn(40, batch, 1, requires_grad=True)
        with torchfru.use_backend("numba"):
            loss = layer(x)[0].square().sum()
        (first,) = torch.autograd.grad(loss, x, retain_graph=True)
        (second,) = torch.autograd.grad(loss, x)
        assert torch.equal(first, second)


def test_lanes_without_a_sample_cannot_spoil_a_gradient():
    """No sample here is ever active, but an input of 0 would be, and grow beyond all bounds."""
    layer = torchfru.FRU(1, 2, seq_len=60, num_freqs=1, freq_dim=1, gate_size=3)
    for name, parameter in layer.named_parameters():
        torch.nn.init.constant_(parameter, 0.0 if name.startswith("phase") else 100.0)
    inputs = {"input": torch.full((60, 9, 1), -1e5, requires_grad=True)}
    expected = results(layer, inputs, "reference")
    assert_close(results(layer, inputs, "numba"), expected, 1e-5)


def test_only_the_state_may_be_used():
    layer = torchfru.FRU(1, 2, seq_len=9, dtype=torch.float64)
    x = torch.randn(9, 3, 1, dtype=torch.float64, requires_grad=True)
    gradients = []
    for backend in ("reference", "numba"):
        with torchfru.use_backend(backend):
            _, (u, _) = layer(x)
        gradients.append(torch.autograd.grad(u.square().sum(), x)[0])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("batch", [6, 200])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_runs_are_equal_bit_for_bit(batch, count):
    layer = torchfru.FRU(1, 4, seq_len=50)
    inputs = {"input": torch.randn(50, batch, 1, requires_grad=True)}
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        first, second = (results(layer, inputs, "numba") for _ in range(2))
        assert len(runtime.split_range(100)) == count
    finally:
        torch.set_num_threads(before)
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_auto_chooses_the_kernels_on_the_cpu_only(monkeypatch):
    called = []
    monkeypatch.setitem(
        torchfru.ops._FRU_SCANS, "numba", lambda *a, **k: called.append(1) or cpu.scan(*a, **k)
    )
    layer = torchfru.FRU(1, 2, seq_len=5)
    layer(torch.zeros(5, 1, 1))
    assert called == [1]
    layer.to("meta")(torch.zeros(5, 1, 1, device="meta"))
    assert called == [1]
    with (
        torchfru.use_backend("numba"),
        pytest.raises(
            ValueError, match=r"'numba' computes on the CPU.*not on meta in torch.float32"
        ),
    ):
        layer(torch.zeros(5, 1, 1, device="meta"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vector_tanh_is_right_to_the_last_bits(dtype):
    @njit
    def run(values, out, step):
        for i in range(0, values.size, step):
            simd.store_row(out, i, nonlinear.tanh(simd.load_row(values, i, 1)))

    sizes = np.logspace(-30, 3, 4096)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan] + [0.5] * 11)
    values = np.concatenate([sizes, -sizes, special]).astype(dtype)
    found = np.empty_like(values)
    run(values, found, simd.lanes(values.itemsize))
    expected = np.tanh(values.astype(np.longdouble))
    np.testing.assert_allclose(found, expected.astype(dtype), rtol=4 * np.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 7, 15, 16])
def test_sums_over_lanes(dtype, count):
    step = simd.lanes(np.dtype(dtype).itemsize)

    @njit
    def run(values, out, tile, step):
        simd.add_store_sums(out, 0, simd.load_tile(values, 0, step, tile, 1))

    values = np.arange(count * step, dtype=dtype).reshape(count, step)
    found = np.ones(-(-count // step) * step, dtype)
    run(values, found, (0,) * count, step)
    np.testing.assert_array_equal(found[:count], 1 + values.sum(1))
    np.testing.assert_array_equal(found[count:], 1)


# Processes ---------------------------------------------------------------------------------


def python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the team is torch's own on Linux only")
def test_team_of_threads_is_found_where_torch_is_reached_by_a_link(tmp_path, monkeypatch):
    here = runtime._openmp.__wrapped__()
    assert here is not None
    (tmp_path / "torch").symlink_to(Path(torch.__file__).parent)
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch" / "__init__.py"))
    assert runtime._openmp.__wrapped__() is not None


def test_works_after_a_fork():
    program = """
        import os, torch, torchfru
        from torchfru.ops.cpu import runtime as threads
        layer = torchfru.FRU(1, 2, seq_len=30)
        x = torch.randn(30, 100, 1)
        with torchfru.use_backend("numba"):
            expected = layer(x)[0]
            child = os.fork()
            if child == 0:
                done = []
                threads.run(lambda index, part: done.append(index), [range(1)] * 3)
                torch.set_num_threads(1)  # as a DataLoader does: torch's own pool is gone
                same = torch.equal(layer(x)[0], expected)
                os._exit(0 if same and sorted(done) == [0, 1, 2] else 3)
        print("child:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    run = python(program)
    assert run.stdout.strip() == "child: 0", run.stderr


def test_works_in_the_workers_of_a_data_loader():
    program = """
        import torch, torchfru
        layer = torchfru.FRU(1, 2, seq_len=30)
        layer(torch.zeros(30, 20, 1))

        class Outputs(torch.utils.data.Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, index):
                with torch.no_grad():
                    return layer(torch.full((30, 20, 1), float(index)))[0][-1]

        loader = torch.utils.data.DataLoader(Outputs(), num_workers=2)
        print(sum(batch.isfinite().all().item() for batch in loader))
    """
    run = python(program)
    assert run.stdout.strip() == "4", run.stderr


@pytest.mark.long  # compiles everything
def test_works_where_nothing_can_be_written(tmp_path):
    """The compiled kernels can be kept nowhere: they are compiled again, and that is all."""
    program = """
        import numba.core.caching as caching
        import torch, torchfru
        for locator in caching.CacheImpl._locator_classes:
            locator.from_function = classmethod(lambda cls, function, path: None)
        layer = torchfru.FRU(1, 2, seq_len=5)
        print(layer(torch.zeros(5, 1, 1))[0].shape)
    """
    run = python(program, HOME="/nonexistent")
    assert run.stdout.strip() == "torch.Size([5, 1, 2])", run.stderr


def test_without_numba_there_is_one_warning_and_the_collapsed_form():
    program = """
        import sys, warnings
        import importlib.util
        found = importlib.util.find_spec
        importlib.util.find_spec = lambda name: None if name == "numba" else found(name)
        import torch, torchfru
        print(torchfru.available_backends())
        layer = torchfru.FRU(1, 2, seq_len=5)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            layer(torch.zeros(5, 1, 1)), layer(torch.zeros(5, 1, 1))
        print(len(caught), caught[0].message)
    """
    run = python(program)
    names, warned = run.stdout.strip().split("\n")
    assert names == "('reference', 'collapsed')"
    assert warned.startswith("1 torchfru: Numba is not installed")
    assert "pip install 'torchfru[cpu]'" in warned


SLOW_CACHE = """
import time
from numba.core.caching import IndexDataCacheFile
load, seconds = IndexDataCacheFile.load, [2.5]
IndexDataCacheFile.load = lambda *a: (time.sleep(seconds.pop() if seconds else 0), load(*a))[1]
"""


def test_first_call_says_what_it_does_when_it_compiles(tmp_path):
    program = """
        import torch, torchfru
        cell = torchfru.FRUCell(1, 2, seq_len=5)
        with torch.no_grad():
            cell(torch.zeros(20, 1))
    """
    cold = python(program, NUMBA_CACHE_DIR=str(tmp_path))
    warm = python(program, NUMBA_CACHE_DIR=str(tmp_path))
    slow = python(SLOW_CACHE + textwrap.dedent(program), NUMBA_CACHE_DIR=str(tmp_path))
    assert "compiling the CPU kernels" in cold.stderr
    assert warm.stderr == ""
    assert slow.stderr == ""


def test_what_a_kernel_may_only_read_is_read_only_also_where_it_is_empty():
    # else a state or none, an output that is used or not would each be a kernel to compile
    tensors = [torch.zeros(2, 3), torch.zeros(0), torch.zeros(2, 0, 3)]
    read = runtime.kernel_arrays(tensors)
    assert not any(array.flags.writeable for array in read)
    assert [array.shape for array in read] == [(2, 3), (0,), (2, 0, 3)]
    assert all(array.flags.writeable for array in runtime.kernel_arrays((), write=tensors))


def test_memory_is_used_again_but_never_by_two(monkeypatch):
    monkeypatch.setattr(runtime, "_free", {})
    monkeypatch.setattr(runtime, "KEPT", 2**21)
    like, shape = torch.empty(0), (2**18,)  # a MiB
    held = [runtime.pooled_empty(shape, like) for _ in range(3)]
    places = {tensor.data_ptr() for tensor in held}
    assert len(places) == 3
    part = held[0][5:]
    del held[0]
    fourth = runtime.pooled_empty(shape, like).data_ptr()
    assert fourth not in places  # a view holds on to it
    del part, held
    assert sum(block.nbytes for block in runtime._free.values()) <= 2**21
    assert runtime.pooled_empty(shape, like).data_ptr() in {*places, fourth}

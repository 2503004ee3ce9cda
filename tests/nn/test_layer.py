"""The layers as a user of nn.LSTM meets them: shapes, states, padding, pieces, cells."""

from __future__ import annotations

import pytest
import torch
from helpers import assert_close, backends, both, make_fru, make_sru, results
from torch.nn.utils.rnn import (
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
)

import torchfru
from torchfru.nn import fru as fru_module


@both
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_shapes_match_lstm(make, bidirectional, num_layers):
    options = {"num_layers": num_layers, "bidirectional": bidirectional}
    lstm = torch.nn.LSTM(3, 6, dtype=torch.float64, **options)
    layer = make(**options)
    for shape in [(9, 2, 3), (9, 0, 3), (9, 3)]:
        x = torch.randn(shape, dtype=torch.float64)
        output, (u, t) = layer(x)
        if 0 not in shape:  # nn.LSTM cannot do N = 0
            expected, (h, _) = lstm(x)
            assert output.shape == expected.shape
            assert u.shape[:-1] == h.shape[:-1]
        assert t.shape == u.shape[:-1]
        assert t.dtype == torch.int64
        assert bool((t == 9).all())
    swapped = make(**options, batch_first=True)
    swapped.load_state_dict(layer.state_dict())
    x = torch.randn(9, 2, 3, dtype=torch.float64)
    torch.testing.assert_close(swapped(x.transpose(0, 1))[0].transpose(0, 1), layer(x)[0])
    torch.testing.assert_close(swapped(x.transpose(0, 1))[1], layer(x)[1])


@both
@backends
@pytest.mark.parametrize("bidirectional", [True, False])
def test_last_output_is_the_last_of_all(make, backend, bidirectional):
    layer = make(num_layers=2, bidirectional=bidirectional)
    last = make(num_layers=2, bidirectional=bidirectional, return_sequences=False)
    last.load_state_dict(layer.state_dict())
    x = torch.randn(9, 2, 3, dtype=torch.float64)
    lengths = torch.tensor([9, 4])
    with torchfru.use_backend(backend):
        every, only = layer(x, lengths=lengths)[0], last(x, lengths=lengths)[0]
    assert only.shape == (2, 12 if bidirectional else 6)
    for n, end in enumerate(lengths):
        torch.testing.assert_close(only[n, :6], every[end - 1, n, :6])
        if bidirectional:  # the reverse direction ends at the first step
            torch.testing.assert_close(only[n, 6:], every[0, n, 6:])
    assert last(x[:, 0])[0].shape == (12 if bidirectional else 6,)


@both
@backends
def test_pieces_give_what_the_whole_gives(make, backend):
    layer = make(num_layers=2)
    x = torch.randn(20, 3, 3, dtype=torch.float64)
    with torchfru.use_backend(backend):
        whole, end = layer(x)
        state, outputs = None, []
        for piece in x.split([1, 7, 4, 8]):
            output, state = layer(piece, state)
            outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs), whole, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(state, end, rtol=1e-10, atol=1e-12)


@both
@backends
@pytest.mark.parametrize("lengths", [None, torch.tensor([20, 5, 13])])
@pytest.mark.parametrize("batch_first", [True, False])
def test_outputs_that_nobody_needs_change_none_of_the_others(make, backend, lengths, batch_first):
    layer = make(num_layers=2, batch_first=batch_first)
    x = torch.randn(20, 3, 3, dtype=torch.float64)
    x = (x.transpose(0, 1) if batch_first else x).requires_grad_()
    with torchfru.use_backend(backend):
        whole, end = layer(x, lengths=lengths)
        tail, state = layer(x, lengths=lengths, output_from=12)
    wanted = whole[:, 12:] if batch_first else whole[12:]
    torch.testing.assert_close(tail, wanted, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(state, end, rtol=1e-10, atol=1e-12)
    inputs, d_tail = [x, *layer.parameters()], torch.randn_like(tail)
    gradients = torch.autograd.grad(tail, inputs, d_tail, allow_unused=True)
    expected = torch.autograd.grad(wanted, inputs, d_tail, allow_unused=True)
    torch.testing.assert_close(gradients, expected, rtol=1e-9, atol=1e-11)


@backends
@pytest.mark.parametrize("every_step", [True, False])
def test_long_sequences_are_read_in_pieces(backend, every_step, monkeypatch):
    layer = make_fru(return_sequences=every_step)
    inputs = {
        "input": torch.randn(20, 3, 3, dtype=torch.float64, requires_grad=True),
        "lengths": torch.tensor([20, 5, 13]),
    }
    whole = results(layer, inputs, backend)
    monkeypatch.setattr(fru_module, "PIECE", 6)
    assert_close(results(layer, inputs, backend), whole, 1e-11)


@backends
def test_cells_step_through_what_the_layer_reads_at_once(backend):
    layer = make_fru(num_layers=2)
    x = torch.randn(20, 3, 3, dtype=torch.float64)
    cells, states = [layer.cell(0), layer.cell(1)], [None, None]
    with torchfru.use_backend(backend):
        whole, (u, t) = layer(x)
        for step in range(20):
            y = x[step]
            for k, cell in enumerate(cells):
                y, states[k] = cell(y, states[k])
            torch.testing.assert_close(y, whole[step], rtol=1e-10, atol=1e-12)
    for k, (u_k, t_k) in enumerate(states):
        torch.testing.assert_close(u_k, u[k], rtol=1e-10, atol=1e-12)
        assert torch.equal(t_k, t[k])


def test_a_cell_shares_its_parameters_with_the_layer():
    layer = make_fru(bidirectional=True)
    cell = layer.cell(0, reverse=True)
    assert cell.weight_ug is layer.weight_ug_l0_reverse
    cell(torch.randn(2, 3, dtype=torch.float64))[0].sum().backward()
    assert layer.weight_xh_l0_reverse.grad is not None


def test_sru_cell_steps_through_what_the_layer_reads_at_once():
    layer = make_sru()
    cell = torchfru.SRUCell(3, 6, stat_size=4, gate_size=5, dtype=torch.float64)
    cell.load_state_dict({name.removesuffix("_l0"): p for name, p in layer.state_dict().items()})
    x = torch.randn(9, 2, 3, dtype=torch.float64)
    whole, (u, t) = layer(x)
    state = None
    for step in range(9):
        y, state = cell(x[step], state)
        torch.testing.assert_close(y, whole[step])
    torch.testing.assert_close(state, (u[0], t[0]))


def test_cell_takes_one_sample_and_samples_at_different_times():
    layer = make_fru()
    cell = layer.cell()
    x = torch.randn(6, 2, 3, dtype=torch.float64)
    early, late = layer(x[:2, :1])[1], layer(x[:5, 1:])[1]  # two steps, and five
    state = (torch.cat([early[0], late[0]], 1)[0], torch.cat([early[1], late[1]], 1)[0])
    assert state[1].tolist() == [2, 5]
    y, (u, t) = cell(torch.stack([x[2, 0], x[5, 1]]), state)
    torch.testing.assert_close(y[0], layer(x[:3, :1])[0][2, 0])
    torch.testing.assert_close(y[1], layer(x[:6, 1:])[0][5, 0])
    alone, (u_alone, t_alone) = cell(x[2, 0], (state[0][0], state[1][0]))
    torch.testing.assert_close(alone, y[0])
    torch.testing.assert_close(u_alone, u[0])
    assert t_alone.tolist() == 3
    assert t.tolist() == [3, 6]


@both
@backends
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("filler", [0.0, 1e30, float("nan")])
def test_one_by_one_and_padded_together_agree(make, backend, bidirectional, filler):
    layer = make(num_layers=2, bidirectional=bidirectional)
    sequences = [torch.randn(n, 3, dtype=torch.float64) for n in (5, 20, 1)]
    padded = pad_sequence(sequences, padding_value=filler).requires_grad_()
    lengths = torch.tensor([5, 20, 1])
    with torchfru.use_backend(backend):
        together, (u, t) = layer(padded, lengths=lengths)
        together.sum().backward()
        gradients = {name: p.grad.clone() for name, p in layer.named_parameters()}
        layer.zero_grad()
        for n, sequence in enumerate(sequences):
            alone, (u_n, t_n) = layer(sequence)
            alone.sum().backward()
            end = len(sequence)
            torch.testing.assert_close(together[:end, n], alone, rtol=1e-9, atol=1e-11)
            assert bool((together[end:, n] == 0).all())
            torch.testing.assert_close(u[:, n], u_n, rtol=1e-9, atol=1e-11)
            assert torch.equal(t[:, n], t_n)
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-9, atol=1e-10)
    assert bool((padded.grad[5:, 0] == 0).all())
    assert bool(padded.grad.isfinite().all())


@both
@pytest.mark.parametrize("every_step", [True, False])
@pytest.mark.parametrize("order", [(5, 20, 1), (20, 5, 1)])
def test_packed_equals_padded(make, every_step, order):
    layer = make(num_layers=2, bidirectional=True, return_sequences=every_step)
    sequences = [torch.randn(n, 3, dtype=torch.float64) for n in order]
    lengths, in_order = torch.tensor(order), sorted(order, reverse=True) == list(order)
    state = (torch.randn(4, 3, layer.state_size, dtype=torch.float64), torch.zeros(4, 3).long())
    expected, end = layer(pad_sequence(sequences), state, lengths=lengths)
    packed = pack_sequence(sequences, enforce_sorted=in_order)
    output, state = layer(packed, state)
    if every_step:
        assert torch.equal(output.batch_sizes, packed.batch_sizes)
        output, sizes = pad_packed_sequence(output)
        assert torch.equal(sizes, lengths)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(state, end)


def test_packing_follows_lstm():
    """The output of a packed batch has the packing that nn.LSTM gives it."""
    x = torch.randn(7, 3, 3, dtype=torch.float64)
    packed = pack_padded_sequence(x, torch.tensor([2, 7, 4]), enforce_sorted=False)
    ours, _ = make_fru()(packed)
    theirs, _ = torch.nn.LSTM(3, 6, dtype=torch.float64)(packed)
    for field in ("batch_sizes", "sorted_indices", "unsorted_indices"):
        assert torch.equal(getattr(ours, field), getattr(theirs, field))
    assert ours.data.shape == theirs.data.shape


def test_padding_may_be_longer_than_time():
    layer = make_fru(seq_len=5)
    x = torch.randn(9, 2, 3, dtype=torch.float64)
    output, _ = layer(x, lengths=torch.tensor([5, 3]))
    torch.testing.assert_close(output[:5], layer(x[:5], lengths=torch.tensor([5, 3]))[0])
    assert output.shape == (9, 2, 6)


def test_samples_at_different_times_continue_correctly():
    layer = make_fru()
    x = torch.randn(12, 2, 3, dtype=torch.float64)
    whole, _ = layer(x)
    _, state = layer(x, lengths=torch.tensor([3, 6]))
    shifted = torch.stack([x[3:9, 0], x[6:12, 1]], 1)
    output, (_, t) = layer(shifted, state)
    torch.testing.assert_close(output[:, 0], whole[3:9, 0])
    torch.testing.assert_close(output[:, 1], whole[6:12, 1])
    assert t.tolist() == [[9, 12]]


def test_initial_memory_gets_gradients():
    layer = make_fru()
    u = torch.randn(1, 2, 12, dtype=torch.float64, requires_grad=True)
    layer(torch.randn(4, 2, 3, dtype=torch.float64), (u, torch.zeros(1, 2).long()))[
        0
    ].sum().backward()
    assert bool((u.grad != 0).any())


def test_parameters_start_as_the_authors_did():
    layer = torchfru.FRU(50, 200, seq_len=100, num_freqs=400)
    for name, parameter in layer.named_parameters():
        if name.startswith("weight_"):
            assert parameter.abs().max() <= 0.2
            # The deviation of a normal cut at two deviations is 0.88 of the whole one's.
            assert parameter.std().item() == pytest.approx(0.088, rel=0.1)
        elif name.startswith("bias_"):
            assert bool((parameter == 0).all())
    assert layer.phase_l0.std().item() == pytest.approx(0.1 * 2 * torch.pi, rel=0.15)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (torchfru.FRU(1, 200, seq_len=784), 158_950),
        (torchfru.FRU(1, 200, seq_len=784, num_freqs=40), 106_930),
        (torchfru.SRU(1, 200), 274_670),
    ],
)
def test_parameter_counts_with_a_head_of_ten(layer, expected):
    head = torch.nn.Linear(200, 10)
    counted = sum(p.numel() for module in (layer, head) for p in module.parameters())
    assert counted == expected


def test_names_of_parameters_and_buffers():
    layer = make_fru(num_layers=2, bidirectional=True)
    stems = ["weight_ug", "bias_g", "weight_gh", "weight_xh", "bias_h", "weight_uy", "bias_y"]
    suffixes = ["_l0", "_l0_reverse", "_l1", "_l1_reverse"]
    expected = [stem + suffix for suffix in suffixes for stem in [*stems, "phase"]]
    assert [name for name, _ in layer.named_parameters()] == expected
    assert [name for name, _ in layer.named_buffers()] == ["freqs"]
    assert [len(group) for group in layer.all_weights] == [8] * 4
    assert layer.flatten_parameters() is None
    bare = make_fru(bias=False)
    assert bare.bias_g_l0 is None
    assert "bias_h_l0" not in dict(bare.named_parameters())


def test_dropout_acts_between_layers_in_training_only():
    layer = make_fru(num_layers=2, dropout=0.5)
    x = torch.randn(9, 2, 3, dtype=torch.float64)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])


def test_sru_follows_its_summary():
    """u(t) = alpha^t u(0) + (1 - alpha) sum alpha^(t - s) h(s), h from a layer that ignores u."""
    layer = make_sru(alphas=(0.0, 0.9), nonlinearity="identity")
    torch.nn.init.zeros_(layer.weight_gh_l0)
    x = torch.randn(7, 1, 3, dtype=torch.float64)
    u0 = torch.randn(1, 1, 8, dtype=torch.float64)
    h = x[:, 0] @ layer.weight_xh_l0.T + layer.bias_h_l0  # (7, 4)
    _, (u, _) = layer(x, (u0, torch.zeros(1, 1).long()))
    slow = 0.9**7 * u0[0, 0, 4:] + sum(0.1 * 0.9 ** (7 - s) * h[s - 1] for s in range(1, 8))
    torch.testing.assert_close(u[0, 0], torch.cat([h[-1], slow]))


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("every_step", [True, False])
@pytest.mark.parametrize("nonlinearity", ["relu", "tanh", "identity"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_fast_sru_equals_reference(bidirectional, every_step, nonlinearity, dtype, tolerance):
    layer = make_sru(
        num_layers=2,
        bidirectional=bidirectional,
        return_sequences=every_step,
        nonlinearity=nonlinearity,
        dtype=dtype,
    )
    state = (torch.randn(layer.num_directions * 2, 3, 20, dtype=dtype, requires_grad=True),)
    for extra in ({}, {"lengths": torch.tensor([9, 1, 0])}):
        x = torch.randn(9, 3, 3, dtype=dtype, requires_grad=True)
        inputs = {"input": x, "hx": (*state, torch.zeros(state[0].shape[:2]).long()), **extra}
        expected = results(layer, inputs, "reference")
        assert_close(results(layer, inputs, "collapsed"), expected, tolerance)


@pytest.mark.parametrize("nonlinearity", ["tanh", "identity"])
@pytest.mark.parametrize("every_step", [True, False])
def test_sru_has_first_and_second_derivatives(nonlinearity, every_step):
    sizes = {"alphas": (0.0, 0.9), "stat_size": 2, "gate_size": 2, "hidden_size": 2}
    layer = make_sru(nonlinearity=nonlinearity, return_sequences=every_step, **sizes)
    names = [name for name, _ in layer.named_parameters()]
    x = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
    u = torch.randn(1, 2, layer.state_size, dtype=torch.float64, requires_grad=True)

    def run(x, u, *weights):
        swapped = dict(zip(names, weights, strict=True))
        state = (u, torch.zeros(1, 2).long())
        output, (u, _) = torch.func.functional_call(layer, swapped, (x, state))
        return output, u

    inputs = (x, u, *layer.parameters())
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)

"""A committee: the members' mean in every form, and members that are trained by themselves."""

from __future__ import annotations

import pytest
import torch

from torchfru.nn import Committee, SequenceModel


def committee(probabilities=True, count=3, **options):
    torch.manual_seed(0)
    sizes = {"seq_len": 12, "hidden_size": 8, "num_freqs": 4, "freq_dim": 3, "window": 3, **options}
    members = [SequenceModel("fru", 2, 4, norm=True, **sizes) for _ in range(count)]
    for parameter in (one for member in members for one in member.head.parameters()):
        parameter.data *= 4  # sure of themselves: a mean of logits is not that of probabilities
    return Committee(members, probabilities).eval()


@pytest.mark.parametrize("every_step", [False, True])
def test_the_answer_is_the_mean_of_the_members(every_step):
    x, lengths = torch.randn(5, 12, 2), torch.tensor([12, 3, 1, 7, 12])
    model = committee(every_step=every_step)
    chances = torch.stack([one(x, lengths).softmax(-1) for one in model.members]).mean(0)
    torch.testing.assert_close(model(x, lengths).softmax(-1), chances)
    model.probabilities = False
    numbers = torch.stack([one(x, lengths) for one in model.members]).mean(0)
    torch.testing.assert_close(model(x, lengths), numbers)


def test_members_differ_and_train_apart():
    model, x = committee().train(), torch.randn(5, 12, 2)
    outputs = model(x)
    assert outputs.shape == (3, 5, 4)
    assert not torch.allclose(outputs[0], outputs[1])
    outputs[1].square().sum().backward()
    touched = [any(p.grad is not None and p.grad.any() for p in one.parameters())
               for one in model.members]  # fmt: skip
    assert touched == [False, True, False]


def test_a_stream_and_a_step_give_the_answer_so_far():
    model, x = committee(), torch.randn(2, 12, 2)
    stream, step = model.stream(2), model.step_model()
    state = step.start(2)
    assert len(step.state_names) == len(step.batch_axes) == len(state) == 9  # u, t and window
    for t in range(12):
        before = stream.copy() if t == 6 else None
        output = stream(x[:, t])
        with torch.no_grad():
            again, *state = step(x[:, t], *state)
        torch.testing.assert_close(again, model(x[:, : t + 1]), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(output, again, atol=1e-5, rtol=1e-4)
        if before is not None:
            torch.testing.assert_close(before(x[:, t]), output)
            before.state = stream.state
            torch.testing.assert_close(before(x[:, 7].numpy()), stream.copy()(x[:, 7]).numpy())
    stream.reset()
    torch.testing.assert_close(stream(x[:, 0]), model(x[:, :1]), atol=1e-5, rtol=1e-4)


def test_a_naive_start_is_for_one_model():
    with pytest.raises(ValueError, match="a forecast from a naive start is made by one model"):
        committee(naive="last", every_step=True)

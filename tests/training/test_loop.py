"""A run: what it records, that it resumes exactly, and that divergence is not hidden."""

from __future__ import annotations

import csv
import math
import pickle
import platform
import shutil
import signal
import sys
import textwrap
from dataclasses import asdict, replace

import pytest
import torch
from training_helpers import (
    Cut,
    numbers,
    python_command,
    read,
    toy,
    toy_config,
    toy_run,
    with_training,
)

from torchfru.nn import LAYERS, SequenceModel
from torchfru.training import Hook, TrainingConfig, process
from torchfru.training.batches import Batches, hold_back, subsample
from torchfru.training.checkpoint import Checkpoint
from torchfru.training.loop import learning_rate
from torchfru.training.objective import count_terms, loss_sum

TASKS = {"classify": "test_accuracy", "regress": "test_mse", "predict": "test_mse"}
TASKS["tag"] = "test_accuracy"


@pytest.mark.parametrize("task", TASKS)
def test_every_task_learns(tmp_path, task):
    config = toy_config("gru", epochs=25, lr=0.03)
    config = replace(config, model=replace(config.model, dropout=0.0))
    record = toy_run(tmp_path, config, data=toy(task, n=60))
    assert record.status == "finished"
    assert not record.diverged
    assert record.epochs[-1]["train_loss"] < 0.8 * record.epochs[0]["train_loss"]
    assert TASKS[task] in record.epochs[-1]


@pytest.mark.parametrize("layer", ["lstm", "sru", "fru"])
def test_answers_before_the_first_that_counts_are_not_computed(tmp_path, layer, monkeypatch):
    config = toy_config(layer)
    config = replace(config, model=replace(config.model, dropout=0.0))
    shapes = set()
    answer = SequenceModel.head_output
    monkeypatch.setattr(
        SequenceModel,
        "head_output",
        lambda self, y, *rest: shapes.add(y.shape[1]) or answer(self, y, *rest),
    )
    late = toy_run(tmp_path / "late", config, data=toy("tag"))
    assert shapes == {4}  # of six steps the first two do not count
    monkeypatch.setattr("torchfru.training.loop.first_output", lambda *_: 0)
    every = toy_run(tmp_path / "every", config, data=toy("tag"))
    assert shapes == {4, 6}
    for one, other in zip(numbers(asdict(late)), numbers(asdict(every)), strict=True):
        assert one == pytest.approx(other, rel=1e-3)


def test_the_record_has_what_a_reviewer_asks_for(tmp_path):
    toy_run(tmp_path, toy_config("lstm"))
    record = read(tmp_path / "results" / "toy" / "lstm-seed0.json")
    expected = "experiment model seed config parameters diverged seconds epochs versions commit"
    assert set(expected.split()) | {"data", "hardware", "status", "split"} <= set(record)
    assert record["config"]["training"]["lr"] == 0.01
    assert record["data"] == {"toy": "0"}
    assert {"python", "torch", "lightning", "torchfru"} <= set(record["versions"])
    assert {"cpu", "cores", "threads", "devices", "nodes"} <= set(record["hardware"])
    assert [epoch["epoch"] for epoch in record["epochs"]] == [1, 2, 3]
    assert set(record["epochs"][0]) == {
        "epoch",
        "train_loss",
        "test_loss",
        "test_accuracy",
        "seconds",
    }
    assert 0 <= record["epochs"][-1]["test_accuracy"] <= 100
    assert record["seconds"] == pytest.approx(sum(record["split"].values()), abs=0.01)


def test_logs_for_tensorboard_and_spreadsheets(tmp_path):
    record = toy_run(tmp_path, toy_config())
    folder = tmp_path / "checkpoints" / "results" / "toy" / "fru-seed0"
    with (folder / "logs" / "version_0" / "metrics.csv").open() as file:
        losses = [float(row["train_loss"]) for row in csv.DictReader(file)]
    assert losses == pytest.approx([epoch["train_loss"] for epoch in record.epochs])
    assert list(folder.glob("tensorboard/version_0/events*"))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_run_that_was_cut_off_ends_with_the_same_numbers(tmp_path, layer):
    config = toy_config(layer, epochs=4, lr_decay=0.5, decay_every=4, clip=0.5)
    whole = toy_run(tmp_path / "whole", config)
    for epoch, batch in ((0, 1), (1, 0), (2, 2)):
        with pytest.raises(InterruptedError):
            toy_run(tmp_path / "cut", config, resume=True, hooks=[Cut(epoch, batch)])
        record = read(tmp_path / "cut" / "results" / "toy" / f"{layer}-seed0.json")
        assert (record["status"], len(record["epochs"])) == ("stopped", epoch)
    resumed = toy_run(tmp_path / "cut", config, resume=True)
    assert numbers(vars(resumed)) == numbers(vars(whole))
    weights = [
        Checkpoint.load(tmp_path / name / f"checkpoints/results/toy/{layer}-seed0/last.safetensors")
        for name in ("whole", "cut")
    ]
    for name, value in (weights[0].weights | weights[0].optimizer).items():
        assert torch.equal(value, (weights[1].weights | weights[1].optimizer)[name]), name


def test_a_finished_run_can_be_prolonged(tmp_path):
    config = toy_config(epochs=5)
    whole = toy_run(tmp_path / "whole", config)
    toy_run(tmp_path / "parts", with_training(config, epochs=2))
    again = toy_run(tmp_path / "parts", with_training(config, epochs=2), resume=True)
    assert len(again.epochs) == 2
    assert numbers(vars(toy_run(tmp_path / "parts", config, resume=True))) == numbers(vars(whole))


def test_the_record_follows_the_checkpoint(tmp_path):
    """Killed between the two writes, the record is behind; resuming brings it up to date."""
    toy_run(tmp_path, toy_config())
    path = tmp_path / "results" / "toy" / "fru-seed0.json"
    finished = read(path)
    path.write_text(path.read_text().replace('"finished"', '"running"'))
    again = toy_run(tmp_path, toy_config(), resume=True)
    assert (again.status, again.epochs) == ("finished", finished["epochs"])


def test_other_settings_are_not_resumed(tmp_path):
    toy_run(tmp_path, toy_config())
    with pytest.raises(ValueError, match=r"was begun with training.lr=0.01, not 0.5"):
        toy_run(tmp_path, toy_config(lr=0.5), resume=True)


def test_other_data_are_not_resumed(tmp_path):
    toy_run(tmp_path, toy_config())
    other = replace(toy(), checksums={"toy": "1"})
    with pytest.raises(ValueError, match="was begun with other data"):
        toy_run(tmp_path, toy_config(epochs=9), data=other, resume=True)


def test_a_finished_record_needs_no_checkpoint(tmp_path):
    """Records are shared, weights are not: to resume a finished run does not train it again."""
    toy_run(tmp_path, toy_config())
    path = tmp_path / "results" / "toy" / "fru-seed0.json"
    before = read(path)
    shutil.rmtree(tmp_path / "checkpoints")
    assert toy_run(tmp_path, toy_config(), resume=True).epochs == before["epochs"]
    with pytest.raises(ValueError, match="was begun with"):
        toy_run(tmp_path, toy_config(lr=0.5), resume=True)
    path.write_text(path.read_text().replace('"finished"', '"running"'))
    again = toy_run(tmp_path, toy_config(), resume=True)  # cut off: from the beginning
    assert numbers(vars(again)) == numbers(before)


class StopIn(Hook):
    """Ctrl-C at the end of an epoch, before its checkpoint is written."""

    def __init__(self, epoch):
        self.epoch = epoch

    def on_epoch(self, training):
        if len(training.epochs) == self.epoch:
            raise KeyboardInterrupt


def test_a_stop_before_the_checkpoint_leaves_the_epoch_out_of_the_record(tmp_path):
    config = toy_config(epochs=4)
    with pytest.raises(InterruptedError, match="stopped after 1 of 4 epochs"):
        toy_run(tmp_path, config, hooks=[StopIn(2)])
    (path,) = tmp_path.rglob("fru-seed0.json")
    assert read(path)["status"] == "stopped"
    assert len(read(path)["epochs"]) == 1
    whole = toy_run(tmp_path / "whole", config)
    again = toy_run(tmp_path, config, resume=True)
    assert numbers(vars(again)) == numbers(vars(whole))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_between_checkpoint_and_record_waits_for_both(tmp_path, number, monkeypatch):
    save = Checkpoint.save

    def save_and_signal(self, path):
        save(self, path)
        if len(self.epochs) == 2:
            signal.raise_signal(number)

    monkeypatch.setattr(Checkpoint, "save", save_and_signal)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore Ctrl-C
    try:
        with pytest.raises(InterruptedError, match="stopped after 2 of 4 epochs"):
            toy_run(tmp_path, toy_config(epochs=4))
    finally:
        signal.signal(signal.SIGINT, before)
    (path,) = tmp_path.rglob("fru-seed0.json")
    assert len(read(path)["epochs"]) == 2


def test_a_new_run_puts_the_old_one_aside(tmp_path):
    first = toy_run(tmp_path, toy_config())
    toy_run(tmp_path, toy_config(lr=0.5))
    kept = read(tmp_path / "checkpoints" / "results" / "toy" / "fru-seed0" / "previous.json")
    assert kept["epochs"] == first.epochs


def test_divergence_is_recorded(tmp_path):
    data = toy("regress")
    data.train.targets[3] = float("inf")
    record = toy_run(tmp_path, toy_config("rnn"), data=data)
    assert (record.diverged, record.status, len(record.epochs)) == (True, "finished", 1)
    saved = read(tmp_path / "results" / "toy" / "rnn-seed0.json")
    assert saved["diverged"] is True
    assert saved["epochs"][0]["train_loss"] is None
    weights = Checkpoint.load(
        tmp_path / "checkpoints" / "results" / "toy" / "rnn-seed0" / "last.safetensors"
    ).weights
    assert all(value.isfinite().all() for value in weights.values())
    assert toy_run(tmp_path, toy_config("rnn"), data=data, resume=True).diverged


def test_a_loss_without_bound_is_divergence(tmp_path):
    record = toy_run(tmp_path, toy_config(max_loss=1e-6))
    assert (record.diverged, len(record.epochs)) == (True, 1)


def test_a_run_ends_when_its_minutes_are_used_up(tmp_path):
    config = toy_config(epochs=4)
    whole = toy_run(tmp_path / "whole", config)
    short = toy_run(tmp_path / "short", with_training(config, max_minutes=1e-9))
    assert (short.status, short.diverged, len(short.epochs)) == ("finished", False, 1)
    again = toy_run(tmp_path / "short", with_training(config, max_minutes=1e-9), resume=True)
    assert again.epochs == short.epochs
    prolonged = toy_run(tmp_path / "short", config, resume=True)
    assert numbers(vars(prolonged)) == numbers(vars(whole))


def test_the_minutes_are_counted_over_resumes(tmp_path):
    toy_run(tmp_path, toy_config(epochs=1))
    path = tmp_path / "checkpoints" / "results" / "toy" / "fru-seed0" / "last.safetensors"
    checkpoint = Checkpoint.load(path)
    checkpoint.epochs[0]["seconds"] = 90.0
    checkpoint.save(path)
    assert len(toy_run(tmp_path, toy_config(max_minutes=2.0), resume=True).epochs) == 3
    checkpoint.save(path)
    assert len(toy_run(tmp_path, toy_config(max_minutes=1.0), resume=True).epochs) == 1


def test_fewer_sequences_on_request(tmp_path):
    config = toy_config()
    config = replace(config, data=replace(config.data, limit=7))
    assert toy_run(tmp_path, config).last["test_accuracy"] in [100 * k / 7 for k in range(8)]
    part = subsample(toy().train, 7)
    assert len(part) == 7
    assert len(subsample(toy().train, 100)) == len(toy().train)
    assert torch.equal(part.inputs, subsample(toy().train, 7).inputs)


def test_one_bad_batch_is_not_divergence(tmp_path):
    data = toy("regress")
    data.train.targets[3] = 1e5
    record = toy_run(tmp_path, toy_config("gru", batch_size=1, clip=0.1), data=data)
    assert record.epochs[0]["train_loss"] > 1e8
    assert (record.diverged, len(record.epochs)) == (False, 3)


def test_validation_comes_out_of_the_training_part(tmp_path):
    data, config = toy(), toy_config()
    config = replace(config, data=replace(config.data, validation=0.25))
    record = toy_run(tmp_path, config, data=data)
    assert {"test_accuracy", "validation_accuracy"} <= set(record.last)
    assert "test_accuracy" not in toy_run(tmp_path, config, data=data, parts=()).last
    train, validation = hold_back(data.train, 0.25)
    assert (len(train), len(validation)) == (15, 5)
    rows = {tuple(row.flatten().tolist()) for part in (train, validation) for row in part.inputs}
    assert rows == {tuple(row.flatten().tolist()) for row in data.train.inputs}


def test_seeds_differ_and_repeat(tmp_path):
    first = toy_run(tmp_path / "a", toy_config())
    assert numbers(vars(toy_run(tmp_path / "b", toy_config()))) == numbers(vars(first))


def test_the_order_depends_on_seed_and_epoch_alone():
    data = toy()

    def order(seed: int, epoch: int) -> list[float]:
        batches = Batches(data.train, "classify", 6, seed=seed)
        return torch.cat([batch.inputs for batch in batches.epoch(epoch)])[:, 0, 0].tolist()

    assert order(0, 3) == order(0, 3)
    assert sorted(order(0, 3)) == sorted(order(0, 4)) == sorted(order(1, 3))
    assert len({tuple(order(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4


@pytest.mark.parametrize("task", TASKS)
def test_shares_add_up_to_the_batch(task):
    """Over the processes, sums and counts are those of the whole, however small the batch."""
    data = toy(task)
    output = torch.randn(
        *data.train.targets.shape[:1], *([6] if task in ("predict", "tag") else [])
    )
    for world in (1, 2, 3):
        shares = [
            list(Batches(data.train, data.task, 7, rank=rank, world=world)) for rank in range(world)
        ]
        for together in zip(*shares, strict=True):
            assert sum(share.terms for share in together) == together[0].all_terms
    assert output.shape[0] == len(data.train)


def test_losses_are_sums_over_the_true_steps():
    data = toy("predict")
    output = torch.randn_like(data.train.targets)
    lengths = data.train.lengths
    by_hand = sum(
        ((output[i, :n] - data.train.targets[i, :n]) ** 2).sum() for i, n in enumerate(lengths)
    )
    torch.testing.assert_close(loss_sum("predict", output, data.train.targets, lengths), by_hand)
    assert count_terms("predict", data.train.targets, lengths) == int(lengths.sum())
    tags = toy("tag").train.targets
    assert count_terms("tag", tags, None) == tags.numel() * 4 // 6


def test_learning_rate_falls_every_thousand_steps():
    training = TrainingConfig(lr=0.1, lr_decay=0.5)
    rates = [learning_rate(training, step, 10) for step in (0, 999, 1000, 2000)]
    assert rates == [0.1, 0.1, 0.05, 0.025]


def test_one_cycle_rises_and_falls_to_nothing():
    training = TrainingConfig(lr=0.1, schedule="one-cycle", warmup=0.2, epochs=5)
    rates = [learning_rate(training, step, 20) for step in range(100)]
    assert rates.index(max(rates)) in (19, 20)
    assert rates[:20] == sorted(rates[:20])
    assert rates[20:] == sorted(rates[20:], reverse=True)
    assert rates[-1] == pytest.approx(0, abs=1e-12)
    assert 0.098 < max(rates) <= 0.1


def test_smoothed_labels_are_for_training_only(tmp_path):
    still = toy_config("lstm", lr=1e-12)
    smooth = with_training(still, label_smoothing=0.5)
    first = toy_run(tmp_path / "smooth", smooth).epochs[0]
    second = toy_run(tmp_path / "plain", still).epochs[0]
    assert first["train_loss"] != pytest.approx(second["train_loss"], rel=1e-3)
    assert first["test_loss"] == pytest.approx(second["test_loss"], rel=1e-5)


def test_one_cycle_resumes_exactly(tmp_path):
    config = with_training(toy_config("fru"), schedule="one-cycle", label_smoothing=0.1)
    whole = toy_run(tmp_path / "whole", config)
    with pytest.raises(InterruptedError):
        toy_run(tmp_path / "cut", config, hooks=[Cut(1, 0)])
    resumed = toy_run(tmp_path / "cut", config, resume=True)
    assert numbers(vars(resumed)) == numbers(vars(whole))


def test_weight_decay_shrinks_the_weights(tmp_path):
    config = with_training(toy_config(), weight_decay=5.0)
    shrunk, plain = (
        toy_run(tmp_path / name, c) for name, c in {"a": config, "b": toy_config()}.items()
    )
    assert shrunk.epochs[-1]["train_loss"] != plain.epochs[-1]["train_loss"]
    sizes = [norm_of_weights(tmp_path / name) for name in "ab"]
    assert sizes[0] < 0.9 * sizes[1]


def norm_of_weights(folder):
    path = next(folder.rglob("last.safetensors"))
    return sum(float(w.norm()) for w in Checkpoint.load(path).weights.values())


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc of another C library")
def test_memory_of_a_batch_is_kept_for_the_next_one():
    # in a process of its own: which memory is free depends on all that was allocated before
    program = """
        import re, torch
        from torchfru.training.process import memory_kept

        def resident():  # in MiB
            with open("/proc/self/status") as status:
                return int(re.search(r"VmRSS:\\s+(\\d+) kB", status.read())[1]) / 1024

        torch.ones(16)
        before = resident()
        with memory_kept():
            torch.ones(48 << 18)  # 48 MiB, freed at once
            inside = resident()
        after = resident()
        torch.ones(256 << 18)  # larger than any free place that the block left
        print(inside - before, after - before, resident() - before)
    """
    done = python_command("-c", textwrap.dedent(program), check=True)
    inside, after, later = map(float, done.stdout.split())
    assert inside > 40  # kept
    assert after < 8  # given back
    assert later < 8  # and freed at once again, as before the block


def test_training_flushes_denormal_numbers_and_leaves_the_processor_as_it_was(tmp_path):
    seen = []

    class Look(Hook):
        def on_epoch(self, training):
            seen.append(sys.float_info.min / 2)

    toy_run(tmp_path, toy_config(), hooks=[Look()])
    assert seen == 3 * [0.0]
    assert sys.float_info.min / 2 > 0


@pytest.mark.parametrize(("little", "used"), [(math.inf, 1), (0, 2)])
def test_a_run_with_little_work_uses_one_thread(little, used, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "LITTLE_WORK", little)
    seen = []

    class Look(Hook):
        def on_epoch(self, training):
            seen.append(torch.get_num_threads())

    with process.threads_used(2):
        result = toy_run(tmp_path, toy_config(), hooks=[Look()])
        assert torch.get_num_threads() == 2
    assert seen == 3 * [used]
    assert result.hardware["threads"] == used


def test_a_strangers_checkpoint_runs_no_code(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("code was run",))

    for name, content in {"pickle": pickle.dumps(Bomb()), "empty": b"", "cut": b"\x08" * 9}.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a checkpoint of torchfru"):
            Checkpoint.load(path)

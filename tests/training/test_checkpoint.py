"""A checkpoint: refused when it is damaged or another run's, and the one before it is kept."""

from __future__ import annotations

import json
import random
import struct

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from training_helpers import numbers, read, toy, toy_config, toy_run, with_training

from torchfru.training import Hook, Run, RunBusyError, run_experiment
from torchfru.training.checkpoint import DAMAGED, EARLIER, NAME, Checkpoint
from torchfru.training.trained import load_trained

FOLDER = "checkpoints/results/toy/gru-seed0"
RECORD = "results/toy/gru-seed0.json"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of three epochs."""
    folder = tmp_path_factory.mktemp("whole")
    toy_run(folder, toy_config("gru"))
    return folder


@pytest.fixture
def halted(tmp_path):
    """The same run after two of its epochs."""
    toy_run(tmp_path, with_training(toy_config("gru"), epochs=2))
    return tmp_path


def resume(folder):
    return toy_run(folder, toy_config("gru"), resume=True)


def assert_same(folder, whole):
    assert numbers(read(folder / RECORD)) == numbers(read(whole / RECORD))
    first, second = (Checkpoint.load(path / FOLDER / NAME) for path in (folder, whole))
    for name, value in (first.weights | first.optimizer).items():
        assert torch.equal(value, (second.weights | second.optimizer)[name]), name


def flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << random.Random(position).randrange(8)
    path.write_bytes(content)


def test_every_flipped_bit_is_noticed(halted):
    path = halted / FOLDER / NAME
    content = path.read_bytes()
    positions = random.Random(0).sample(range(len(content)), 300)
    for position in positions:
        flip(path, position)
        with pytest.raises(ValueError, match="is not a checkpoint of torchfru"):
            Checkpoint.load(path)
        path.write_bytes(content)
    Checkpoint.load(path)


@pytest.mark.parametrize("damage", ["flip", "empty", "truncate", "missing"])
def test_a_damaged_checkpoint_is_replaced_by_the_one_before(halted, whole, capfd, damage):
    newest = halted / FOLDER / NAME
    content = newest.read_bytes()
    if damage == "flip":
        flip(newest, len(content) - 100)
    elif damage == "missing":
        newest.unlink()
    else:
        newest.write_bytes(content[: 0 if damage == "empty" else len(content) // 2])
    resume(halted)
    assert_same(halted, whole)
    said = capfd.readouterr().err
    assert ("resuming from the one before it, after epoch 1" in said) == (damage != "missing")
    assert (halted / FOLDER / DAMAGED).exists() == (damage != "missing")


def test_two_damaged_checkpoints_are_an_error(halted):
    for name in (NAME, EARLIER):
        flip(halted / FOLDER / name, 900)
    with pytest.raises(ValueError, match="is not a checkpoint of torchfru"):
        resume(halted)


def test_another_seed_s_checkpoint_is_refused(halted):
    run = Run("toy", "gru", 1, toy_config("gru"), halted / "results")
    run.folder.mkdir(parents=True)
    (run.folder / NAME).write_bytes((halted / FOLDER / NAME).read_bytes())
    with pytest.raises(ValueError, match=r"last.safetensors is of seed 0, not 1; bring the right"):
        run_experiment(run, resume=True, data=toy(), accelerator="cpu")


def test_another_run_s_record_is_refused(halted):
    path = halted / RECORD
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 7'))
    with pytest.raises(ValueError, match="is the record of toy gru seed 7; bring the right one"):
        resume(halted)


@pytest.mark.parametrize("content", ["", "{", '{"experiment": "toy"', "[]"])
@pytest.mark.parametrize("epochs", [2, 3])
def test_a_broken_record_does_not_block_a_good_checkpoint(tmp_path, whole, content, epochs):
    toy_run(tmp_path, with_training(toy_config("gru"), epochs=epochs))
    (tmp_path / RECORD).write_text(content)
    assert resume(tmp_path).status == "finished"
    assert_same(tmp_path, whole)


def test_a_broken_record_alone_is_an_error(halted):
    for path in (halted / FOLDER).glob("*.safetensors"):
        path.unlink()
    (halted / RECORD).write_text("")
    with pytest.raises(ValueError, match=r"is not a run record: .*; leave --resume out to start"):
        resume(halted)


def test_the_first_format_is_still_read(halted, whole):
    """It had no digest, and may hold fields that have been dropped since."""
    path = halted / FOLDER / NAME
    with safe_open(path, framework="pt") as file:
        state = json.loads(file.metadata()["state"]) | {"dropped": 1}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, path, {"format": "torchfru-checkpoint-1", "state": json.dumps(state)})
    resume(halted)
    assert_same(halted, whole)


def test_an_older_format_s_name_does_not_hide_a_wrong_digest(halted):
    path = halted / FOLDER / NAME
    content = path.read_bytes()
    path.write_bytes(content.replace(b"torchfru-checkpoint-2", b"torchfru-checkpoint-1", 1))
    Checkpoint.load(path)  # the format itself is all that was changed
    flip(path, len(content) - 10)
    with pytest.raises(ValueError, match="do not match its digest"):
        Checkpoint.load(path)


def header(shape, offsets, length=None):
    entry = {"w": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}
    text = json.dumps(entry).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(16)


PETA = 10**15


@pytest.mark.parametrize(
    "content",
    [
        header([PETA], [0, 4 * PETA]),
        header([PETA], [0, 16]),
        header([4], [100, 116]),
        header([4], [-16, 0]),
        header([4], [16, 0]),
        header([2**32, 2**32], [0, 0]),
        header([4], [0, 16], length=2**62),
        header([4], [0, 16], length=2**64 - 1),
        header([3], [0, 12]),
    ],
    ids=str,
)
def test_sizes_in_the_header_are_compared_with_the_file(tmp_path, content):
    path = tmp_path / NAME
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a checkpoint of torchfru"):
        Checkpoint.load(path)


@pytest.mark.parametrize(
    ("section", "name", "size"),
    [
        ("model", "hidden_size", PETA),
        ("model", "num_layers", PETA),
        ("model", "hidden_size", 100),
        ("model", "num_layers", 2),
        ("data", "input_size", PETA),
        ("data", "output_size", PETA),
        ("data", "vocab_size", PETA),
    ],
)
def test_sizes_of_the_model_are_compared_with_the_weights(whole, tmp_path, section, name, size):
    """The digest tells nothing of a file that was made to do harm."""
    checkpoint = Checkpoint.load(whole / FOLDER / NAME)
    (checkpoint.data if section == "data" else checkpoint.config["model"])[name] = size
    checkpoint.save(tmp_path / NAME)
    with pytest.raises(ValueError, match=r"does not describe a model: its .*; train it again"):
        load_trained(str(tmp_path / NAME), tmp_path)


def test_what_is_no_file_is_not_opened(tmp_path):
    import os

    os.mkfifo(tmp_path / NAME)
    with pytest.raises(ValueError, match="is not a checkpoint of torchfru: it is not a file"):
        Checkpoint.load(tmp_path / NAME)


# Locks and crashes ---------------------------------------------------------------------------


def test_a_run_that_is_being_trained_is_left_alone(tmp_path):
    class Second(Hook):
        def on_epoch(self, training):
            with pytest.raises(RunBusyError, match="toy gru seed 0 is being trained by another"):
                toy_run(tmp_path, toy_config("gru"))

    toy_run(tmp_path, toy_config("gru"), hooks=[Second()])
    assert len(read(tmp_path / RECORD)["epochs"]) == 3
    toy_run(tmp_path, toy_config("gru"))  # the lock is free again


class CrashError(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("resumed", [False, True])
def test_a_crash_at_any_file_operation_is_resumed_exactly(tmp_path, whole, monkeypatch, resumed):
    """Before each sync, rename and link that a run makes, in turn, it ends."""
    done, last = 0, None

    def counted(operation):
        def call(*arguments, **options):
            nonlocal done
            done += 1
            if done == last:
                raise CrashError
            return operation(*arguments, **options)

        return call

    for name in ("fsync", "replace", "link"):
        monkeypatch.setattr(f"os.{name}", counted(getattr(__import__("os"), name)))
    for crash in range(1, 100):
        folder, done, last = tmp_path / str(crash), 0, None
        if resumed:
            toy_run(folder, with_training(toy_config("gru"), epochs=1))
        done, last = 0, crash
        try:
            toy_run(folder, toy_config("gru"), resume=resumed)
        except CrashError:
            last = None
            resume(folder)
            assert_same(folder, whole)
        else:
            break
    assert crash > 15

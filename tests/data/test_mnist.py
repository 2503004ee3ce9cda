"""MNIST from small made files: what is read, and what is refused."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import torch
from data_helpers import idx_bytes, make_mnist

from torchfru.data import DataError, load
from torchfru.data import mnist as module

NAME = "train-images-idx3-ubyte"


@pytest.fixture
def contents(tmp_path, monkeypatch):
    return make_mnist(tmp_path, monkeypatch)


def pixels(contents, part) -> np.ndarray:
    data = np.frombuffer(contents[f"{part}-images-idx3-ubyte"], dtype=np.uint8, offset=16)
    return data.reshape(-1, 784)


def test_pixel_by_pixel(tmp_path, contents):
    data = load("pixel-mnist", data_dir=tmp_path)
    assert (data.task, data.input_size, data.output_size, data.seq_len) == ("classify", 1, 10, 784)
    assert data.train.inputs.shape == (12, 784, 1)
    assert data.test.inputs.shape == (3, 784, 1)
    np.testing.assert_allclose(data.train.inputs[..., 0], pixels(contents, "train") / 255)
    labels = np.frombuffer(contents["t10k-labels-idx1-ubyte"], dtype=np.uint8, offset=8)
    assert data.test.targets.tolist() == labels.tolist()
    assert data.test.targets.dtype == torch.int64
    assert set(data.checksums) == set(contents)


def test_row_by_row(tmp_path, contents):
    data = load("pixel-mnist", data_dir=tmp_path, steps=28)
    assert (data.input_size, data.seq_len) == (28, 28)
    np.testing.assert_allclose(
        data.train.inputs[3], pixels(contents, "train")[3].reshape(28, 28) / 255
    )


def test_permuted(tmp_path, contents):
    plain = load("pixel-mnist", data_dir=tmp_path)
    once, again = (load("permuted-mnist", data_dir=tmp_path) for _ in range(2))
    assert torch.equal(once.train.inputs, again.train.inputs)
    order = module.shuffled(784, module.generator(0))
    assert sorted(order) == list(range(784))
    assert torch.equal(once.train.inputs, plain.train.inputs[:, order])
    assert torch.equal(once.test.inputs, plain.test.inputs[:, order])  # the same for all
    other = load("permuted-mnist", data_dir=tmp_path, seed=1)
    assert not torch.equal(other.train.inputs, once.train.inputs)


def test_the_permutation_stays_what_it_is():
    assert module.shuffled(784, module.generator(0))[:5].tolist() == [269, 11, 403, 600, 196]


def test_standard_pixels(tmp_path, contents):
    unit = load("pixel-mnist", data_dir=tmp_path)
    standard = load("pixel-mnist", data_dir=tmp_path, pixels="standard")
    np.testing.assert_allclose(standard.test.inputs * 0.3081 + 0.1307, unit.test.inputs, atol=1e-6)


def test_released_split(tmp_path, contents):
    plain = load("pixel-mnist", data_dir=tmp_path)
    data = load("pixel-mnist", data_dir=tmp_path, split="released")
    assert (len(data.train), len(data.test)) == (12, 3)  # 80 % of 15
    rows = {
        tuple(row) for row in torch.cat([plain.train.inputs, plain.test.inputs])[..., 0].numpy()
    }
    mixed = torch.cat([data.train.inputs, data.test.inputs])[..., 0].numpy()
    assert {tuple(row) for row in mixed} == rows
    assert not torch.equal(data.test.inputs, plain.test.inputs)
    images = {tuple(x[:, 0].tolist()): y for x, y in zip(*_all(plain), strict=True)}
    for x, y in zip(*_all(data), strict=True):
        assert images[tuple(x[:, 0].tolist())] == y


def _all(data):
    inputs = torch.cat([data.train.inputs, data.test.inputs])
    return inputs, torch.cat([data.train.targets, data.test.targets])


def test_any_compression_is_accepted(tmp_path, contents):
    path = tmp_path / "mnist" / f"{NAME}.gz"
    path.write_bytes(gzip.compress(contents[NAME], compresslevel=1))
    assert len(load("pixel-mnist", data_dir=tmp_path).train) == 12


def cut_short(content):
    return gzip.compress(content)[:-200]


def damaged(content):
    packed = bytearray(gzip.compress(content))
    packed[len(packed) // 2] ^= 255
    return bytes(packed)


def wrong_magic(content):
    return gzip.compress(b"\0\0\x08\x01" + content[4:])


def wrong_count(content):
    array = np.frombuffer(content, dtype=np.uint8, offset=16).reshape(-1, 28, 28)
    return gzip.compress(idx_bytes(array[:-1], 2051))


def too_few_bytes(content):
    return gzip.compress(content[:-1])


def too_many_bytes(content):
    return gzip.compress(content + b"\0")


def other_pixels(content):
    return gzip.compress(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut_short, "damaged or cut short"),
        (damaged, "damaged or cut short|differs|fewer bytes"),
        (lambda _: b"no gzip", "damaged or cut short; delete it"),
        (lambda _: b"", "magic number 0"),
        (lambda _: gzip.compress(b""), "magic number 0, expected 2051"),
        (wrong_magic, "magic number 2049, expected 2051"),
        (wrong_count, "holds 11 x 28 x 28, expected 12 x 28 x 28"),
        (too_few_bytes, "fewer bytes than the 9408"),
        (too_many_bytes, "more bytes than the 9408"),
        (other_pixels, "the SHA-256 of its content differs"),
    ],
)
def test_bad_files_are_refused(tmp_path, contents, spoil, message):
    path = tmp_path / "mnist" / f"{NAME}.gz"
    path.write_bytes(spoil(contents[NAME]))
    with pytest.raises(DataError, match=message) as error:
        load("pixel-mnist", data_dir=tmp_path)
    text = str(error.value)
    assert text.startswith(f"{path}: ")
    assert "delete it and run torchfru data fetch pixel-mnist" in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 27}, "steps must be one of 1, 2, 4.*784; got 27"),
        ({"split": "mine"}, "split must be one of 'standard', 'released'; got 'mine'"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        load("permuted-mnist", **options)

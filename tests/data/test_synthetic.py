"""The generated data sets against the paper's algorithms, written out as it prints them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from torchfru.data import IGNORED, load
from torchfru.data.synthetic import mix

SMALL = {"size": 6, "length": 9}


def whole(data) -> np.ndarray:
    """The sequences x (N, T) behind a data set that predicts the next value."""
    parts = [
        torch.cat([part.inputs[..., 0], part.targets[:, -1]], 1) for part in (data.train, data.test)
    ]
    return torch.cat(parts).numpy()


def drawn(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def mixed(curve, delta, b) -> np.ndarray:
    """The last loops of both algorithms, t = 1..T."""
    N, T = SMALL["size"], SMALL["length"]
    x = np.zeros((N, T))
    for n in range(N):
        for t in range(1, T + 1):
            s = (t - 0.5 * T) / (0.5 * T)
            x[n, t - 1] = sum(delta[n, i] * curve(i, s) + b[n, i] for i in range(5))
    return x


@pytest.mark.parametrize("seed", [0, 7])
def test_mix_sin_is_algorithm_1(seed):
    N, d = SMALL["size"], 15
    rng = drawn(seed)
    f, theta = rng.uniform(0.1, 3, d), rng.uniform(-1, 1, d)
    a = rng.uniform(-1, 1, (5, d))
    delta, b = rng.normal(0, 0.1, (N, 5)), rng.normal(0, 0.1, (N, 5))

    def curve(i, s):
        return sum(
            a[i, j] * math.sin(2 * math.pi * f[j] * s + 2 * math.pi * theta[j]) for j in range(d)
        )

    got = whole(load("mix-sin", seed=seed, **SMALL))
    np.testing.assert_allclose(got, mixed(curve, delta, b), atol=1e-6)


@pytest.mark.parametrize("degree", [1, 5, 15])
def test_mix_poly_is_algorithm_2(degree):
    N = SMALL["size"]
    rng = drawn(3)
    a = rng.uniform(-1, 1, (5, degree))
    delta, b = rng.normal(0, 0.1, (N, 5)), rng.normal(0, 0.1, (N, 5))

    def curve(i, s):
        return sum(a[i, j - 1] * s**j for j in range(1, degree + 1))

    got = whole(load("mix-poly", degree=degree, seed=3, **SMALL))
    np.testing.assert_allclose(got, mixed(curve, delta, b), atol=1e-6)


def test_rates_and_biases_have_standard_deviation_a_tenth():
    """With a flat curve of 1, x = sum of 5 rates and 5 biases: variance 10 / 100."""
    x = mix(np.ones((5, 2)), 20_000, drawn(0), biases=5)
    assert x[:, 0].std() == pytest.approx(math.sqrt(0.1), rel=0.02)
    assert abs(x.mean()) < 0.01


def test_released_mix_sin():
    """One bias a sequence, a phase per component, frequencies in tenths, t = 0..T-1."""
    N, T, d = SMALL["size"], SMALL["length"], 15
    rng = drawn(0)
    f = np.floor(rng.uniform(1, 30, d)) * 0.1
    theta, a = rng.uniform(-1, 1, (5, d)), rng.uniform(-1, 1, (5, d))
    delta, b = rng.normal(0, 0.1, (N, 5)), rng.normal(0, 0.1, (N, 1))
    s = (np.arange(T) - 0.5 * T) / (0.5 * T)
    curves = [
        sum(a[i, j] * np.sin(2 * np.pi * (f[j] * s + theta[i, j])) for j in range(d))
        for i in range(5)
    ]
    data = load("mix-sin", variant="released", **SMALL)
    got = torch.cat([data.train.inputs, data.test.inputs])[..., 0]
    np.testing.assert_allclose(got, delta @ np.array(curves) + b, atol=1e-6)
    assert set(np.round(10 * f)) <= set(range(1, 30))


@pytest.mark.parametrize("name", ["mix-sin", "mix-poly"])
def test_tasks_of_the_variants(name):
    paper, released = load(name, **SMALL), load(name, variant="released", **SMALL)
    assert (paper.task, paper.seq_len, paper.input_size, paper.output_size) == ("predict", 8, 1, 1)
    torch.testing.assert_close(paper.train.inputs[:, 1:], paper.train.targets[:, :-1])
    assert (released.task, released.seq_len, released.output_size) == ("regress", 9, 8)
    torch.testing.assert_close(released.train.targets, released.train.inputs[:, 1:, 0])
    assert not torch.equal(released.train.inputs[:, :-1], paper.train.inputs)


def test_sizes_of_the_paper():
    data = load("mix-poly", degree=10)
    assert (len(data.train), len(data.test)) == (3200, 800)
    assert data.train.inputs.shape == data.train.targets.shape == (3200, 175, 1)
    assert data.train.inputs.dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "options", "digest"),
    [
        ("mix-sin", {}, "c230eb50d2015f8e"),
        ("mix-sin", {"variant": "released"}, "01e3db95a5283b80"),
        ("mix-poly", {"degree": 15}, "bef411ce11f638aa"),
        ("adding", {"length": 1000, "size": 10_000}, "e9e2ea3df1791b3b"),
        ("copy", {}, "9e6afa1a5ab20a50"),
    ],
)
def test_the_same_on_every_machine(name, options, digest):
    assert load(name, **options).checksums[name].startswith(digest)


@pytest.mark.parametrize("name", ["mix-sin", "mix-poly", "adding", "copy"])
def test_seeds(name):
    once, again, other = (load(name, size=10, length=12, seed=s) for s in (1, 1, 2))
    torch.testing.assert_close(once.train.inputs, again.train.inputs, rtol=0, atol=0)
    assert once.checksums == again.checksums
    assert not torch.equal(once.train.inputs, other.train.inputs)
    assert once.checksums != other.checksums


@pytest.mark.parametrize("length", [2, 3, 50, 101])
def test_adding(length):
    data = load("adding", length=length, size=200)
    sizes = (data.input_size, data.output_size, data.seq_len)
    assert (data.task, sizes) == ("regress", (2, 1, length))
    x, y = data.train.inputs, data.train.targets
    values, marks = x.unbind(-1)
    assert set(marks.unique().tolist()) <= {0, 1}
    assert (marks[:, : length // 2].sum(1) == 1).all()
    assert (marks[:, length // 2 :].sum(1) == 1).all()
    torch.testing.assert_close((values * marks).sum(1, keepdim=True), y)
    assert values.min() >= 0
    assert values.max() <= 1


def test_adding_is_as_hard_as_it_should_be():
    """Always answering 1 gives 1/6, and every step is marked at some time."""
    data = load("adding", length=10, size=20_000)
    assert ((data.train.targets - 1) ** 2).mean() == pytest.approx(1 / 6, rel=0.03)
    assert (data.train.inputs[..., 1].sum(0) > 0).all()


@pytest.mark.parametrize("length", [1, 40])
def test_copy(length):
    data = load("copy", length=length, size=300)
    x, y = data.train.inputs, data.train.targets
    assert data.task == "tag"
    assert x.shape == (240, length + 20, 10)
    assert (data.input_size, data.output_size, data.seq_len) == (10, 8, length + 20)
    assert (x.sum(-1) == 1).all()
    step = x.argmax(-1)
    assert (y[:, :-10] == IGNORED).all()
    assert torch.equal(y[:, -10:], step[:, :10])
    assert y[:, -10:].unique().tolist() == list(range(8))
    assert (step[:, 10 : 10 + length - 1] == 8).all()
    assert (step[:, 10 + length - 1] == 9).all()
    assert (step[:, -10:] == 8).all()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mix-sin", {"size": 1}, "size must be a whole number of at least 2, got 1"),
        ("mix-sin", {"length": "long"}, "length must be a whole number.*got 'long'"),
        ("mix-poly", {"degree": 0}, "degree must be a whole number of at least 1, got 0"),
        ("mix-poly", {"variant": "mine"}, "one of 'paper', 'released'; got 'mine'"),
        ("adding", {"length": 1}, "adding: length must be .* at least 2, got 1"),
        ("copy", {"length": 2.5}, "copy: length must be .* at least 1, got 2.5"),
        ("copy", {"lenght": 3}, "no option is called 'lenght'; did you mean 'length'"),
        ("mixpoly", {}, "'mixpoly' is neither a data set nor .*; did you mean 'mix-poly'"),
        ("data.txt", {}, "a file that ends in .npz, .csv, .parquet"),
    ],
)
def test_wrong_options(name, options, message):
    with pytest.raises(ValueError, match=message):
        load(name, **options)

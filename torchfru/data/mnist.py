"""MNIST as sequences of pixels: in reading order, permuted, or a row a step."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .arrays import (
    Array,
    damaged,
    floats,
    generator,
    integers,
    require_choice,
    shuffled,
    train_size,
)
from .files import Source, locate
from .sequence import SequenceData

URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
SIDE = 28
IMAGES, LABELS = 2051, 2049  # magic numbers of the idx format: bytes in 3 dimensions, in 1
SPLITS = ("standard", "released")
# The mean and, by the side of the images, the standard deviation of all pixels of the training
# images, within 0 and 1. An average of four pixels varies less than one.
MEAN, DEVIATIONS = 0.1307, {28: 0.3081, 14: 0.2801, 7: 0.2307}
PIXEL_SCALES = ("unit", "standard")


@dataclass(frozen=True)
class IdxFile:
    """One of the four files, known by its content, however it was compressed.

    ``sha256`` is that of the content, ``md5`` that of the official .gz.
    """

    name: str
    magic: int
    shape: tuple[int, ...]
    sha256: str
    md5: str

    def source(self) -> Source:
        name = f"{self.name}.gz"
        return Source("mnist", name, URL + name, self.check, f"md5:{self.md5}")

    def check(self, path: Path) -> str:
        self.read(path)
        return self.sha256

    def read(self, path: Path) -> Array:
        """The content as bytes of this shape.

        It starts with the magic number and the sizes: 4 bytes each, the highest byte first.
        """
        header, size = 4 + 4 * len(self.shape), int(np.prod(self.shape))
        try:
            with gzip.open(path) as file:  # not beyond a byte too many: it may unpack without end
                data = file.read(header + size + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise damaged(path, "damaged or cut short", "pixel-mnist") from error
        words = np.frombuffer(data[:header].ljust(header, b"\0"), dtype=">u4").tolist()
        if words[0] != self.magic:
            self._refuse(path, f"magic number {words[0]}, expected {self.magic}")
        if tuple(words[1:]) != self.shape:
            self._refuse(path, f"holds {_times(words[1:])}, expected {_times(self.shape)}")
        if len(data) != header + size:
            more = "more" if len(data) > header + size else "fewer"
            self._refuse(path, f"{more} bytes than the {size} of {_times(self.shape)}")
        if hashlib.sha256(data).hexdigest() != self.sha256:
            self._refuse(path, "the SHA-256 of its content differs")
        return np.frombuffer(data, dtype=np.uint8, offset=header).reshape(self.shape)

    def _refuse(self, path: Path, problem: str) -> None:
        raise damaged(path, f"not MNIST's {self.name} ({problem})", "pixel-mnist")


FILES = (
    IdxFile(
        "train-images-idx3-ubyte",
        IMAGES,
        (60_000, 28, 28),
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    ),
    IdxFile(
        "train-labels-idx1-ubyte",
        LABELS,
        (60_000,),
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "d53e105ee54ea40749a09fcbcd1e9432",
    ),
    IdxFile(
        "t10k-images-idx3-ubyte",
        IMAGES,
        (10_000, 28, 28),
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "9fb629c4189551a2d022fa330f9573f3",
    ),
    IdxFile(
        "t10k-labels-idx1-ubyte",
        LABELS,
        (10_000,),
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
)


def sources() -> tuple[Source, ...]:
    """The files that MNIST comes in."""
    return tuple(file.source() for file in FILES)


def mnist(
    name: str,
    *,
    data_dir: Path | None = None,
    side: int = SIDE,
    steps: int | None = None,
    split: str = "standard",
    pixels: str = "unit",
    seed: int = 0,
) -> SequenceData:
    """Digits, pixel by pixel from the top left; ``steps=28`` reads a row a step.

    The pixels of "permuted-mnist" come in one random order, the same for all, drawn from ``seed``.
    ``side=14`` averages the images to 14 x 14 pixels: 196 steps, a quarter of the time.
    ``split="released"`` is the released code's: all 70,000 images shuffled by ``seed``, 80/20.
    Pixels lie within 0 and 1, or with ``pixels="standard"`` have mean 0 and deviation 1.
    """
    require_choice(f"{name}: side", side, DEVIATIONS)
    size = side**2
    steps = size if steps is None else steps
    divisors = [n for n in range(1, size + 1) if size % n == 0]
    require_choice(f"{name}: steps", steps, divisors)
    require_choice(f"{name}: split", split, SPLITS)
    require_choice(f"{name}: pixels", pixels, PIXEL_SCALES)
    train_x, train_y, test_x, test_y = (f.read(locate(f.source(), data_dir)) for f in FILES)
    x, y = np.concatenate([train_x, test_x]), np.concatenate([train_y, test_y])
    n = len(train_y)
    if split == "released":
        mixed = shuffled(len(y), generator(seed))
        x, y, n = x[mixed], y[mixed], train_size(len(y), test=0.2)
    order = shuffled(size, generator(seed)) if name == "permuted-mnist" else np.arange(size)
    ordered = _averaged(x, side).reshape(len(x), size)[:, order]
    inputs = floats(ordered.reshape(len(x), steps, size // steps)).div_(255)  # (N, L, n_in)
    if pixels == "standard":
        inputs.sub_(MEAN).div_(DEVIATIONS[side])
    return SequenceData.of(
        name,
        "classify",
        inputs,
        integers(y),
        train=n,
        output_size=10,
        checksums={file.name: file.sha256 for file in FILES},
        classes=tuple("0123456789"),
    )


def _averaged(images: Array, side: int) -> Array:
    """(N, 28, 28) bytes as (N, side, side), each pixel the mean of a square."""
    if side == SIDE:
        return images
    square = SIDE // side
    return images.reshape(-1, side, square, side, square).mean((2, 4), dtype=np.float32)


def _times(sizes: tuple[int, ...] | list[int]) -> str:
    return " x ".join(map(str, sizes))

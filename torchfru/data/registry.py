"""All data sets by name: to add one, write a function that builds it and add a line here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..io import did_you_mean
from . import beijing, imdb, mnist, synthetic
from .arrays import DataError
from .files import Source, find
from .sequence import SequenceData, Task
from .user_file import SUFFIXES, user_file


@dataclass(frozen=True)
class DataSet:
    """A data set that :func:`load` knows.

    Attributes:
        build: the function that builds it; its keyword arguments are the options.
        sources: the files that it is read from; none if it is generated.
    """

    name: str
    task: Task
    summary: str
    build: Callable[..., SequenceData]
    sources: Callable[[], tuple[Source, ...]] = tuple

    @property
    def options(self) -> dict[str, Any]:
        """The options and their defaults."""
        return _options(self.build)

    @property
    def needs_download(self) -> bool:
        """Whether it is read from files, which may have to be downloaded."""
        return bool(self.sources())


PIXEL, PERMUTED = (partial(mnist.mnist, name) for name in ("pixel-mnist", "permuted-mnist"))
_ALL = (
    DataSet("mix-sin", "predict", "mixtures of five curves of sines", synthetic.mix_sin),
    DataSet("mix-poly", "predict", "mixtures of five polynomials", synthetic.mix_poly),
    DataSet("adding", "regress", "add two marked numbers far apart", synthetic.adding),
    DataSet("copy", "tag", "repeat ten symbols after a delay", synthetic.copy),
    DataSet("pixel-mnist", "classify", "digits as sequences", PIXEL, mnist.sources),
    DataSet("permuted-mnist", "classify", "digits, permuted", PERMUTED, mnist.sources),
    DataSet("imdb", "classify", "film reviews, positive or negative", imdb.imdb, imdb.sources),
    DataSet("beijing", "predict", "temperature in Beijing", beijing.beijing, beijing.sources),
)
DATASETS = {entry.name: entry for entry in _ALL}


def names() -> list[str]:
    """The names that :func:`load` knows.

    >>> names()[:2]
    ['mix-sin', 'mix-poly']
    """
    return list(DATASETS)


def load(name: str, *, data_dir: Path | None = None, **options: Any) -> SequenceData:
    """The data set of this name, or the one in a user's file (.npz, .csv, .parquet).

    Args:
        data_dir: a folder to look for files in, before the cache and the official address;
            default: the environment variable TORCHFRU_DATA.
        options: as :attr:`DataSet.options` lists them, for each data set its own.

    >>> data = load("mix-poly", degree=10, size=50)
    >>> data.task, data.train.inputs.shape, data.test.targets.shape
    ('predict', torch.Size([40, 175, 1]), torch.Size([10, 175, 1]))
    """
    path = Path(name).expanduser()
    if name not in DATASETS and path.suffix not in SUFFIXES:
        raise ValueError(
            f"{name!r} is neither a data set nor a file that ends in {', '.join(SUFFIXES)}; "
            f"{did_you_mean(name, DATASETS)}"
        )
    build = DATASETS[name].build if name in DATASETS else partial(user_file, path)
    known = _options(build)
    for option in options:
        if option not in known:
            raise ValueError(
                f"{name}: no option is called {option!r}; {did_you_mean(option, known)}"
            )
    if name in DATASETS and DATASETS[name].needs_download:
        options["data_dir"] = data_dir
    return build(**options)


def available(name: str, *, data_dir: Path | None = None) -> bool:
    """Whether the data set can be loaded without a download."""
    return all(find(source, data_dir) is not None for source in _entry(name).sources())


@dataclass(frozen=True)
class FileCheck:
    """The result of :func:`verify` for one file."""

    source: Source
    path: Path | None = None  # None: not here
    sha256: str | None = None  # of the content, if that is right
    problem: str | None = None


def verify(name: str, *, data_dir: Path | None = None) -> list[FileCheck]:
    """Check the files of a data set that are on this machine. Nothing is downloaded."""
    return [_verified(source, data_dir) for source in _entry(name).sources()]


def _entry(name: str) -> DataSet:
    if name not in DATASETS:
        raise ValueError(f"no data set is called {name!r}; {did_you_mean(name, DATASETS)}")
    return DATASETS[name]


def _verified(source: Source, data_dir: Path | None) -> FileCheck:
    path = find(source, data_dir)
    if path is None:
        return FileCheck(source)
    try:
        return FileCheck(source, path, sha256=source.check(path))
    except DataError as error:
        return FileCheck(source, path, problem=str(error))


def _options(build: Callable[..., SequenceData]) -> dict[str, Any]:
    parameters = inspect.signature(build).parameters.values()
    options = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    options.pop("data_dir", None)
    return options

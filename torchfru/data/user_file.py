"""A user's file: sequences with answers, or one series, from .npz, .csv or .parquet.

Sequences with labels are to be classified, and those with targets have a number each that is to be
predicted; a series is to be forecast, a step or more ahead.

    .npz      ``sequences`` (N, L) or (N, L, C), ``labels`` (N,) or ``targets`` (N,) or (N, n_out)
              and, if they differ, ``lengths`` (N,), or two parts of them: ``train_sequences``,
              ``test_sequences`` and so on; or else ``series`` (T,) or (T, C)
    .csv,     a column ``label`` or ``target``: a row is a sequence, the other columns its values
    .parquet  in order, empty ones at the end of a shorter sequence; without it: a row is a step of
              a series, a column a channel. A parquet file may also have, besides ``label`` or
              ``target``, one column of lists.

Training and predicting read files with the same functions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ..io import did_you_mean, file_digest, file_problem, printable
from .arrays import (
    Array,
    DataError,
    floats,
    generator,
    held_out,
    integers,
    require_count,
    shuffled,
    train_size,
)
from .content import (
    BLOCK_BYTES,
    Content,
    from_table,
    npz_sequences,
    npz_series,
    table_sequences,
    table_series,
)
from .npz import open_npz
from .sequence import DataSpec, Reading, SequenceData, Split
from .series import forecast
from .tables import Table, open_table
from .windows import (
    default_width,
    find_season,
    forecast_data,
    held_rows,
    require_rows,
    scale_series,
    scaled_rows,
)

SUFFIXES = (".npz", ".csv", ".parquet")
LENGTH = 100  # of the windows in which a series is read, a step ahead


def user_file(
    path: Path,
    *,
    label: str | None = None,
    target: str | None = None,
    column: str | None = None,
    length: int | None = None,
    horizon: int | None = None,
    test: float = 0.2,
    test_file: str | None = None,
    stratify: bool = False,
    seed: int = 0,
) -> SequenceData:
    """The data set in a file.

    Args:
        label: the column of the labels, in a table; default: ``label``, if there is one.
        target: the column of the numbers to predict; default: ``target``, if there is one.
        column: the one column of a table that is the series; default: all of them.
        length: the window in which a series is read; default: 100, or with a horizon by the season
            and the length of the series.
        horizon: how many steps of a series to forecast at once; default: one, after each step.
        test: the part that is kept for the test: of a series the last, of sequences a random
            one, drawn from ``seed``; where the file itself has no test part.
        test_file: a file of the same form that is the test part.
        stratify: whether the random part has its share of each class.
    """
    require_count("length", 1 if length is None else length)
    require_count("horizon", 1 if horizon is None else horizon)
    if sum(name is not None for name in (label, target, column)) > 1:
        raise ValueError(
            "label and target are for sequences and column for a series: give only one of them"
        )
    require_file(path, SUFFIXES)
    checksums = {path.name: file_digest(path)}
    found, apart = _read(path, label, target, column)
    answers = "label" if found.targets is None else "target"
    reading = Reading(label or target or answers, column, found.columns)
    if found.lengths is None:
        if test_file is not None:
            raise ValueError(f"{path}: test_file is for sequences; the end of a series is its test")
        more: dict[str, Any] = {"test": test, "checksums": checksums, "reading": reading}
        if horizon is None:
            return forecast(path.stem, found.values, length=length or LENGTH, **more)
        return _forecast_block(path, found.values, length, horizon, **more)
    if test_file is not None:
        other = Path(test_file).expanduser()
        require_file(other, SUFFIXES)
        checksums |= {f"test: {other.name}": file_digest(other)}
        one, two = _read(other, label, target, column)
        apart = two or one
    parts = _parts_apart(path, found, apart) if apart else _parts(path, found, test, stratify, seed)
    return SequenceData(
        name=path.stem,
        task="classify" if found.targets is None else "regress",
        train=parts[0],
        test=parts[1],
        input_size=found.values.shape[2],
        output_size=len(found.classes) if found.targets is None else found.targets.shape[1],
        seq_len=max(part.inputs.shape[1] for part in parts),
        checksums=checksums,
        classes=found.classes,
        reading=reading,
    )


def _forecast_block(
    path: Path, values: Array, length: int | None, horizon: int, *, test: float, **more: Any
) -> SequenceData:
    """Windows over each channel of a series, and the next ``horizon`` values."""
    train_size(len(values), test)  # test is a share
    rows = len(values) - held_rows(len(values), test, horizon)
    require_rows(str(path), len(values), horizon, length, held=2)
    series = [values[:, [i]] for i in range(values.shape[1])]
    scaling = scale_series(str(path), series, [rows] * len(series))
    if length is None:
        known = scaled_rows(scaling, series)
        season = find_season([one[:rows] for one in known], rows // 3)
        length = default_width(rows, horizon, season)
    sizes: dict[str, Any] = {"width": length, "horizon": horizon, "scaling": scaling, "test": test}
    return forecast_data(path.stem, series, **sizes, **more)


def _read(
    path: Path, label: str | None, target: str | None, column: str | None
) -> tuple[Content, Content | None]:
    """The content of a file, and that of its test part if it has one."""
    if path.suffix != ".npz":
        with open_table(path) as table:
            return from_table(table, label, target, column), None
    if label is not None or target is not None or column is not None:
        raise ValueError(f"{path}: label, target and column are for tables; an .npz has none")
    with open_npz(path) as arrays:
        if "series" in arrays.members:
            return npz_series(arrays), None
        if "train_sequences" in arrays.members:
            return npz_sequences(arrays, "train_"), npz_sequences(arrays, "test_")
        return npz_sequences(arrays), None


def read_inputs(path: Path, spec: DataSpec) -> Split:
    """The sequences of a file to predict from, read and scaled as the data of ``spec`` were.

    Labels and targets are ignored, and of an .npz with two parts the test part is read. A model
    that forecasts reads the last steps of a longer series.
    """
    require_file(path, SUFFIXES)
    forecasts = spec.forecasts
    if path.suffix == ".npz":
        with open_npz(path) as arrays:
            one = "series" in arrays.members and (forecasts or "sequences" not in arrays.members)
            apart = "sequences" not in arrays.members and "test_sequences" in arrays.members
            prefix = "test_" if apart else ""
            found = npz_series(arrays) if one else npz_sequences(arrays, prefix, labelled=False)
    else:
        with open_table(path) as table:
            columns = _trained_columns(table, spec.reading or Reading(), not forecasts)
            found = table_series(table, columns) if forecasts else table_sequences(table, columns)
    values, lengths = found.values, found.lengths
    if spec.horizon is not None:
        return _last_windows(path, values, spec)
    if lengths is None:
        values = values[None, -spec.seq_len if forecasts else 0 :]  # (1, L, C)
        lengths = np.array([values.shape[1]])
    if values.shape[2] != spec.input_size:
        raise DataError(
            f"{path}: has {values.shape[2]} features per step, the model reads {spec.input_size}"
        )
    if lengths.max() > spec.seq_len:
        raise DataError(
            f"{path}: has a sequence of {lengths.max()} steps, the model reads at most "
            f"{spec.seq_len}"
        )
    if spec.scaling is not None:
        values = (values - spec.scaling.mean) / spec.scaling.std
    inputs = floats(values)
    return Split(inputs, inputs, _if_ragged(lengths, values.shape[1]))


def _last_windows(path: Path, values: Array, spec: DataSpec) -> Split:
    """The end of a series (T, C), as a window for each channel, or for all of them."""
    if values.ndim != 2 or values.shape[1] != spec.channels:
        raise DataError(
            f"{path}: the model forecasts a series of {spec.channels} channels; this file has "
            f"values of the shape {values.shape}"
        )
    if len(values) < spec.seq_len:
        raise DataError(
            f"{path}: has {len(values)} steps, and the model reads the last {spec.seq_len}; give a "
            "longer series"
        )
    assert spec.scaling is not None
    known = (values[-spec.seq_len :] - spec.scaling.mean) / spec.scaling.std  # (L, C)
    known = known[None] if spec.input_size == spec.channels else known.T[..., None]
    if known.shape[2] != spec.input_size:
        raise DataError(f"{path}: the model was fitted with covariates; predict with FRUForecaster")
    inputs = floats(known)
    return Split(inputs, inputs)


def require_file(path: Path, suffixes: tuple[str, ...]) -> None:
    """Refuse a path that is no regular file, or has another ending."""
    if problem := file_problem(path):
        raise DataError(f"{path}: {problem}")
    if path.suffix not in suffixes:
        raise DataError(f"{path}: expected a file that ends in {', '.join(suffixes)}")


def _trained_columns(table: Table, reading: Reading, may_end_early: bool) -> tuple[str, ...]:
    """The columns of a table that the model was trained on, by name and in that order.

    Shorter sequences may leave out the last ones. Without a header, the place is the name.
    """
    given = tuple(name for name in table.names if name != reading.label)
    trained = reading.columns
    one_cell = may_end_early and len(trained) == 1  # a list, which rows of cells may replace
    if not trained or one_cell or (not table.header and len(given) == len(trained)):
        return given
    columns = trained[: len(given)] if may_end_early else trained
    for name in columns:
        if name not in given:
            raise DataError(
                f"{table.path}: no column {name!r}, which the model was trained on; "
                f"{did_you_mean(name, given)}"
            )
    if reading.column is None and len(given) > len(columns):
        other = next(name for name in given if name not in columns)
        raise DataError(
            f"{table.path}: the model was not trained on a column {other!r}; delete it, or name "
            "the columns as in training"
        )
    return columns


# Sequences as a data set -----------------------------------------------------------------


def _parts(path: Path, found: Content, test: float, stratify: bool, seed: int) -> list[Split]:
    """A part to train on and one to test on, drawn at random."""
    values, lengths, answers = found.values, found.lengths, found.answers
    assert lengths is not None
    if len(answers) < 2:
        raise DataError(f"{path}: {len(answers)} sequences; training and test need at least 2")
    _require_different(path, found)
    rng, size = generator(seed), train_size(len(answers), test)
    order = shuffled(len(answers), rng)
    if stratify and found.targets is None:
        held = held_out(answers, test, rng)[order]
        order, size = np.concatenate([order[~held], order[held]]), int((~held).sum())
    flat = values.reshape(len(values), -1)
    width = max(1, BLOCK_BYTES // (flat.itemsize * len(flat)))
    for first in range(0, flat.shape[1], width):  # in place, to save memory
        flat[:, first : first + width] = flat[order, first : first + width]
    whole = _split(values, lengths[order], answers[order])
    return [whole[:size], whole[size:]]


def _parts_apart(path: Path, train: Content, test: Content) -> list[Split]:
    """The two parts as a file, or two of them, have them."""
    _require_different(path, train)
    if (train.targets is None) != (test.targets is None):
        one, other = ("labels", "targets")[:: 1 if train.targets is None else -1]
        raise DataError(f"{path}: has {one}, and its test part has {other}; give both the same")
    known = {name: code for code, name in enumerate(train.classes)}
    for name in test.classes:
        if name not in known:
            raise DataError(
                f"{path}: the test part has the label {printable(name)}, which no sequence of the "
                "training part has"
            )
    if train.values.shape[2] != test.values.shape[2]:
        raise DataError(
            f"{path}: has {train.values.shape[2]} features per step, and its test part has "
            f"{test.values.shape[2]}"
        )
    answers = test.answers
    if train.targets is None:
        answers = np.array([known[name] for name in test.classes])[answers]
    elif train.targets.shape[1] != answers.shape[1]:
        raise DataError(
            f"{path}: has {train.targets.shape[1]} targets per sequence, and its test part has "
            f"{answers.shape[1]}"
        )
    return [
        _split(train.values, train.lengths, train.answers),
        _split(test.values, test.lengths, answers),
    ]


def _require_different(path: Path, found: Content) -> None:
    """Refuse answers that are all alike: there is nothing to learn."""
    if found.targets is not None:
        if (found.targets == found.targets[0]).all():
            same = ", ".join(f"{value:g}" for value in found.targets[0])
            raise DataError(f"{path}: all targets are {same}; there is nothing to learn")
    elif len(found.classes) < 2:
        raise DataError(
            f"{path}: all labels are {printable(found.classes[0])}; to classify takes at least 2 "
            "classes"
        )


def _split(values: Array, lengths: Array | None, answers: Array) -> Split:
    assert lengths is not None
    targets = floats(answers) if answers.dtype.kind == "f" else integers(answers)
    return Split(floats(values), targets, _if_ragged(lengths, values.shape[1]))


def _if_ragged(lengths: Array, steps: int) -> Tensor | None:
    """The lengths, if they differ from the number of steps."""
    return integers(lengths) if (lengths < steps).any() else None

"""Data of the user's own: every layout that docs/data.md promises, and clear refusals."""

from __future__ import annotations

import io
import os
import sys
import zipfile

import numpy as np
import pytest
import torch

from torchfru.data import DataError, load

N, L, C = 10, 6, 2


@pytest.fixture
def sequences():
    return np.random.default_rng(0).normal(size=(N, L, C))


LABELS = np.arange(N) % 3


def write_npz(tmp_path, **arrays):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays)
    return str(path)


def write_csv(tmp_path, text, name="mine.csv"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_npz_sequences(tmp_path, sequences):
    data = load(write_npz(tmp_path, sequences=sequences, labels=LABELS), seed=4)
    assert (data.name, data.task) == ("mine", "classify")
    assert (data.input_size, data.output_size, data.seq_len) == (C, 3, L)
    assert (len(data.train), len(data.test)) == (8, 2)
    assert data.train.lengths is None
    assert data.classes == ("0", "1", "2")
    assert len(data.checksums["mine.npz"]) == 64
    known = {tuple(s.astype(np.float32).ravel()): y for s, y in zip(sequences, LABELS, strict=True)}
    seen = []
    for split in (data.train, data.test):
        for x, y in zip(split.inputs, split.targets, strict=True):
            seen.append(tuple(x.ravel().numpy()))
            assert known[seen[-1]] == y
    assert sorted(seen) == sorted(known)  # each once
    assert seen != list(known)  # shuffled


def test_npz_lengths_hide_what_follows(tmp_path, sequences):
    lengths = np.array([L, 1, 2, 3, 4, 5, 6, 6, 6, 6])
    sequences[np.arange(L) >= lengths[:, None]] = np.nan
    path = write_npz(tmp_path, sequences=sequences[..., 0], lengths=lengths, labels=LABELS)
    data = load(path, test=0.5)
    assert data.input_size == 1
    assert sorted(torch.cat([data.train.lengths, data.test.lengths]).tolist()) == sorted(lengths)
    for split in (data.train, data.test):
        padding = torch.arange(L) >= split.lengths[:, None]
        assert (split.inputs[padding] == 0).all()
        assert (split.inputs[~padding] != 0).all()


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["cat", "dog"], ("cat", "dog")),
        ([10, 9], ("9", "10")),
        ([True, False], ("0", "1")),
        ([20230001, 20230002], ("20230001", "20230002")),
        ([2**53, 2**53 + 1], ("9007199254740992", "9007199254740993")),
        ([2.0**60, 0.0], ("0", str(2**60))),
        ([b"cat", b"dog"], ("cat", "dog")),
        ([-1.0, 1.0], ("-1", "1")),
    ],
)
def test_labels_of_any_kind(tmp_path, sequences, labels, classes):
    data = load(write_npz(tmp_path, sequences=sequences, labels=np.array(labels * 5)))
    assert data.classes == classes
    assert set(torch.cat([data.train.targets, data.test.targets]).tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["20230002", "20230001"], ("20230001", "20230002")),
        ([str(2**53 + 1), str(2**53)], (str(2**53), str(2**53 + 1))),
        (["10", "9"], ("9", "10")),
        (["10", "cat"], ("10", "cat")),
        (["007", "8"], ("007", "8")),
    ],
)
def test_classes_of_a_table_are_exact(tmp_path, labels, classes):
    rows = [f"{label},{i}" for i, label in enumerate(labels * 3)]
    data = load(write_csv(tmp_path, "\n".join(["label,1", *rows])))
    assert data.classes == classes
    for split in (data.train, data.test):
        for x, y in zip(split.inputs, split.targets, strict=True):
            assert data.classes[y] == labels[int(x[0, 0]) % 2]


@pytest.mark.parametrize("suffix", ["npz", "csv"])
def test_values_beyond_float32_are_refused(tmp_path, suffix):
    if suffix == "npz":
        path = write_npz(tmp_path, series=np.array([1.0, 1e39] * 20))
    else:
        path = write_csv(tmp_path, "value\n" + "1\n1e39\n" * 20)
    with pytest.raises(DataError, match="too large for float32"):
        load(path, length=3)


def test_a_label_that_is_not_there_is_named(tmp_path):
    path = write_csv(tmp_path, "class,1\n0,1\n1,2\n")
    with pytest.raises(DataError, match="no column 'clas'; did you mean 'class'"):
        load(path, label="clas")
    with pytest.raises(ValueError, match="give only one of them"):
        load(path, label="class", column="1")


def test_an_array_that_lies_about_its_size(tmp_path):
    content = io.BytesIO()
    np.save(content, np.zeros(10))
    with zipfile.ZipFile(tmp_path / "mine.npz", "w") as archive:
        archive.writestr("series.npy", content.getvalue().replace(b"(10,)", b"(99,)"))
    with pytest.raises(DataError, match="claims 792 bytes and holds 80"):
        load(str(tmp_path / "mine.npz"))


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="pipe or a device, not a regular file"):
        load(str(tmp_path / "pipe.csv"))
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(DataError, match="this is a folder"):
        load(str(tmp_path / "folder.npz"))
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    with pytest.raises(DataError, match=r"cannot be opened .Too many levels of symbolic links"):
        load(str(tmp_path / "loop.csv"))


def test_blocks_join(tmp_path, monkeypatch):
    """Rows of several blocks, some shorter, give what one block gives."""
    rows = [f"{'ab'[i % 2]},{i},{i + 0.5 if i % 3 else ''}" for i in range(50)]
    path = write_csv(tmp_path, "\n".join(["label,1,2", *rows]))
    whole = load(path)
    monkeypatch.setattr("torchfru.data.tables.BLOCK_CELLS", 20)
    parts = load(path)
    for a, b in ((whole.train, parts.train), (whole.test, parts.test)):
        torch.testing.assert_close(vars(a), vars(b), rtol=0, atol=0)
    with pytest.raises(DataError, match="row 41, column '1' is 'x'"):
        load(write_csv(tmp_path, "\n".join(["label,1,2", *rows[:40], "a,x,1", *rows])))


def test_a_series_in_blocks(tmp_path, monkeypatch):
    series = np.random.default_rng(0).normal(5.0, 3.0, (1000, 3))
    path = write_npz(tmp_path, series=series)
    whole = load(path, length=10)
    monkeypatch.setattr("torchfru.data.series.BLOCK_VALUES", 100)
    parts = load(path, length=10)
    np.testing.assert_allclose(parts.scaling.mean, whole.scaling.mean, rtol=1e-14)
    np.testing.assert_allclose(parts.scaling.std, whole.scaling.std, rtol=1e-14)
    np.testing.assert_array_equal(whole.scaling.std, series[:800].std(0))
    torch.testing.assert_close(parts.train.inputs, whole.train.inputs)
    torch.testing.assert_close(parts.test.targets, whole.test.targets)


@pytest.mark.parametrize("channels", [None, 1, 3])
def test_npz_series(tmp_path, channels):
    series = np.arange(100.0) if channels is None else np.arange(100.0 * channels)
    series = series if channels is None else series.reshape(100, channels)
    data = load(write_npz(tmp_path, series=series), length=7)
    assert (data.task, data.seq_len) == ("predict", 7)
    assert data.input_size == data.output_size == (channels or 1)
    assert data.train.inputs.shape == (11, 7, channels or 1)  # 77 of 79 steps
    assert data.test.inputs.shape == (2, 7, channels or 1)  # 14 of 20
    back = data.test.targets.double() * torch.tensor(data.scaling.std)
    back = back + torch.tensor(data.scaling.mean)
    np.testing.assert_allclose(back.reshape(14, -1), series[80:94].reshape(14, -1), atol=1e-3)
    last = data.train.targets[-1, -1].double() * data.scaling.std[0] + data.scaling.mean[0]
    assert last[0] == pytest.approx(series[79] if channels is None else series[79, 0], abs=1e-3)


def test_the_test_part_does_not_set_the_scale(tmp_path):
    series = np.concatenate([np.tile([-1.0, 1.0], 40), np.full(20, 1000.0)])
    data = load(write_npz(tmp_path, series=series), length=5)
    assert data.scaling.mean == (0.0,)
    assert data.scaling.std == (1.0,)


def test_a_constant_series(tmp_path):
    data = load(write_npz(tmp_path, series=np.full(50, 3)), length=5)
    assert (data.train.inputs == 0).all()


def test_csv_sequences(tmp_path):
    rows = ["label,1,2,3", "up,1,2,3", "down,3,2,", "up,4,,", "down,2,1,0"]
    data = load(write_csv(tmp_path, "\n".join(rows)), test=0.25)
    assert (data.task, data.seq_len, data.classes) == ("classify", 3, ("down", "up"))
    found = {}
    for split in (data.train, data.test):
        for x, y, n in zip(split.inputs, split.targets, split.lengths, strict=True):
            found[tuple(x[:n, 0].tolist())] = data.classes[y]
    assert found == {(1, 2, 3): "up", (3, 2): "down", (4,): "up", (2, 1, 0): "down"}


def test_numbers_to_predict(tmp_path, sequences):
    targets = np.random.default_rng(1).normal(size=(N, 2))
    data = load(write_npz(tmp_path, sequences=sequences, targets=targets), stratify=True)
    assert (data.task, data.output_size, data.classes) == ("regress", 2, ())
    known = {tuple(s.astype("f4").ravel()): y for s, y in zip(sequences, targets, strict=True)}
    for part in (data.train, data.test):
        for x, y in zip(part.inputs, part.targets, strict=True):
            np.testing.assert_allclose(known[tuple(x.ravel().numpy())], y, rtol=1e-6)
    assert (len(data.train), len(data.test)) == (8, 2)
    text = "1,2,{}\n0.5,1,2.25\n1.5,,-1e3\n0.5,2,7\n"
    for name, options in (("target", {}), ("age", {"target": "age"})):
        table = load(write_csv(tmp_path, text.format(name)), test=0.3, **options)
        assert table.train.targets.shape == (2, 1)
        found = [*table.train.targets.flatten().tolist(), *table.test.targets.flatten().tolist()]
        assert sorted(found) == [-1000, 2.25, 7]
        assert table.reading.label == name
    series = load(write_csv(tmp_path, "target\n" + "1\n2\n" * 400), column="target")
    assert series.task == "predict"


def test_parts_with_other_answers(tmp_path, sequences):
    parts = {"train_sequences": sequences, "test_sequences": sequences[:3]}
    targets = {"train_targets": np.arange(N) / 2, "test_targets": np.arange(3) / 2}
    data = load(write_npz(tmp_path, **parts, **targets))
    assert data.test.targets.tolist() == [[0.0], [0.5], [1.0]]
    for other, problem in (
        ({"test_labels": LABELS[:3]}, "has targets, and its test part has labels; give both the"),
        ({"test_targets": np.zeros((3, 2))}, "has 1 targets per sequence, and its test part has 2"),
    ):
        with pytest.raises(DataError, match=problem):
            load(write_npz(tmp_path, **parts, train_targets=targets["train_targets"], **other))


@pytest.mark.parametrize("header", ["value\n", "\ufeffvalue\r\n", ""])
def test_csv_series(tmp_path, header):
    text = header + "\n".join(str(i) for i in range(50))
    data = load(write_csv(tmp_path, text), length=4)
    assert data.task == "predict"
    assert (len(data.train), len(data.test)) == (9, 2)
    degrees = data.test.targets[0, :, 0] * data.scaling.std[0] + data.scaling.mean[0]
    np.testing.assert_allclose(degrees, [40, 41, 42, 43], atol=1e-4)


def test_csv_one_column_of_several(tmp_path):
    rows = ["date,TEMP,label", *(f"day {i},{i},x" for i in range(50))]
    path = write_csv(tmp_path, "\n".join(rows))
    assert load(path, column="TEMP", length=5).input_size == 1
    with pytest.raises(
        DataError,
        match="no column 'temp'; choose one of date, TEMP, label",
    ):
        load(path, column="temp")


def test_csv_several_channels(tmp_path):
    text = "a,b\n" + "\n".join(f"{i},{-i}" for i in range(50))
    data = load(write_csv(tmp_path, text), length=5)
    assert (data.input_size, data.output_size) == (2, 2)
    torch.testing.assert_close(data.train.inputs[..., 0], -data.train.inputs[..., 1])


def test_another_label_column(tmp_path):
    text = "kind,1,2\n" + "\n".join(f"{i % 2},{i},{i}" for i in range(6))
    assert load(write_csv(tmp_path, text), label="kind").task == "classify"


def parquet(tmp_path, columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    path = tmp_path / "mine.parquet"
    write_table(pyarrow.table(columns), path)
    return str(path)


def test_parquet_sequences(tmp_path):
    path = parquet(tmp_path, {"label": ["a", "b", "a"], "1": [1.0, 2.0, 3.0], "2": [4, None, 6]})
    data = load(path, test=0.3)
    assert (data.task, data.classes, data.seq_len) == ("classify", ("a", "b"), 2)
    assert sorted(torch.cat([data.train.lengths, data.test.lengths]).tolist()) == [1, 2, 2]


def test_parquet_lists(tmp_path):
    path = parquet(tmp_path, {"label": [0, 1, 0], "values": [[1.0], [1.0, 2.0], [1.0, 2.0, 3.0]]})
    data = load(path, test=0.3)
    assert data.seq_len == 3
    assert sorted(torch.cat([data.train.lengths, data.test.lengths]).tolist()) == [1, 2, 3]


def test_parquet_series(tmp_path):
    path = parquet(tmp_path, {"value": np.arange(60.0)})
    assert load(path, length=10).task == "predict"


def test_parquet_that_is_none(tmp_path):
    pytest.importorskip("pyarrow")
    path = write_csv(tmp_path, "not parquet at all", "mine.parquet")
    with pytest.raises(DataError, match="cannot be read as parquet") as error:
        load(path)
    assert "\n" not in str(error.value)


def test_parquet_without_a_reader(tmp_path, monkeypatch):
    path = write_csv(tmp_path, "", "mine.parquet")
    for name in ("pyarrow",):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(DataError, match=r"needs pyarrow: pip install 'torchfru\[parqu"):
        load(path)


class Evil:
    def __reduce__(self):
        return (print, ("this must never run",))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros(3)}, "holds x; expected sequences and labels .classify. or targets"),
        ({"sequences": np.zeros((3, 4))}, "expected sequences and labels"),
        ({"sequences": np.zeros(3), "labels": np.zeros(3)}, r"got \(3,\) and \(3,\)"),
        ({"sequences": np.zeros((3, 4)), "labels": np.zeros(2)}, r"got \(3, 4\) and \(2,\)"),
        (
            {"sequences": np.zeros((3, 4)), "labels": np.arange(3), "lengths": np.array([1, 5, 4])},
            r"lengths must be \(3,\) whole numbers from 1 to 4",
        ),
        (
            {"sequences": np.zeros((2, 4)), "labels": np.arange(2), "lengths": np.array([0, 4])},
            "whole numbers from 1 to 4",
        ),
        (
            {"sequences": np.zeros((2, 4)), "labels": np.arange(2), "lengths": np.array([1.0, 4])},
            "whole numbers from 1 to 4",
        ),
        (
            {"sequences": np.full((2, 4), np.nan), "labels": np.arange(2)},
            r"the value at \[0, 0, 0\] is missing, infinite or too large",
        ),
        ({"sequences": np.zeros((4, 4)), "labels": np.zeros(4)}, "all labels are 0; to classify"),
        ({"sequences": np.zeros((1, 4)), "labels": np.zeros(1)}, "1 sequences; .* at least 2"),
        (
            {"sequences": np.zeros((2, 4)), "labels": np.array([0.5, 1])},
            "labels must be whole numbers or names, got",
        ),
        (
            {"sequences": np.array([["a"], ["b"]]), "labels": np.arange(2)},
            "sequences must hold numbers, got <U1",
        ),
        (
            {"sequences": np.zeros((2, 4)), "labels": np.arange(2), "targets": np.arange(2)},
            "has labels and targets; leave one of them out",
        ),
        ({"sequences": np.zeros((3, 4)), "targets": np.zeros(2)}, r"got \(3, 4\) and \(2,\)"),
        ({"sequences": np.zeros((3, 4)), "targets": np.full(3, 2.5)}, "all targets are 2.5; there"),
        (
            {"sequences": np.zeros((2, 4)), "targets": np.array([1, np.nan])},
            r"value at \[1, 0\] is",
        ),
        (
            {"sequences": np.zeros((1, 4)), "targets": np.zeros((1, 1, 1))},
            r"must be \(N,\) or \(N, ",
        ),
        ({"series": np.zeros((2, 2, 2))}, r"a series must be \(T,\) or \(T, C\)"),
        ({"series": np.zeros(0)}, r"a series must be .* got the shape \(0,\)"),
        ({"series": np.array([1.0, np.inf])}, "missing, infinite or too large"),
        ({"series": np.array([Evil()])}, "without objects"),
    ],
)
def test_bad_npz(tmp_path, capsys, arrays, message):
    path = write_npz(tmp_path, **arrays)
    with pytest.raises(DataError, match=message) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)
    assert "never run" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("label,1,2\na,1\n", "row 1 of the data has 2 cells, expected 3"),
        ("label,1,1\na,1,2\n", "two columns are called '1'"),
        ("label,1,2\na,1,x\nb,1,2", "row 1, column '2' is 'x', not a finite number"),
        ("label,1,2\na,,2\nb,1,2", "row 1, column '1' is empty"),
        ("label,1,2\na,,\nb,1,2", "a sequence without values"),
        ("label,1,2\n", "the table has no rows"),
        ("value\n1\n2\nNA\n", "row 3, column 'value' is 'NA', not a finite number"),
        ("value\n1\n\n2\n", "line 3 is empty; fill it in, or delete it"),
        ("value\n1\ninf\n2", "row 2, column 'value' is 'inf', not a finite number"),
        ("value\n", "the table has no values"),
        ("value\n1\n1e39\n", "row 2, column 'value' is '1e39', too large for float32"),
        ("value\n1\n1e999\n", "'1e999', too large for float32"),
        ("value\n1\n1_000\n", "'1_000', not a finite number"),
        ("value\n1\n\u0661\n", "not a finite number"),
        ("a,b\n1;2,3\n", "separate all columns with commas, or all with semicolons"),
        (
            'a,b\n"1,5",2\n',
            "row 1, column 'a' is '1,5', not a number; write it with a decimal point",
        ),
        ("a;b\n1,5;2\n2;2.5\n", "a comma, '1,5', and one with a point, '2.5'; write all of them"),
        (
            "a,b,c\n1,,3\n2,,4\n",
            "the values of column 'b' are missing in rows 1 to 2; fill them in, or leave it out; "
            "columns with values: a, c",
        ),
        ("label,a\n,1\n,2\n", "the labels of all rows are missing"),
        ("nan\n1\n2\n", "the first row is neither names nor numbers"),
        (",a\n0,1\n1,2\n", "column 1 has no name"),
        ("Label,1\n0,1\n1,2\n", "has a column 'Label'; call it label, or give data.label=Label"),
        ("label,1\na,1\n,2\n", "row 2 has no label"),
        ("Target,1\n0,1\n1,2\n", "has a column 'Target'; call it target, or give data.target=T"),
        ("label,target,1\na,0,1\nb,1,2\n", "has the columns label and target; delete one of them"),
        ("target,1\n0.5,1\nmuch,2\n", "row 2, column 'target' is 'much', not a finite number"),
        ("target,1\n0.5,1\n,2\n", "row 2, column 'target' is empty"),
        ("label,1\n0.5,1\n1,2\n", "labels must be whole numbers or names, got 0.5"),
        ("label,1\n1,1\n1.0,2\n", "the labels 1 and 1.0 are the same number"),
        ('value\n"1\n2\n', "line 3 is not CSV"),
        ("value\n" + "1" * 200_000, "is not CSV"),
        ("value\n1\x00\n", "not a finite number|is not CSV"),
    ],
)
def test_bad_csv(tmp_path, text, message):
    path = write_csv(tmp_path, text)
    with pytest.raises(DataError, match=message):
        load(path)


@pytest.mark.parametrize("mark", [";", "\t"])
@pytest.mark.parametrize("header", ["a,b\n", ""])
def test_other_marks_and_decimal_commas(tmp_path, mark, header):
    rows = [[round(np.sin(i), 3), i * 1000] for i in range(60)]
    usual = header + "\n".join(f"{a},{b}" for a, b in rows)
    (tmp_path / "usual").mkdir()
    expected = load(write_csv(tmp_path / "usual", usual), length=5)
    for point in (",", "."):
        lines = [f"{a}{mark}{b}".replace(".", point) for a, b in rows]
        text = header.replace(",", mark) + "\n".join(lines)
        found = load(write_csv(tmp_path, text), length=5)
        assert torch.equal(found.train.inputs, expected.train.inputs)
        assert torch.equal(found.test.targets, expected.test.targets)


def test_unreadable_files(tmp_path):
    with pytest.raises(DataError, match="no such file; check the path"):
        load(str(tmp_path / "nowhere.npz"))
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(DataError, match=r"not an .npz file of plain arrays"):
        load(str(tmp_path / "bad.npz"))
    (tmp_path / "bad.csv").write_bytes(b"value\n\xff\n")
    with pytest.raises(DataError, match="byte 6 is not UTF-8"):
        load(str(tmp_path / "bad.csv"))


def test_a_series_too_short_for_its_window(tmp_path):
    path = write_npz(tmp_path, series=np.arange(50.0))
    with pytest.raises(ValueError, match=r"length=100 is too long .*choose length=10 or less"):
        load(path)
    assert len(load(path, length=10).test) == 1


@pytest.mark.parametrize("test", [0, 1, -0.5, 2])
def test_a_test_part_that_is_none(tmp_path, test):
    path = write_npz(tmp_path, series=np.arange(50.0))
    with pytest.raises(ValueError, match=f"test must lie between 0 and 1, got {test}"):
        load(path, test=test, length=2)

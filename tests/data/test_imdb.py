"""IMDB from small made archives: words, ids, lengths, and what is refused."""

from __future__ import annotations

import tarfile

import numpy as np
import pytest
import torch
from data_helpers import make_imdb, small_reviews

from torchfru.data import DataError, load, tokenize, verify
from torchfru.data import imdb as module


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHFRU_CACHE", str(tmp_path / "cache"))


def read(split, words) -> list[list[str]]:
    """The words of each review, as far as its length goes."""
    rows = zip(split.inputs, split.lengths, strict=True)
    return [[words[i] for i in row[:length]] for row, length in rows]


def test_words_ids_and_lengths(tmp_path, monkeypatch):
    make_imdb(tmp_path, monkeypatch, small_reviews())
    data = load("imdb", data_dir=tmp_path, words=4, length=5)
    assert (data.task, data.input_size, data.output_size, data.seq_len) == ("classify", 1, 2, 5)
    # film 6, great 6, then a, don't, dull, number, times with 3 each: ties by the alphabet
    assert data.words == ("<pad>", "<unk>", "film", "great", "a", "don't")
    assert data.vocab_size == 6
    assert data.classes == ("neg", "pos")
    assert data.train.targets.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.train.lengths.tolist() == [5] * 6
    negative, positive = ["a", "<unk>", "film", "<unk>", "<unk>"], ["great", "film"]
    assert read(data.train, data.words)[0] == negative
    assert read(data.train, data.words)[3] == [*positive, "<unk>", "<unk>", "great"]
    assert data.train.inputs.dtype == data.train.lengths.dtype == torch.int64


def test_padding_is_at_the_end_and_only_there(tmp_path, monkeypatch):
    make_imdb(tmp_path, monkeypatch, small_reviews())
    data = load("imdb", data_dir=tmp_path)
    assert data.train.inputs.shape == (6, 300)
    assert data.train.lengths.tolist() == [6, 6, 6, 5, 5, 5]
    steps = torch.arange(300)
    for split in (data.train, data.test):
        padding = steps >= split.lengths[:, None]
        assert (split.inputs[padding] == 0).all()
        assert (split.inputs[~padding] != 0).all()


def test_the_vocabulary_is_that_of_the_training_reviews(tmp_path, monkeypatch):
    reviews = small_reviews()
    for name in reviews:
        if "/test/" in name:
            reviews[name] = b"unheard unheard film"
    make_imdb(tmp_path, monkeypatch, reviews)
    data = load("imdb", data_dir=tmp_path)
    assert "unheard" not in data.words
    assert read(data.test, data.words)[0] == ["<unk>", "<unk>", "film"]


def test_the_official_archive_has_more_and_another_order(tmp_path, monkeypatch):
    """Unlabelled reviews and bags of words are passed over, and the order is the names'."""
    make_imdb(tmp_path / "a", monkeypatch, small_reviews())
    others = {
        "aclImdb/README": b"read me",
        "aclImdb/train/unsup/0_0.txt": b"unsupervised \xff",
        "aclImdb/train/labeledBow.feat": b"1 2:3",
        "aclImdb/train/pos/urls.txt": b"http",
    }
    make_imdb(tmp_path / "b", monkeypatch, others | dict(reversed(small_reviews().items())))
    one, two = (load("imdb", data_dir=tmp_path / part) for part in "ab")
    assert torch.equal(one.train.inputs, two.train.inputs)
    assert one.words == two.words
    assert one.checksums["imdb reviews"] == two.checksums["imdb reviews"]
    assert one.checksums["aclImdb_v1.tar.gz"] != two.checksums["aclImdb_v1.tar.gz"]


def test_a_second_start_reads_the_prepared_form(tmp_path, monkeypatch):
    make_imdb(tmp_path, monkeypatch, small_reviews())
    first = load("imdb", data_dir=tmp_path)
    monkeypatch.setattr(module, "read_reviews", None)  # whoever calls it fails
    second = load("imdb", data_dir=tmp_path)
    assert torch.equal(first.test.inputs, second.test.inputs)
    assert (first.words, first.checksums) == (second.words, second.checksums)
    with pytest.raises(TypeError):
        load("imdb", data_dir=tmp_path, length=7)  # other options: another form


def test_a_changed_archive_or_preparation_is_prepared_again(tmp_path, monkeypatch):
    make_imdb(tmp_path, monkeypatch, small_reviews())
    load("imdb", data_dir=tmp_path)
    make_imdb(tmp_path, monkeypatch, {k: v + b" again" for k, v in small_reviews().items()})
    assert "again" in load("imdb", data_dir=tmp_path).words
    monkeypatch.setattr(module, "VERSION", module.VERSION + 1)
    monkeypatch.setattr(module, "read_reviews", None)
    with pytest.raises(TypeError):
        load("imdb", data_dir=tmp_path)


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize(
    "member",
    [
        tarfile.TarInfo("../outside.txt"),
        tarfile.TarInfo("/tmp/outside.txt"),
        tarfile.TarInfo("aclImdb/train/pos/../../../../outside.txt"),
        link("aclImdb/inside", "/etc/passwd"),
        link("aclImdb/inside", "../../outside"),
        link("aclImdb/inside", "../outside", tarfile.LNKTYPE),
    ],
    ids=lambda member: f"{member.name}>{member.linkname}",
)
def test_a_member_that_points_outside(tmp_path, monkeypatch, member):
    archive = make_imdb(tmp_path, monkeypatch, small_reviews(), extra=[member])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match="points outside of it") as error:
        load("imdb", data_dir=tmp_path)
    assert str(archive) in str(error.value)
    assert member.name in str(error.value)
    assert sorted(tmp_path.rglob("*")) == before  # nothing unpacked, nothing prepared


def test_a_link_under_the_name_of_a_review(tmp_path, monkeypatch):
    reviews = small_reviews()
    name = "aclImdb/train/pos/0_1.txt"
    del reviews[name]
    make_imdb(tmp_path, monkeypatch, reviews, extra=[link(name, "1_2.txt")])
    with pytest.raises(DataError, match=r"0_1\.txt is not a file"):
        load("imdb", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"caf\xe9", "0_1.txt cannot be read as UTF-8 .byte 3"),
        (b"", "0_1.txt has no words"),
        (b" <br /> ... ", "0_1.txt has no words"),
        (b"long " * 300_000, "0_1.txt has 1500000 bytes, too many for a review"),
    ],
)
def test_unreadable_reviews(tmp_path, monkeypatch, content, message):
    reviews = small_reviews() | {"aclImdb/test/neg/0_1.txt": content}
    make_imdb(tmp_path, monkeypatch, reviews)
    with pytest.raises(DataError, match=message) as error:
        load("imdb", data_dir=tmp_path)
    assert "torchfru data fetch imdb" in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.rglob("*.npz"))
    assert "0_1.txt" in verify("imdb", data_dir=tmp_path)[0].problem


def test_wrong_count(tmp_path, monkeypatch):
    reviews = small_reviews()
    del reviews["aclImdb/test/pos/2_3.txt"]
    make_imdb(tmp_path, monkeypatch, reviews)
    with pytest.raises(DataError, match="2 reviews in test/pos, expected 3; delete it and run"):
        load("imdb", data_dir=tmp_path)


@pytest.mark.parametrize("keep", [0, 5, 100, -10, -300])
def test_cut_short(tmp_path, monkeypatch, keep):
    rng = np.random.default_rng(0)
    reviews = {k: rng.bytes(200).hex().encode() for k in small_reviews()}
    archive = make_imdb(tmp_path, monkeypatch, reviews)
    archive.write_bytes(archive.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"cut short|reviews in") as error:
        load("imdb", data_dir=tmp_path)
    assert str(archive) in str(error.value)


def test_not_an_archive(tmp_path, monkeypatch):
    archive = make_imdb(tmp_path, monkeypatch, small_reviews())
    archive.write_bytes(b"<html>404</html>" * 100)
    with pytest.raises(DataError, match="damaged or cut short"):
        load("imdb", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("Hello, WORLD", ["hello", "world"]),
        ("one<br /><br />two", ["one", "two"]),
        ("'quoted' rock'n'roll", ["quoted", "rock'n'roll"]),
        ("under_score 3.5/10", ["under", "score", "3", "5", "10"]),
        ("Amélie", ["amélie"]),
    ],
)
def test_tokenize(text, words):
    assert tokenize(text) == words

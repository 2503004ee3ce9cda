"""IMDB: is a film review positive? The Large Movie Review Dataset as sequences of words."""

from __future__ import annotations

import gzip
import hashlib
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import torch

from ..io import BLOCK, file_digest, file_problem
from .arrays import Array, DataError, damaged, integers, require_count
from .files import Source, locate, prepared
from .sequence import DataSpec, SequenceData, Split

URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
MD5 = "7c2ac02c03563afcf9b574c7e56c153a"  # of the official archive
VERSION = 1  # of the preparation: raise it when its result changes
CLASSES = ("neg", "pos")
PER_CLASS = 12_500  # reviews in each class of each part
LARGEST = 1 << 20  # bytes of a review; the longest true one has under 14,000
PADDING, UNKNOWN, FIRST_WORD = 0, 1, 2  # token ids

REVIEW = re.compile(r"aclImdb/(train|test)/(neg|pos)/(\d+_\d+\.txt)")
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
Reviews = dict[str, bytes]


def sources() -> tuple[Source, ...]:
    """The archive."""
    return (Source("imdb", "aclImdb_v1.tar.gz", URL, check, f"md5:{MD5}"),)


def imdb(*, data_dir: Path | None = None, words: int = 10_000, length: int = 300) -> SequenceData:
    """The first ``length`` words of each review, as ids of the ``words`` most frequent ones.

    Id 0 is padding, after a review's end; 1 is any other word; from 2 on, the words of the
    training reviews by falling frequency. Reviews are in the order of their names: negative
    ones first.
    """
    require_count("imdb: words", words)
    require_count("imdb: length", length)
    archive = locate(sources()[0], data_dir)
    checksum = file_digest(archive)
    key = {"archive": checksum, "version": VERSION, "words": words, "length": length}
    made = prepared("imdb", key, lambda: _prepare(read_reviews(archive), words, length))
    train, test = (
        Split(*(integers(made[f"{part}_{name}"]) for name in ("ids", "labels", "lengths")))
        for part in ("train", "test")
    )
    return SequenceData(
        name="imdb",
        task="classify",
        train=train,
        test=test,
        input_size=1,
        output_size=len(CLASSES),
        seq_len=length,
        vocab_size=len(made["words"]),
        checksums={archive.name: checksum, "imdb reviews": str(made["reviews_sha256"])},
        classes=CLASSES,
        words=tuple(made["words"].tolist()),
    )


def tokenize(text: str) -> list[str]:
    """The words of a text: lower case, letters and digits, apostrophes within a word.

    >>> tokenize("It's GREAT!<br />10/10, don't miss it.")
    ["it's", 'great', '10', '10', "don't", 'miss', 'it']
    """
    return WORD.findall(text.lower().replace("<br />", " "))


def vocabulary(counts: Counter[str], words: int) -> list[str]:
    """The most frequent words, ties by the alphabet: no order of reading changes it.

    >>> vocabulary(Counter({"b": 2, "a": 2, "c": 3, "d": 1}), words=3)
    ['<pad>', '<unk>', 'c', 'a', 'b']
    """
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ["<pad>", "<unk>", *(word for word, _ in ranked[:words])]


def token_ids(texts: list[list[str]], words: Sequence[str], length: int) -> Array:
    """The ids (N, length) of texts of at most ``length`` words, padded with 0 at the end."""
    index = {word: i for i, word in enumerate(words) if i >= FIRST_WORD}
    ids = np.full((len(texts), length), PADDING, dtype=np.min_scalar_type(len(words)))
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = [index.get(word, UNKNOWN) for word in text]
    return ids


def read_texts(path: Path, spec: DataSpec) -> Split:
    """The texts of a .txt file, one on each line, as the ids that a model of words reads."""
    if problem := file_problem(path):
        raise DataError(f"{path}: {problem}")
    if path.suffix != ".txt":
        raise DataError(f"{path}: expected a .txt file with a text on each line")
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip().split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8; save it in UTF-8") from None
    texts = [tokenize(line)[: spec.seq_len] for line in lines]
    if [] in texts:
        raise DataError(f"{path}: line {texts.index([]) + 1} has no words; give each line a text")
    ids = integers(token_ids(texts, spec.words, spec.seq_len))
    return Split(ids, ids, torch.tensor([len(text) for text in texts]))


def read_reviews(archive: Path) -> Reviews:
    """The labelled reviews, sorted by name; other files of the archive are ignored.

    Members are read into memory one by one, and nothing is unpacked to the disk. A member that
    points outside is refused all the same: an honest archive has none.
    """
    reviews = {}
    try:
        with gzip.open(archive) as packed, tarfile.open(fileobj=packed, mode="r|") as tar:
            for member in tar:
                paths = [PurePosixPath(name) for name in (member.name, member.linkname)]
                if any(path.is_absolute() or ".." in path.parts for path in paths):
                    problem = f"its member {member.name!r} points outside of it"
                    raise damaged(archive, problem, "imdb")
                if REVIEW.fullmatch(member.name):
                    reviews[member.name] = _read(archive, tar, member)
            while packed.read(BLOCK):  # to the end, where the checksum is
                pass
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged(archive, "damaged or cut short", "imdb") from error
    counts = Counter(name.rpartition("/")[0].removeprefix("aclImdb/") for name in reviews)
    for folder in (f"{part}/{label}" for part in ("train", "test") for label in CLASSES):
        if counts[folder] != PER_CLASS:
            problem = f"{counts[folder]} reviews in {folder}, expected {PER_CLASS}"
            raise damaged(archive, problem, "imdb")
    return dict(sorted(reviews.items()))


def check(archive: Path) -> str:
    """The SHA-256 of the reviews, if all of them are there."""
    reviews = read_reviews(archive)
    for _ in _tokens(reviews):
        pass
    return _reviews_sha256(reviews)


def _read(archive: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if member.size > LARGEST:
        problem = f"{member.name} has {member.size} bytes, too many for a review"
        raise damaged(archive, problem, "imdb")
    file = tar.extractfile(member) if member.isreg() else None
    if file is None:
        raise damaged(archive, f"{member.name} is not a file", "imdb")
    return file.read()


def _tokens(reviews: Reviews) -> Iterator[tuple[str, list[str]]]:
    """Each review's name and words."""
    for name, content in reviews.items():
        try:
            words = tokenize(content.decode("utf-8"))
        except UnicodeDecodeError as error:
            problem = f"its review {name} cannot be read as UTF-8 (byte {error.start})"
            raise damaged("aclImdb_v1.tar.gz", problem, "imdb") from error
        if not words:
            raise damaged("aclImdb_v1.tar.gz", f"its review {name} has no words", "imdb")
        yield name, words


def _prepare(reviews: Reviews, words: int, length: int) -> dict[str, Array]:
    """Padded ids, lengths and labels of both parts, in the order of the names."""
    counts: Counter[str] = Counter()
    texts: dict[str, list[list[str]]] = {"train": [], "test": []}
    labels: dict[str, list[int]] = {"train": [], "test": []}
    for name, tokens in _tokens(reviews):
        _, part, label, _ = name.split("/")
        if part == "train":
            counts.update(tokens)
        texts[part].append(tokens[:length])
        labels[part].append(CLASSES.index(label))
    known = vocabulary(counts, words)
    made = {"words": np.array(known), "reviews_sha256": np.array(_reviews_sha256(reviews))}
    for part in texts:
        made[f"{part}_ids"] = token_ids(texts[part], known, length)
        made[f"{part}_lengths"] = np.array([len(text) for text in texts[part]])
        made[f"{part}_labels"] = np.array(labels[part])
    return made


def _reviews_sha256(reviews: Reviews) -> str:
    digest = hashlib.sha256()
    for name, content in reviews.items():
        digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()

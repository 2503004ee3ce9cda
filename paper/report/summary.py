"""The summary: where the results fall short of the paper or contradict it; then what they reach."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from ..published import ACCURACY
from .claims import Claim
from .content import label
from .records import Library, Status
from .sections import not_below_the_line

CLOSE = 0.5  # points of a percent
TOTAL = sum(len(table.rows) for table in ACCURACY.values())  # accuracies that the paper prints


def summary(library: Library) -> list[str]:
    """Paragraphs computed from the records: the bad news is the first."""
    paragraphs = ([*_accuracies(library), *_untrained(library)], _tuned(library), _missing(library))
    return [" ".join(sentences) for sentences in paragraphs]


def paper_rows(library: Library, claims: list[Claim]) -> list[tuple[str, str, str, str]]:
    """Two lines of the table at the top: the paper's accuracies, and its claims in words."""
    reached, counts = len(_by_kind(library)[0]["comparable"]), Counter(c.verdict for c in claims)
    hold, part, against = (counts[kind] for kind in ("holds", "holds in part", "contradicted"))
    return [
        (
            "The paper's accuracies, with the authors' settings",
            _share(reached, TOTAL),
            f"{reached} of {TOTAL} reached, or missed by at most half a point",
            "the paper's Tables 1 to 3",
        ),
        (
            "The paper's claims in words",
            _share(hold, len(claims)),
            f"of {len(claims)}, {hold} hold, {part} in part, {against} contradicted, "
            f"{counts['open']} open",
            "its sentences, each read as something that can be counted",
        ),
    ]


def _share(count: int, total: int) -> str:
    return "holds" if count == total else "in part" if count else "falls short"


def _by_kind(library: Library) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The paper's accuracies by whether ours are comparable and reach them; and the absent ones."""
    found: dict[str, list[str]] = {kind: [] for kind in (*get_args(Status), "below")}
    absent: dict[str, list[str]] = {}
    for experiment, table in ACCURACY.items():
        for model, row in table.rows.items():
            group, name = library.group(experiment, model), f"{experiment} {label(model)}"
            ours, status = group.mean("test_accuracy"), group.status
            if ours is None:
                why = " diverged" if status == "diverged" else ""
                absent.setdefault(experiment, []).append(label(model) + why)
                continue
            missed = status == "comparable" and ours < row.accuracy - CLOSE
            after = f" after {group.epochs} of {table.epochs} epochs" if status == "shorter" else ""
            entry = f"{name} {ours:.2f} %{after} ({row.accuracy:.2f} %)"
            found["below" if missed else status].append(entry)
    return found, absent


def _accuracies(library: Library) -> list[str]:
    found, absent = _by_kind(library)
    reached = len(found["comparable"])
    kinds = {
        "missed by more than half a point (the paper's in brackets)": found["below"],
        "after fewer epochs than the paper's, and so not comparable": found["shorter"],
        "with other settings than the authors', and so not comparable": found["changed"],
        "without a result": [f"{task} ({', '.join(names)})" for task, names in absent.items()],
    }
    named = [f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names]
    return [
        f"With the authors' settings, {reached} of the paper's {TOTAL} accuracies "
        f"{'is' if reached == 1 else 'are'} reached, or missed by at most half a point, after as "
        "many epochs.",
        *(f"{sentence[0].upper()}{sentence[1:]}." for sentence in named),
    ]


def _tuned(library: Library) -> list[str]:
    found = []
    for experiment, table in ACCURACY.items():
        for model in library.models(experiment):
            row, ours = table.row(model), library.group(experiment, model).mean("test_accuracy")
            if row is not None and ours is not None and model not in table.rows:
                name = f"{experiment} {label(model)}"
                found.append(f"{name} {ours:.2f} % ({row.accuracy:.2f} %)")
    if not found:
        return []
    return [f"With settings of our own (the paper's in brackets): {', '.join(found)}."]


def _untrained(library: Library) -> list[str]:
    found = not_below_the_line(library)
    worse = [f"{task} ({', '.join(names)})" for task, names in found.items() if names]
    if not worse:
        return []
    return [f"No better than a straight line through the last two values: {', '.join(worse)}."]


def _missing(library: Library) -> list[str]:
    sentences = ["Nothing that was planned is missing."]
    if library.missing:
        counts = Counter(missing.experiment for missing in library.missing)
        named = ", ".join(f"{experiment} {count}" for experiment, count in counts.items())
        sentences = [f"Missing of what was planned, {len(library.missing)} in all: {named}."]
    if library.broken:
        sentences.append(f"Records that could not be read: {len(library.broken)}.")
    return sentences

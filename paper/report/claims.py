"""What the paper says in words, read as something that can be counted, and judged by the records.

A verdict needs runs that were trained to the end; until there are, the claim is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ..experiments import frequency_name
from ..published import ACCURACY
from .names import label
from .records import Group, Library

Verdict = Literal["contradicted", "holds in part", "holds", "open"]
MIXTURES = ("mix-sin", "mix-poly-5", "mix-poly-10", "mix-poly-15")
ORDERS = 10  # "orders of magnitude": at least one


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, how it is read here, and what came of it."""

    section: str
    sentence: str
    reading: str
    verdict: Verdict
    found: str


def judge(library: Library) -> list[Claim]:
    """Every claim with its verdict, in the order of the report."""
    return [claim(library) for claim in CLAIMS]


def _verdict(outcomes: Iterable[bool | None]) -> Verdict:
    """Of several cases: None is one that cannot be judged yet."""
    known = [outcome for outcome in outcomes if outcome is not None]
    if not known:
        return "open"
    if all(known):
        return "holds"
    return "holds in part" if any(known) else "contradicted"


def _mixtures(suffix: str, task: str) -> Callable[[Library], Claim]:
    def claim(library: Library) -> Claim:
        outcomes, found = [], []
        for experiment in MIXTURES:
            means = _complete_means(library, experiment, suffix)
            fru = means.pop("fru", None)
            if fru is None or len(means) < 3:
                continue
            best = min(means, key=lambda model: means[model])
            outcomes.append(ORDERS * fru <= means[best])
            found.append(f"{experiment} {fru:.1e} against {label(best)}'s {means[best]:.1e}")
        return Claim(
            "mixtures",
            f"FRU's test error is orders of magnitude below the other models' ({task})",
            "at most a tenth of the best other model's",
            _verdict(outcomes),
            "; ".join(found),
        )

    return claim


def _complete_means(library: Library, experiment: str, suffix: str) -> dict[str, float]:
    means = {}
    for model in ("rnn", "lstm", "sru", "fru"):
        group = library.group(experiment, model + suffix)
        mean = group.mean("test_mse")
        if mean is not None and group.comparable:
            means[model] = mean
    return means


def _half_of_sru(library: Library) -> Claim:
    fru, sru = (library.group("mix-poly-5", model) for model in ("fru", "sru"))
    outcome, found = None, ""
    if fru.records and sru.records:
        sizes = fru.records[0].run.parameters, sru.records[0].run.parameters
        outcome = 0.4 <= sizes[0] / sizes[1] <= 0.6
        found = f"{sizes[0]:,} of {sizes[1]:,}, {sizes[0] / sizes[1]:.2f}"
    sentence = "FRU uses about half of SRU's variables (mix-poly)"
    return Claim("mixtures", sentence, "0.4 to 0.6 of them", _verdict([outcome]), found)


def spreads(group: Group) -> list[tuple[int, float, float]]:
    """(epoch, largest over smallest, first over last) of the L2 norms over the steps.

    Of several seeds, the largest at each epoch.
    """
    found: dict[int, tuple[float, float]] = {}
    for record in group.usable:
        for probe in record.run.measurements.get("gradients", []):
            norms = [norm for norm in probe["l2"] if norm]
            if len(norms) > 1:
                spread, fall = found.get(probe["epoch"], (0.0, 0.0))
                spread = max(spread, max(norms) / min(norms))
                found[probe["epoch"]] = (spread, max(fall, norms[0] / norms[-1]))
    return [(epoch, *ratios) for epoch, ratios in sorted(found.items())]


def _level_gradients(library: Library) -> Claim:
    group = library.group("gradients", "fru")
    worst = max((spread for _, spread, _ in spreads(group) if group.comparable), default=None)
    return Claim(
        "gradients",
        "FRU's gradients to the initial state are very stable over the steps",
        "the largest norm is below ten times the smallest, at every epoch looked at",
        _verdict([None if worst is None else worst < ORDERS]),
        "" if worst is None else f"up to {worst:.3g} times",
    )


def _falling_gradients(library: Library) -> Claim:
    groups = {model: library.group("gradients", model) for model in ("sru", "rnn", "lstm")}
    ends = {model: spreads(group) for model, group in groups.items() if group.comparable}
    falls = {model: found[-1][2] for model, found in ends.items() if found}
    return Claim(
        "gradients",
        "SRU's fall by orders of magnitude with the steps, RNN's and LSTM's even more",
        "after training, the first norm is at least ten times the last; for RNN and LSTM more "
        "than for SRU",
        _verdict(
            fall >= ORDERS and (model == "sru" or fall > falls.get("sru", 0))
            for model, fall in falls.items()
        ),
        ", ".join(f"{label(model)} {fall:.3g} times" for model, fall in falls.items()),
    )


def _fast(library: Library) -> Claim:
    group = library.group("pixel-mnist", "fru-60-10")
    judged = group.usable if group.epochs >= 10 and not group.changes else []
    early = [record.curve("test_accuracy")[:10] for record in judged]
    best = [max(accuracy for _, _, accuracy in curve) for curve in early if curve]
    return Claim(
        "pixel-mnist",
        "FRU achieves over 97.5 % within 10 epochs on pixel-MNIST",
        "FRU 60,10's best of the first 10 epochs, each seed",
        _verdict(accuracy > 97.5 for accuracy in best),
        ", ".join(f"{accuracy:.2f} %" for accuracy in best),
    )


def _faster_than_lstm(library: Library) -> Claim:
    fru, lstm = (_epoch_of(library.group("pixel-mnist", m), 97.0) for m in ("fru-60-10", "lstm"))
    outcome = None if fru is None or lstm is None else _earlier(fru, lstm)
    parts = zip(("FRU 60,10", "LSTM"), (fru, lstm), strict=True)
    return Claim(
        "pixel-mnist",
        "FRU converges fastest; LSTM reaches 97 % at around the 40th epoch",
        "FRU 60,10 reaches 97 % in fewer epochs than LSTM",
        _verdict([outcome]),
        ", ".join(f"{name} {_reached(when)}" for name, when in parts if when is not None),
    )


def _epoch_of(group: Group, accuracy: float) -> tuple[int | None, int] | None:
    """The first epoch with that accuracy, if any, of how many; of the first run that counts."""
    for record in group.usable[:1] if not group.changes else []:
        curve = record.curve("test_accuracy")
        reached = (epoch for epoch, _, value in curve if value >= accuracy)
        return next(reached, None), len(curve)
    return None


def _earlier(one: tuple[int | None, int], other: tuple[int | None, int]) -> bool | None:
    """Whether one was there first; None if they were not trained for long enough to tell."""
    (there, _), (other_there, other_epochs) = one, other
    if there is None:
        return False if other_there is not None and one[1] >= other_there else None
    if other_there is None:
        return True if other_epochs >= there else None
    return there < other_there


def _reached(when: tuple[int | None, int]) -> str:
    epoch, epochs = when
    return f"not within {epochs} epochs" if epoch is None else f"at epoch {epoch}"


def _fails(experiment: str, limit: float) -> Callable[[Library], Claim]:
    def claim(library: Library) -> Claim:
        group = library.group(experiment, "rnn")
        mean = group.mean("test_accuracy")
        passed = mean is not None and mean >= limit  # which more epochs would not undo
        judged = mean is not None and (passed or group.comparable)
        return Claim(
            experiment,
            f"RNN fails to converge on {experiment}",
            f"it ends below {limit:g} %",
            _verdict([not passed if judged else None]),
            "" if mean is None else f"{mean:.2f} % after {group.epochs} epochs",
        )

    return claim


def _best(experiment: str, models: tuple[str, ...], sentence: str) -> Callable[[Library], Claim]:
    """That the given models end above all others of the paper's table."""

    def claim(library: Library) -> Claim:
        table = ACCURACY[experiment]
        groups = {model: library.group(experiment, model) for model in table.rows}
        means = {model: group.mean("test_accuracy") for model, group in groups.items()}
        known = {model: mean for model, mean in means.items() if mean is not None}
        complete = all(group.comparable for group in groups.values())
        ranked = sorted(known, key=lambda model: -known[model])
        return Claim(
            experiment,
            sentence,
            "by the last epoch's accuracy, all models trained to the end",
            _verdict([set(ranked[: len(models)]) == set(models) if complete else None]),
            ", ".join(f"{label(model)} {known[model]:.2f} %" for model in ranked),
        )

    return claim


def _frequencies(library: Library, steps: int) -> dict[tuple[int, float, float], float]:
    found = {}
    for model in library.models("frequencies"):
        group = library.group("frequencies", model)
        mean = group.mean("test_accuracy") if group.comparable else None
        if mean is not None and frequency_name(model)[0] == steps:
            found[frequency_name(model)[1:]] = mean
    return found


def _more_is_better(steps: int) -> Callable[[Library], Claim]:
    def claim(library: Library) -> Claim:
        best: dict[int, float] = {}
        for (count, _, _), mean in _frequencies(library, steps).items():
            best[count] = max(mean, best.get(count, 0.0))
        ordered = [best[count] for count in sorted(best)]
        return Claim(
            "frequencies",
            f"More frequencies give a higher accuracy ({steps} steps)",
            "the best range of each number of frequencies, against that of the next smaller number",
            _verdict(less < more for less, more in pairwise(ordered)),
            ", ".join(f"{count}: {best[count]:.2f} %" for count in sorted(best)),
        )

    return claim


def _low_frequencies_suffice(library: Library) -> Claim:
    found = _frequencies(library, 784)
    gaps = {
        count: found[count, 0.25, 25.0] - mean
        for (count, low, high), mean in found.items()
        if (low, high) == (0.25, 784.0) and (count, 0.25, 25.0) in found
    }
    return Claim(
        "frequencies",
        "At 784 steps, 0.25 to 25 gives an accuracy similar to 0.25 to 784",
        "it differs by at most half a point",
        _verdict(abs(gap) <= 0.5 for gap in gaps.values()),
        ", ".join(f"{count} frequencies: {gap:+.2f} points" for count, gap in sorted(gaps.items())),
    )


CLAIMS: tuple[Callable[[Library], Claim], ...] = (
    _mixtures("", "next value"),
    _mixtures("-released", "the released program's task"),
    _half_of_sru,
    _level_gradients,
    _falling_gradients,
    _fast,
    _faster_than_lstm,
    _fails("pixel-mnist", 20.0),
    _best("permuted-mnist", ("fru-60-10",), "FRU ends above SRU, LSTM and RNN on permuted MNIST"),
    _best("imdb", ("fru-5-10", "fru-1-10"), "The two FRUs reach the highest accuracies on IMDB"),
    _fails("imdb", 60.0),
    _more_is_better(28),
    _more_is_better(784),
    _low_frequencies_suffice,
)

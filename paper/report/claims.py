"""The paper's claims in words, read as something that can be counted, and judged by the records.

A verdict needs runs that were trained to the end; until there are, the claim is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

from ..experiments import frequency_name
from .content import label
from .probes import spreads
from .records import Group, Library

Judgement = Literal["contradicted", "holds in part", "holds", "open"]
Cases = tuple[Iterable[bool | None], str]  # whether each case holds (None: open), and the numbers
MIXTURES = ("mix-sin", "mix-poly-5", "mix-poly-10", "mix-poly-15")
ORDERS = 10  # "orders of magnitude": at least one


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, how it is read here, and how it was judged."""

    section: str
    sentence: str
    reading: str
    verdict: Judgement
    found: str


def judge(library: Library) -> list[Claim]:
    """Every claim with its verdict, in the order of the report."""
    claims = []
    for section, sentence, reading, count in (*CLAIMS, *SHORT_CLAIMS):
        cases, found = count(library)
        if section == "mnist-196" and not found:
            continue
        claims.append(Claim(section, sentence, reading, _verdict(cases), found))
    return claims


def _verdict(cases: Iterable[bool | None]) -> Judgement:
    known = [case for case in cases if case is not None]
    if not known:
        return "open"
    if all(known):
        return "holds"
    return "holds in part" if any(known) else "contradicted"


def _mixtures(library: Library, suffix: str) -> Cases:
    cases, found = [], []
    for experiment in MIXTURES:
        means = {}
        for model in ("rnn", "lstm", "sru", "fru"):
            group = library.group(experiment, model + suffix)
            mean = group.mean("test_mse")
            if mean is not None and group.comparable:
                means[model] = mean
        fru = means.pop("fru", None)
        if fru is None or len(means) < 3:
            continue
        best = min(means, key=lambda model: means[model])
        cases.append(ORDERS * fru <= means[best])
        found.append(f"{experiment} {fru:.1e} against {label(best)}'s {means[best]:.1e}")
    return cases, "; ".join(found)


def _half_of_sru(library: Library) -> Cases:
    ours, theirs = (library.group("mix-poly-5", model).parameters for model in ("fru", "sru"))
    if not (ours and theirs):
        return [], ""
    return [0.4 <= ours / theirs <= 0.6], f"{ours:,} of {theirs:,}, {ours / theirs:.2f}"


def _level_gradients(library: Library) -> Cases:
    group = library.group("gradients", "fru")
    found = [spread for _, spread, _ in spreads(group)] if group.comparable else []
    if not found:
        return [], ""
    return [max(found) < ORDERS], f"up to {max(found):.3g} times"


def _falling_gradients(library: Library) -> Cases:
    groups = {model: library.group("gradients", model) for model in ("sru", "rnn", "lstm")}
    ends = {model: spreads(group) for model, group in groups.items() if group.comparable}
    falls = {model: found[-1][2] for model, found in ends.items() if found}
    cases = [
        fall >= ORDERS and (model == "sru" or fall > falls.get("sru", 0))
        for model, fall in falls.items()
    ]
    return cases, ", ".join(f"{label(model)} {fall:.3g} times" for model, fall in falls.items())


def _fast(library: Library) -> Cases:
    group = library.group("pixel-mnist", "fru-60-10")
    judged = group.usable if group.epochs >= 10 and not group.changes else []
    early = [record.curve("test_accuracy")[:10] for record in judged]
    best = [max(accuracy for _, _, accuracy in curve) for curve in early if curve]
    return [accuracy > 97.5 for accuracy in best], ", ".join(f"{value:.2f} %" for value in best)


def _fastest(library: Library, experiment: str, fru: str, others: tuple[str, ...]) -> Cases:
    """That FRU reaches 97 % in fewer epochs than each of the others."""
    models = (fru, *others)
    reached = {m: _epoch_of(library.group(experiment, m), 97.0) for m in models}
    found = {model: when for model, when in reached.items() if when is not None}
    cases = [
        _earlier(found[fru], found[other]) if fru in found and other in found else None
        for other in others
    ]
    return cases, ", ".join(f"{label(model)} {_reached(when)}" for model, when in found.items())


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


def _fails(library: Library, experiment: str, limit: float) -> Cases:
    group = library.group(experiment, "rnn")
    mean = group.mean("test_accuracy")
    if mean is None:
        return [], ""
    passed = mean >= limit  # which more epochs would not undo
    judged = passed or group.comparable
    return [not passed if judged else None], f"{mean:.2f} % after {group.epochs} epochs"


def _best(library: Library, experiment: str, models: set[str], others: Iterable[str]) -> Cases:
    """That the given models end above all others."""
    groups = {model: library.group(experiment, model) for model in (*models, *others)}
    means = {model: group.mean("test_accuracy") for model, group in groups.items()}
    known = {model: mean for model, mean in means.items() if mean is not None}
    ranked = sorted(known, key=lambda model: -known[model])
    complete = all(group.comparable for group in groups.values())
    case = set(ranked[: len(models)]) == models if complete else None
    return [case], ", ".join(f"{label(model)} {known[model]:.2f} %" for model in ranked)


def _frequencies(library: Library, steps: int) -> dict[tuple[int, float, float], float]:
    found = {}
    for model in library.models("frequencies"):
        group = library.group("frequencies", model)
        mean = group.mean("test_accuracy") if group.comparable else None
        if mean is not None and frequency_name(model)[0] == steps:
            found[frequency_name(model)[1:]] = mean
    return found


def _more_is_better(library: Library, steps: int) -> Cases:
    best: dict[int, float] = {}
    for (count, _, _), mean in _frequencies(library, steps).items():
        best[count] = max(mean, best.get(count, 0.0))
    cases = [best[less] < best[more] for less, more in pairwise(sorted(best))]
    return cases, ", ".join(f"{count}: {best[count]:.2f} %" for count in sorted(best))


def _low_frequencies_suffice(library: Library) -> Cases:
    found = _frequencies(library, 784)
    gaps = {
        count: found[count, 0.25, 25.0] - mean
        for (count, low, high), mean in sorted(found.items())
        if (low, high) == (0.25, 784.0) and (count, 0.25, 25.0) in found
    }
    named = ", ".join(f"{count} frequencies: {gap:+.2f} points" for count, gap in gaps.items())
    return [abs(gap) <= 0.5 for gap in gaps.values()], named


def _deep(library: Library) -> Cases:
    """That the deepest Fourier MLP ends above 97 %, and the plain one fails."""
    groups = {kind: library.group("depth", f"{kind}-mlp-1000") for kind in ("fourier", "plain")}
    means = {kind: group.mean("test_accuracy") for kind, group in groups.items()}
    known = {kind: mean for kind, mean in means.items() if mean is not None}
    found = ", ".join(f"{label(kind)} {mean:.2f} %" for kind, mean in known.items())
    if len(known) < 2 or not all(group.comparable for group in groups.values()):
        return [None], found
    return [known["fourier"] >= 97.0, known["plain"] < 20.0], found


BELOW = "FRU's test error is orders of magnitude below the other models'"
A_TENTH = "at most a tenth of the best other model's"
LAST = "by the last epoch's accuracy, all models trained to the end"
BEST_RANGES = (
    "the best range of each number of frequencies, against that of the next smaller number"
)
BASELINES = ("rnn", "lstm", "sru")
PERMUTED, IMDB = {"fru-60-10"}, {"fru-5-10", "fru-1-10"}

# The same at 196 steps, where every baseline is trained to the end: judged once there are records.
SHORT_CLAIMS: tuple[tuple[str, str, str, Callable[[Library], Cases]], ...] = (
    (
        "mnist-196",
        "At 196 steps: FRU converges fastest",
        "on pixel-MNIST of 14 x 14, FRU with the authors' settings reaches 97 % in fewer epochs "
        "than RNN, LSTM and SRU",
        partial(_fastest, experiment="pixel-mnist-196", fru="fru", others=BASELINES),
    ),
    (
        "mnist-196",
        "At 196 steps: FRU ends above SRU, LSTM and RNN on permuted MNIST",
        f"FRU with the authors' settings, {LAST}",
        partial(_best, experiment="permuted-mnist-196", models={"fru"}, others=BASELINES),
    ),
)

# The section of the report, the sentence, how it is read, and how it is counted.
CLAIMS: tuple[tuple[str, str, str, Callable[[Library], Cases]], ...] = (
    ("mixtures", f"{BELOW} (next value)", A_TENTH, partial(_mixtures, suffix="")),
    (
        "mixtures",
        f"{BELOW} (the released program's task)",
        A_TENTH,
        partial(_mixtures, suffix="-released"),
    ),
    (
        "mixtures",
        "FRU uses about half of SRU's variables (mix-poly)",
        "0.4 to 0.6 of them",
        _half_of_sru,
    ),
    (
        "gradients",
        "FRU's gradients to the initial state are very stable over the steps",
        "the largest norm is below ten times the smallest, at every epoch looked at",
        _level_gradients,
    ),
    (
        "gradients",
        "SRU's fall by orders of magnitude with the steps, RNN's and LSTM's even more",
        "after training, the first norm is at least ten times the last; for RNN and LSTM more "
        "than for SRU",
        _falling_gradients,
    ),
    (
        "pixel-mnist",
        "FRU achieves over 97.5 % within 10 epochs on pixel-MNIST",
        "FRU 60,10's best of the first 10 epochs, each seed",
        _fast,
    ),
    (
        "pixel-mnist",
        "FRU converges fastest; LSTM reaches 97 % at around the 40th epoch",
        "FRU 60,10 reaches 97 % in fewer epochs than LSTM",
        partial(_fastest, experiment="pixel-mnist", fru="fru-60-10", others=("lstm",)),
    ),
    (
        "pixel-mnist",
        "RNN fails to converge on pixel-mnist",
        "it ends below 20 %",
        partial(_fails, experiment="pixel-mnist", limit=20.0),
    ),
    (
        "permuted-mnist",
        "FRU ends above SRU, LSTM and RNN on permuted MNIST",
        LAST,
        partial(_best, experiment="permuted-mnist", models=PERMUTED, others=BASELINES),
    ),
    (
        "imdb",
        "The two FRUs reach the highest accuracies on IMDB",
        LAST,
        partial(_best, experiment="imdb", models=IMDB, others=BASELINES),
    ),
    (
        "imdb",
        "RNN fails to converge on imdb",
        "it ends below 60 %",
        partial(_fails, experiment="imdb", limit=60.0),
    ),
    *(
        (
            "frequencies",
            f"More frequencies give a higher accuracy ({steps} steps)",
            BEST_RANGES,
            partial(_more_is_better, steps=steps),
        )
        for steps in (28, 784)
    ),
    (
        "frequencies",
        "At 784 steps, 0.25 to 25 gives an accuracy similar to 0.25 to 784",
        "it differs by at most half a point",
        _low_frequencies_suffice,
    ),
    (
        "depth",
        "The Fourier idea could help gradient issues of networks that are not recurrent (outlook)",
        "without normalisation, a Fourier MLP of 1,000 layers ends at 97 % or more on MNIST, and a "
        "plain one below 20 %",
        _deep,
    ),
)

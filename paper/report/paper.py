"""What the paper prints: every number with its place, so that ours can stand beside it.

J. Zhang, Y. Lin, Z. Song, I. S. Dhillon, Learning Long Term Dependencies via Fourier Recurrent
Units, ICML 2018.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A row of a table: accuracy in percent, thousands of variables, their ratio to LSTM's."""

    accuracy: float
    variables: int | None = None
    ratio: float | None = None


@dataclass(frozen=True)
class PublishedTable:
    """A table of accuracies: where it stands, after how many epochs, its rows by model."""

    place: str
    epochs: int
    rows: dict[str, Published]

    def row(self, model: str) -> Published | None:
        """What to hold a model against; a tuned one against the same model of the paper."""
        return self.rows.get(model.removesuffix("-tuned"))


ACCURACY = {
    "pixel-mnist": PublishedTable(
        "Table 1",
        100,
        {
            "rnn": Published(10.39, 42, 0.26),
            "lstm": Published(98.17, 164, 1.00),
            "sru": Published(96.20, 275, 1.68),
            "fru-40-10": Published(96.88, 107, 0.65),
            "fru-60-10": Published(97.61, 159, 0.97),
        },
    ),
    "permuted-mnist": PublishedTable(
        "Table 2",
        100,  # of the released program; the paper says "converged"
        {
            "rnn": Published(87.46),
            "lstm": Published(90.26),
            "sru": Published(92.21),
            "fru-60-10": Published(96.93),
        },
    ),
    "imdb": PublishedTable(
        "Table 3",
        20,  # of the released program; the paper says "eventual"
        {
            "rnn": Published(50.53, 33, 0.25),
            "lstm": Published(83.64, 132, 1.00),
            "sru": Published(86.40, 226, 1.72),
            "fru-5-10": Published(86.71, 12, 0.09),
            "fru-1-10": Published(86.44, 4, 0.03),
        },
    ),
}

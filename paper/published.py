"""The numbers that the paper prints, each with its place, so that ours can stand beside it.

J. Zhang, Y. Lin, Z. Song, I. S. Dhillon, Learning Long Term Dependencies via Fourier Recurrent
Units, ICML 2018.
"""

from __future__ import annotations

from dataclasses import dataclass

from torchfru.training.recipes import MINUTES


@dataclass(frozen=True)
class Published:
    """A row of a table: accuracy in percent, thousands of variables, their ratio to LSTM's."""

    accuracy: float
    variables: int | None = None
    ratio: float | None = None


@dataclass(frozen=True)
class PublishedTable:
    """A table of accuracies: where it stands, after how many epochs, its rows by model.

    ``task`` and ``settings`` introduce ours; ``zoom`` is the top of the accuracies, to be drawn
    once more.
    """

    title: str
    place: str
    epochs: int
    zoom: tuple[float, float]
    task: str
    settings: str
    rows: dict[str, Published]

    def row(self, model: str) -> Published | None:
        """The row to hold a model against; for a tuned one that of the same model."""
        return self.rows.get(model.removesuffix("-tuned"))


ACCURACY = {
    "pixel-mnist": PublishedTable(
        "Pixel-MNIST",
        "Table 1",
        100,
        (90, 100),
        "The digit after 784 pixels, one a step. The standard split, 60,000 images to train and "
        "10,000 to test; the authors' program shuffles all 70,000 and tests on a fifth.",
        "Settings: the authors' (batches of 256, 100 epochs; learning rate, decay and clip of "
        "each model). Pixels have mean 0 and deviation 1: how the authors scaled them is not "
        "known. Without a GPU the baselines take minutes an epoch: they are given "
        f"{MINUTES:g} minutes here, and are not comparable with the paper in training length.",
        {
            "rnn": Published(10.39, 42, 0.26),
            "lstm": Published(98.17, 164, 1.00),
            "sru": Published(96.20, 275, 1.68),
            "fru-40-10": Published(96.88, 107, 0.65),
            "fru-60-10": Published(97.61, 159, 0.97),
        },
    ),
    "permuted-mnist": PublishedTable(
        "Permuted MNIST",
        "Table 2",
        100,  # of the released program; the paper says "converged"
        (80, 100),
        "The same with the pixels in one random order, fixed for all images.",
        f"Settings: the authors', with the baselines' {MINUTES:g} minutes as above.",
        {
            "rnn": Published(87.46),
            "lstm": Published(90.26),
            "sru": Published(92.21),
            "fru-60-10": Published(96.93),
        },
    ),
    "imdb": PublishedTable(
        "IMDB",
        "Table 3",
        20,  # of the released program; the paper says "eventual"
        (70, 90),
        "Whether a film review is a good one, after up to 300 words. The embedding's variables "
        "are not counted, as in the paper.",
        "Settings: the authors' (batches of 32, 20 epochs, dropout 0.2; learning rate and decay "
        "of each model).",
        {
            "rnn": Published(50.53, 33, 0.25),
            "lstm": Published(83.64, 132, 1.00),
            "sru": Published(86.40, 226, 1.72),
            "fru-5-10": Published(86.71, 12, 0.09),
            "fru-1-10": Published(86.44, 4, 0.03),
        },
    ),
}


# Beyond the paper -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Peer:
    """A published result of a recurrent unit of about our size: percent, or a squared error."""

    name: str
    value: float
    source: str

    def __str__(self) -> str:
        return (
            f"{self.name} {self.value:.2f}" if self.value > 1 else f"{self.name} {self.value:.1e}"
        )


UNICORNN = "Rusch and Mishra, ICML 2021, from their program's logs"
LEM = "Rusch, Mishra, Erichson and Mahoney, ICLR 2022, from their program's logs"
PEERS: dict[str, tuple[Peer, ...]] = {  # by task, the weakest first
    "permuted-mnist": (
        Peer("UnICORNN", 98.40, f"3 layers, 136K parameters; {UNICORNN}"),
        Peer("LMU by FFT", 98.49, "165K, linear recurrence; Chilkuri and Eliasmith, ICML 2021"),
        Peer("LSSL", 98.76, "the best of any kind found; Gu et al., NeurIPS 2021, as quoted later"),
    ),
    "pixel-mnist": (
        Peer("coRNN", 99.4, "134K; Rusch and Mishra, ICLR 2021, from their program's logs"),
        Peer("LEM", 99.45, f"68K; {LEM}"),
    ),
    "imdb": (Peer("UnICORNN", 88.4, f"30K, pretrained word vectors; {UNICORNN}"),),
    "adding-10000": (Peer("LEM", 2.4e-5, LEM),),
}

# How the recipe's settings were found. None: not counted yet.
HELD_BACK = (
    "Settings were chosen by trials on a part of the training data that was held back for that; "
    "the test set was never used for selection, though its accuracy was printed beside in trials."
)
MINUTES_SHARED = (
    "These runs shared their machine with other work: the same run took several times as long "
    "with one seed as with another, so their minutes say little of speed."
)
SETTINGS_TRIED: dict[str, int | None] = {
    "permuted-mnist": 6,
    "pixel-mnist": 10,
    "imdb": 6,
    "next value": 2,
    "memory": 6,
}

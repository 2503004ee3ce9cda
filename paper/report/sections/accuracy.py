"""The paper's three tables of accuracies: pixel-MNIST, permuted MNIST, IMDB."""

from __future__ import annotations

from torchfru.experiments.mnist import MINUTES

from ...plots import Curve, Panel
from ..content import Section
from ..names import label, style
from ..paper import ACCURACY
from ..records import Group, Library
from ..tables import published, runs_table, sizes, tried_table
from .curves import ACCURACY_NAME, SPREAD, curves, figure

TITLES = {"pixel-mnist": "Pixel-MNIST", "permuted-mnist": "Permuted MNIST", "imdb": "IMDB"}


NOTES = {
    "pixel-mnist": (
        "The digit after 784 pixels, one a step. The standard split, 60,000 images to train and "
        "10,000 to test; the authors' program shuffles all 70,000 and tests on a fifth.",
        "Settings: the authors' (batches of 256, 100 epochs; learning rate, decay and clip of "
        "each model). Pixels have mean 0 and deviation 1: how the authors scaled them is not "
        "known. Without a GPU the baselines take minutes an epoch: they are given "
        f"{MINUTES:g} minutes here, and are not comparable with the paper in training length.",
        (90, 100),
    ),
    "permuted-mnist": (
        "The same with the pixels in one random order, fixed for all images.",
        f"Settings: the authors', with the baselines' {MINUTES:g} minutes as above.",
        (80, 100),
    ),
    "imdb": (
        "Whether a film review is a good one, after up to 300 words. The embedding's variables "
        "are not counted, as in the paper.",
        "Settings: the authors' (batches of 32, 20 epochs, dropout 0.2; learning rate and decay "
        "of each model).",
        (70, 90),
    ),
}


def accuracy_groups(library: Library, experiment: str) -> dict[str, Group]:
    """The paper's models in its order, then others that were run."""
    models = [*ACCURACY[experiment].rows, *library.models(experiment)]
    return {label(model): library.group(experiment, model) for model in dict.fromkeys(models)}


def section(library: Library, experiment: str) -> Section:
    paper, groups = ACCURACY[experiment], accuracy_groups(library, experiment)
    task, settings, zoom = NOTES[experiment]
    lstm = library.group(experiment, "lstm")
    table = runs_table(
        f"Test accuracy after the last epoch, beside the paper's {paper.place}. "
        f"* after fewer than the {paper.epochs} epochs of the paper: not comparable.",
        groups,
        [*published(paper), *sizes(paper, lstm)],
    )
    places = {name: (group, style(group.model)) for name, group in groups.items()}
    ends = [
        Curve("", [paper.epochs], [row.accuracy], places[label(model)][1], "hollow")
        for model, row in paper.rows.items()
    ]
    drawn = curves(places, "test_accuracy")
    by_epoch = [*drawn, *ends] if drawn else []
    timed = curves(places, "test_accuracy", by_time=True)
    panels = [
        Panel("By epoch", "epoch", ACCURACY_NAME, by_epoch),
        Panel("By epoch, the top", "epoch", ACCURACY_NAME, by_epoch, ylim=zoom),
        Panel("By time", "minutes of training", ACCURACY_NAME, timed, whole=False),
    ]
    caption = f"Test accuracy, {SPREAD}. Hollow marks: the paper's numbers at its last epoch."
    tuned = "Tuned: settings of our own, chosen among those that were tried, below."
    text = [task, settings, *([tuned] if any("-tuned" in g.model for g in groups.values()) else [])]
    figures = figure(experiment, caption, panels)
    tried = tried_table([s for s in library.sweeps if s.result.experiment == experiment], ".2f")
    return Section(experiment, TITLES[experiment], text, [table, *figures, *tried])

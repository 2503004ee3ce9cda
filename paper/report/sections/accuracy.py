"""The paper's three tables of accuracies: pixel-MNIST, permuted MNIST, IMDB."""

from __future__ import annotations

from ...plots import Curve, Panel
from ...published import ACCURACY
from ..content import Section
from ..names import label, style
from ..records import Group, Library
from ..tables import published, runs_table, sizes, tried_table
from .curves import ACCURACY_NAME, SPREAD, curves, figure


def accuracy_groups(library: Library, experiment: str) -> dict[str, Group]:
    """The paper's models in its order, then others that were run."""
    models = [*ACCURACY[experiment].rows, *library.models(experiment)]
    return {label(model): library.group(experiment, model) for model in dict.fromkeys(models)}


def section(library: Library, experiment: str) -> Section:
    paper, groups = ACCURACY[experiment], accuracy_groups(library, experiment)
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
        Panel("By epoch, the top", "epoch", ACCURACY_NAME, by_epoch, ylim=paper.zoom),
        Panel("By time", "minutes of training", ACCURACY_NAME, timed, whole=False),
    ]
    caption = f"Test accuracy, {SPREAD}. Hollow marks: the paper's numbers at its last epoch."
    tuned = "Tuned: settings of our own, chosen among those that were tried, below."
    text = [
        paper.task,
        paper.settings,
        *([tuned] if any("-tuned" in g.model for g in groups.values()) else []),
    ]
    figures = figure(experiment, caption, panels)
    tried = tried_table([s for s in library.sweeps if s.result.experiment == experiment], ".2f")
    return Section(experiment, paper.title, text, [table, *figures, *tried])

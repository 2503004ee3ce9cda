"""Tables of runs: a row a model, a column a fact, and every number leads to its record."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..experiments import EXPERIMENTS
from ..published import ACCURACY, Published, PublishedTable
from .content import EMPTY, Cell, Link, Table, label
from .records import NUMBERS, Group, Library, Sweep, told_differences


@dataclass(frozen=True)
class Measure:
    """A measure of an epoch: its key in the record, and how tables and figures show it."""

    key: str
    heading: str
    form: str
    axis: str
    scale: str = "linear"


PERCENT = Measure("test_accuracy", "accuracy, %", ".2f", "test accuracy, %")
MSE = Measure("test_mse", "test MSE", ".2e", "test mean squared error", "log")


@dataclass(frozen=True)
class Column:
    """A heading, and what stands under it for a model's runs; nothing is shown as a dash."""

    heading: str
    cell: Callable[[Group], Cell | None]


def runs_table(caption: str, groups: dict[str, Group], columns: Sequence[Column]) -> Table:
    """A row for each label and its runs: the given columns, and how the runs went."""
    every = [*columns, SEEDS, DIVERGED, EPOCHS, MINUTES, REMARKS]
    rows = [(name, *cells(group, every)) for name, group in groups.items()]
    header = ("model", *(column.heading for column in every))
    return Table(caption, header, rows, text_from=len(header) - 1)


def cells(group: Group, columns: Sequence[Column]) -> tuple[Cell, ...]:
    found = (column.cell(group) for column in columns)
    return tuple(EMPTY if cell is None else cell for cell in found)


def mean_and_spread(measure: Measure, values: list[float]) -> str:
    """The mean, and the standard deviation where there are several values."""
    mean = f"{statistics.fmean(values):{measure.form}}"
    return f"{mean} ± {statistics.stdev(values):{measure.form}}" if len(values) > 1 else mean


def result(measure: Measure, heading: str = "") -> Column:
    """Mean and standard deviation over the seeds of the last epoch's measure, and how many lack."""

    def cell(group: Group) -> Cell | None:
        values, lost = group.last(measure.key), len(group.diverged)
        if not values:
            return "diverged" if lost else None
        note = f" ({lost} of {len(group.records)} diverged)" if lost else ""
        return (Link(mean_and_spread(measure, values) + note, group.name, is_file=False),)

    return Column(heading or measure.heading, cell)


def each_seed(measure: Measure) -> Column:
    """The measure of every run, where there are several: a mean hides that some fail."""

    def cell(group: Group) -> Cell | None:
        found = [(record.name, record.run.last.get(measure.key)) for record in group.usable]
        links = [Link(f"{v:{measure.form}}", name) for name, v in found if isinstance(v, NUMBERS)]
        return tuple(links) if len(links) > 1 else None

    return Column("each seed", cell)


def against(heading: str, measure: Measure, level: float | None) -> Column:
    """The mean as a multiple of a level."""

    def cell(group: Group) -> Cell | None:
        mean = group.mean(measure.key)
        return None if mean is None or not level else f"{mean / level:.3g}"

    return Column(heading, cell)


# Beside the paper -------------------------------------------------------------------------------


def published(table: PublishedTable, lstm: Group) -> tuple[Column, ...]:
    """Accuracy, variables and their ratio to LSTM's: the paper's and ours, side by side."""

    def paper(heading: str, show: Callable[[Published], str | None]) -> Column:
        return Column(heading, lambda g: show(row) if (row := table.row(g.model)) else None)

    def difference(group: Group) -> Cell | None:
        row, ours = table.row(group.model), group.mean("test_accuracy")
        if row is None or ours is None:
            return None
        return f"{ours - row.accuracy:+.2f}{'*' if group.status == 'shorter' else ''}"

    def ratio(group: Group) -> Cell | None:
        both = group.parameters and lstm.parameters
        return f"{group.parameters / lstm.parameters:.2f}" if both else None

    return (
        paper("paper, %", lambda row: f"{row.accuracy:.2f}"),
        result(PERCENT, "ours, %"),
        Column("difference", difference),
        VARIABLES,
        paper("the paper's", lambda row: f"{row.variables}K" if row.variables else None),
        Column("of LSTM's", ratio),
        paper("in the paper", lambda row: f"{row.ratio:.2f}" if row.ratio else None),
    )


def comparable_table(library: Library) -> Table:
    """The accuracies that can be held against the paper's, with the authors' settings or tuned."""
    rows: list[tuple[Cell, ...]] = []
    for experiment, table in ACCURACY.items():
        for model in dict.fromkeys([*table.rows, *library.models(experiment)]):
            group, row = library.group(experiment, model), table.row(model)
            if row is not None and group.comparable:
                ours, size = cells(group, (result(PERCENT), VARIABLES))
                rows.append((f"{table.title}: {label(model)}", ours, f"{row.accuracy:.2f}", size))
    header = ("task: model", "ours, %", "paper, %", "parameters")
    caption = "Beside the paper, with its settings or tuned: test accuracy after the last epoch"
    return Table(caption, header, rows)


def tried_table(sweeps: Sequence[Sweep], form: str) -> list[Table]:
    """The settings that were tried on data held back from training, the best first; or nothing."""
    entries = [
        (point["score"], sweep, point)
        for sweep in sweeps
        for point in sweep.result.points
        if point["score"] is not None
    ]
    up = any(sweep.result.direction == "maximize" for sweep in sweeps)
    entries.sort(key=lambda entry: entry[0], reverse=up)
    rows: list[tuple[Cell, ...]] = [
        (
            label(sweep.result.model),
            (Link(f"{score:{form}}", sweep.name),),
            f"{point['lr']:g}",
            f"{point['lr_decay']:g}",
            f"{sweep.config.training.epochs}",
            f"{sweep.config.data.validation:.0%}",
            "; ".join(sweep.changes) or "the model's own",
        )
        for score, sweep, point in entries
    ]
    header = ("model", "held back", "learning rate", "decay", "epochs", "share", "other settings")
    caption = (
        "Settings that were tried: the measure on the share of the training set that was held "
        "back, after the last epoch. The test set was not looked at."
    )
    return [Table(caption, header, rows, text_from=len(header) - 1)] if rows else []


# How the runs went ------------------------------------------------------------------------------


def _epochs(group: Group) -> Cell | None:
    done = sorted({len(record.run.epochs) for record in group.usable})
    if not done:
        return None
    planned = max(record.config.training.epochs for record in group.usable)
    several = f"{done[0]} to {done[-1]}" if len(done) > 1 else f"{done[0]}"
    return f"{several} of {planned}"


def _minutes(group: Group) -> Cell | None:
    times = [record.run.seconds / 60 for record in group.usable]
    return f"{statistics.fmean(times):.1f}" if times else None


def _remarks(group: Group) -> Cell:
    """The conditions that a reader must know before comparing the row with another."""
    tuned = _tuned(group)
    if not group.records:
        return "; ".join(["missing", *tuned])
    remarks = [f"seed {r.run.seed} unfinished: {r.progress}" for r in group.unfinished]
    remarks += [f"seed {r.run.seed}: test loss {r.excess}" for r in group.usable if r.excess]
    if group.status == "shorter":
        epochs = f"{group.epochs} of {group.planned_epochs} epochs"
        remarks.append(f"not comparable in training length: {epochs}")
    return "; ".join([*tuned, *remarks, *group.changes])


def _tuned(group: Group) -> list[str]:
    """The settings of a model called tuned that are not the authors'."""
    plain = group.model.removesuffix("-tuned")
    if plain == group.model:
        return []
    models = EXPERIMENTS[group.experiment]
    return [f"not the authors': {', '.join(told_differences(models[group.model], models[plain]))}"]


VARIABLES = Column("variables", lambda g: f"{g.parameters:,}" if g.parameters else None)
SEEDS = Column("seeds", lambda g: tuple(Link(str(r.run.seed), r.name) for r in g.records) or None)
DIVERGED = Column("diverged", lambda g: f"{len(g.diverged)}" if g.records else None)
EPOCHS = Column("epochs", _epochs)
MINUTES = Column("minutes", _minutes)
REMARKS = Column("remarks", _remarks)

"""Tables of runs: a row a model, a column a fact, and every number leads to its record."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..experiments import EXPERIMENTS
from ..published import ACCURACY, PublishedTable
from .content import EMPTY, Cell, Link, Table
from .names import label
from .records import NUMBERS, Group, Library, Sweep, told_differences


@dataclass(frozen=True)
class Column:
    """A heading, and what stands under it for a model's runs."""

    heading: str
    cell: Callable[[Group], Cell]


def runs_table(caption: str, groups: dict[str, Group], columns: Sequence[Column]) -> Table:
    """A row for each label and its runs: the given columns, and how the runs went."""
    every = [*columns, SEEDS, DIVERGED, EPOCHS, MINUTES, REMARKS]
    rows = [(name, *(column.cell(group) for column in every)) for name, group in groups.items()]
    header = ("model", *(column.heading for column in every))
    return Table(caption, header, rows, text_from=len(header) - 1)


def result(heading: str, measure: str, form: str) -> Column:
    """Mean and standard deviation over the seeds of the last epoch's measure."""

    def cell(group: Group) -> Cell:
        values = group.last(measure)
        if not values:
            return "diverged" if group.diverged else EMPTY
        text = f"{statistics.fmean(values):{form}}"
        if len(values) > 1:
            text += f" ± {statistics.stdev(values):{form}}"
        return (Link(text, group.name, is_file=False),)

    return Column(heading, cell)


def each_seed(measure: str, form: str) -> Column:
    """The measure of every run, where there are several: a mean hides that some fail."""

    def cell(group: Group) -> Cell:
        found = [(record.name, record.run.last.get(measure)) for record in group.usable]
        links = [Link(f"{v:{form}}", name) for name, v in found if isinstance(v, NUMBERS)]
        return tuple(links) if len(links) > 1 else EMPTY

    return Column("each seed", cell)


def parameters() -> Column:
    return Column("variables", lambda g: f"{g.records[0].run.parameters:,}" if g.records else EMPTY)


def published(table: PublishedTable) -> tuple[Column, ...]:
    """The paper's accuracy, and how far ours is from it, in points of a percent."""

    def paper(group: Group) -> Cell:
        row = table.row(group.model)
        return EMPTY if row is None else f"{row.accuracy:.2f}"

    def difference(group: Group) -> Cell:
        row, ours = table.row(group.model), group.mean("test_accuracy")
        if row is None or ours is None:
            return EMPTY
        mark = "*" if group.status == "shorter" else ""
        return f"{ours - row.accuracy:+.2f}{mark}"

    ours = result("ours, %", "test_accuracy", ".2f")
    return Column("paper, %", paper), ours, Column("difference", difference)


def comparable_table(library: Library) -> Table:
    """The accuracies that can be held against the paper's, with the authors' settings or tuned."""
    rows: list[tuple[Cell, ...]] = []
    ours, (seeds, variables) = result("", "test_accuracy", ".2f"), (SEEDS, parameters())
    for experiment, table in ACCURACY.items():
        for model in dict.fromkeys([*table.rows, *library.models(experiment)]):
            group, published = library.group(experiment, model), table.row(model)
            if published is not None and group.comparable:
                cells = ours.cell(group), f"{published.accuracy:.2f}", variables.cell(group)
                rows.append((f"{table.title}: {label(model)}", *cells, seeds.cell(group)))
    header = ("task: model", "ours, %", "paper, %", "parameters", "seeds")
    caption = "Test accuracy after the last epoch: mean ± standard deviation over seeds"
    return Table(caption, header, rows)


def sizes(table: PublishedTable, lstm: Group) -> tuple[Column, ...]:
    """Variables and their ratio to LSTM's, ours and the paper's."""

    def paper_variables(group: Group) -> Cell:
        row = table.row(group.model)
        return EMPTY if row is None or row.variables is None else f"{row.variables}K"

    def paper_ratio(group: Group) -> Cell:
        row = table.row(group.model)
        return EMPTY if row is None or row.ratio is None else f"{row.ratio:.2f}"

    def ratio(group: Group) -> Cell:
        if not (group.records and lstm.records):
            return EMPTY
        return f"{group.records[0].run.parameters / lstm.records[0].run.parameters:.2f}"

    return (
        parameters(),
        Column("the paper's", paper_variables),
        Column("of LSTM's", ratio),
        Column("in the paper", paper_ratio),
    )


def against(heading: str, measure: str, level: float | None) -> Column:
    """The mean as a multiple of a level."""

    def cell(group: Group) -> Cell:
        mean = group.mean(measure)
        return EMPTY if mean is None or not level else f"{mean / level:.3g}"

    return Column(heading, cell)


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


def _seeds(group: Group) -> Cell:
    return tuple(Link(str(record.run.seed), record.name) for record in group.records) or EMPTY


def _epochs(group: Group) -> Cell:
    done = sorted({len(record.run.epochs) for record in group.usable})
    if not done:
        return EMPTY
    planned = max(record.config.training.epochs for record in group.usable)
    several = f"{done[0]} to {done[-1]}" if len(done) > 1 else f"{done[0]}"
    return f"{several} of {planned}"


def _minutes(group: Group) -> Cell:
    times = [record.run.seconds / 60 for record in group.usable]
    return f"{statistics.fmean(times):.1f}" if times else EMPTY


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
    models, plain = EXPERIMENTS[group.experiment], group.model.removesuffix("-tuned")
    if plain == group.model:
        return []
    return [f"not the authors': {', '.join(told_differences(models[group.model], models[plain]))}"]


SEEDS = Column("seeds", _seeds)
DIVERGED = Column("diverged", lambda group: f"{len(group.diverged)}" if group.records else EMPTY)
EPOCHS = Column("epochs", _epochs)
MINUTES = Column("minutes", _minutes)
REMARKS = Column("remarks", _remarks)

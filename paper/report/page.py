"""All that a report says, ready to be written as HTML or as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torchfru.defaults import has_option
from torchfru.records import RunResult
from torchfru.training.config import flat

from ..plan import Measurement
from .claims import Claim, judge
from .content import EMPTY, Figure, Section, Table
from .glance import glance, opening
from .records import Library, Record, Sweep
from .sections import all_sections
from .summary import paper_rows, summary

CLAIMED = "What the paper says in words"
READING = (
    "A number is the last epoch's measure on the test set, never used for selection: the mean over "
    "seeds, ± the standard deviation where there are several. A run that diverged is counted, and "
    "is not part of the mean; nor is one that is unfinished. Figures show both fainter. Minutes "
    "are those of one run. Every number leads to its records."
)


@dataclass(frozen=True)
class Report:
    """The parts of the page, in order."""

    library: Library

    @cached_property
    def claims(self) -> list[Claim]:
        return judge(self.library)

    @cached_property
    def summary(self) -> list[str]:
        return summary(self.library)

    @cached_property
    def sections(self) -> list[Section]:
        return all_sections(self.library)

    @property
    def glance(self) -> Table:
        """The verdicts, in about ten lines."""
        return glance(self.library, paper_rows(self.library, self.claims))

    @property
    def opening(self) -> list[Figure]:
        return opening(self.library)

    @property
    def claims_table(self) -> Table:
        rows = [(c.sentence, c.verdict, c.found or EMPTY, c.reading) for c in self.claims]
        header = ("the paper says", "verdict", "found", "read here as")
        return Table(CLAIMED, header, list(rows), text_from=1, stacked=True)

    @property
    def missing_table(self) -> Table:
        rows = [
            (planned.experiment, planned.record(self.library.folder).stem, progress)
            for planned, progress in self.library.missing.items()
        ]
        header = ("experiment", "run or measurement", "how far it got")
        return Table("Planned, and without a finished record", header, list(rows), text_from=1)

    @property
    def provenance(self) -> str:
        """Where the numbers come from, without a date."""
        runs: list[RunResult | Measurement] = [record.run for record in self.library.runs]
        records = [*runs, *self.library.measurements.values()]
        torch = _common(str(record.versions.get("torch")) for record in records)
        cpus = _common(str(record.hardware.get("cpu")) for record in records)
        commits = _common(str(record.commit or "no commit")[:7] for record in records)
        return f"Records: {len(records)}; torch {torch}; {cpus}; commits {commits}."

    @property
    def appendix(self) -> dict[str, dict[str, dict[str, str]]]:
        """By model, by measurement and by sweep: the records, each with its facts."""
        found: dict[str, dict[str, dict[str, str]]] = {}
        for record in self.library.runs:
            group = f"{record.run.experiment}/{record.run.model}"
            found.setdefault(group, {})[record.name] = run_facts(record)
        for name, measurement in self.library.measurements.items():
            found[name] = {f"{name}.json": measurement_facts(measurement)}
        for sweep in self.library.sweeps:
            found[f"{sweep.name}.json"] = {sweep.name: sweep_facts(sweep)}
        return dict(sorted(found.items()))


def _common(values: Iterable[str]) -> str:
    """The values, the most frequent first."""
    return ", ".join(value for value, _ in Counter(values).most_common())


def run_facts(record: Record) -> dict[str, str]:
    """The facts of a record, by name."""
    run = record.run
    measures = {
        name: "not finite" if value is None else f"{value:.4g}"
        for name, value in run.last.items()
        if name not in ("epoch", "seconds")
    }
    return {
        "status": "diverged" if run.diverged else run.status,
        "epochs": record.progress,
        "last epoch": _listed(measures),
        "seconds": _listed({"in all": run.seconds, **run.split}),
        "variables": f"{run.parameters:,}",
        "settings": _listed(_settings(record)),
        "other than the experiment's": "; ".join(record.changes) or "nothing",
        **_origin(run),
    }


def measurement_facts(measurement: Measurement) -> dict[str, str]:
    """The plain numbers of a measurement without training, and their origin."""
    plain = {k: v for k, v in measurement.values.items() if isinstance(v, int | float | str)}
    seconds = f"{measurement.seconds:.1f}"
    return {"values": _listed(plain), "seconds": seconds, **_origin(measurement)}


def sweep_facts(sweep: Sweep) -> dict[str, str]:
    """The facts of a sweep, by name."""
    points = (_listed({k: v for k, v in p.items() if v is not None}) for p in sweep.result.points)
    own = "; ".join(sweep.changes) or "nothing"
    return {"points": "; ".join(points), "other than the experiment's": own}


def _origin(record: RunResult | Measurement) -> dict[str, str]:
    return {
        "commit": record.commit or "none",
        "versions": _listed(record.versions),
        "hardware": _listed(record.hardware),
        "SHA-256 of the data": _listed(record.data),
    }


def _settings(record: Record) -> dict[str, Any]:
    """The settings that this layer has."""
    layer = record.config.model.layer
    return {
        key: value
        for key, value in flat(record.config).items()
        if value is not None and has_option(layer, key.partition(".")[2])
    }


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())

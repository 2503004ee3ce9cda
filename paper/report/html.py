"""The report as one HTML page that needs no network: style, drawings and records are inside."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from ..plots import draw
from .page import READING, Report, measurement_facts, run_facts, sweep_facts


def to_html(report: Report) -> str:
    """The page. Jinja escapes all that comes from a record; drawings alone are taken as is."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(__name__.rpartition(".")[0], "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"anchor": anchor, "draw": lambda *args: Markup(draw(*args))}
    template = environment.get_template("page.html")
    return template.render(report=report, reading=READING, records=_records(report))


def anchor(name: str) -> str:
    """The id of a record on the page.

    >>> anchor("imdb/fru-5-10-seed0")
    'record-imdb-fru-5-10-seed0'
    """
    return f"record-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}"


def _records(report: Report) -> list[dict[str, Any]]:
    """The appendix: for each model, and for each measurement, its records with their facts."""
    models = groupby(report.library.runs, key=lambda r: (r.run.experiment, r.run.model))
    runs = [
        {
            "name": f"{experiment}/{model}",
            "records": [(record.name, run_facts(record)) for record in records],
        }
        for (experiment, model), records in models
    ]
    measured = [
        {"name": name, "records": [(f"{name}.json", measurement_facts(measurement))]}
        for name, measurement in report.library.measurements.items()
    ]
    sweeps = [
        {"name": f"{sweep.name}.json", "records": [(sweep.name, sweep_facts(sweep))]}
        for sweep in report.library.sweeps
    ]
    return sorted([*runs, *measured, *sweeps], key=lambda entry: str(entry["name"]))

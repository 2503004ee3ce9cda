"""``torchfru data``: what there is, where it is, and whether it is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .common import shown

if TYPE_CHECKING:
    from ..data import DataSet, FileCheck, SequenceData

app = typer.Typer(
    help="List, fetch and verify data sets. Example: torchfru data list", no_args_is_help=True
)

Folder = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="A folder with mnist/, imdb/, beijing/ to look in first. Default: TORCHFRU_DATA.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for a program to read.")]


@app.command("list")
def list_(data_dir: Folder = None, as_json: Json = False) -> None:
    """List the data sets, their options, and whether their files are here.

    Example: torchfru data list --json
    """
    from ..data import DATASETS

    rows = [_described(entry, data_dir) for entry in DATASETS.values()]
    if as_json:
        _print_json(rows)
        return
    table = Table("name", "task", "what", "files", "options")
    for row in rows:
        options = "  ".join(f"{name}={value}" for name, value in row["options"].items())
        table.add_row(row["name"], row["task"], row["summary"], row["files"], options)
    Console().print(table)


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Data sets, or all.")],
    data_dir: Folder = None,
    as_json: Json = False,
) -> None:
    """Fetch data sets, unless they are here, and prepare them for use.

    Example: torchfru data fetch pixel-mnist imdb
    """
    from ..data import load
    from ..data import names as known

    chosen = known() if names == ["all"] else names
    loaded = [_summary(load(name, data_dir=data_dir)) for name in chosen]
    if as_json:
        _print_json(loaded)
        return
    table = Table("name", "task", "train", "test", "steps", "inputs", "outputs")
    for row in loaded:
        table.add_row(*(f"{v:,}" if isinstance(v, int) else shown(v) for v in [*row.values()][:7]))
    Console().print(table)


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Default: all data sets.")
    ] = None,
    data_dir: Folder = None,
    as_json: Json = False,
) -> None:
    """Read through the files that are here; exit with 1 if one is damaged. Fetches nothing.

    A data set that is asked for by name must be here.

    Example: torchfru data verify --data-dir ~/data
    """
    from ..data import names as known
    from ..data import verify as check

    files = {c.source: c for name in names or known() for c in check(name, data_dir=data_dir)}
    rows = [_checked(found) for found in files.values()]
    if as_json:
        _print_json(rows)
    else:
        table = Table("file", "state", "SHA-256 of the content", "where")
        for row in rows:
            table.add_row(row["file"], row["state"], row["sha256"] or "", shown(row["path"] or ""))
        Console().print(table)
        for row in rows:
            if row["problem"]:
                typer.echo(shown(row["problem"]).plain, err=True)
    wrong = ("damaged", "not here") if names else ("damaged",)
    if any(row["state"] in wrong for row in rows):
        raise typer.Exit(1)


def _described(entry: DataSet, data_dir: Path | None) -> dict[str, Any]:
    from ..data import available

    files = "generated"
    if entry.needs_download:
        files = "here" if available(entry.name, data_dir=data_dir) else "to fetch"
    return {
        "name": entry.name,
        "task": entry.task,
        "summary": entry.summary,
        "files": files,
        "options": entry.options,
    }


def _summary(data: SequenceData) -> dict[str, Any]:
    return {
        "name": data.name,
        "task": data.task,
        "train": len(data.train),
        "test": len(data.test),
        "seq_len": data.seq_len,
        "input_size": data.input_size,
        "output_size": data.output_size,
        "vocab_size": data.vocab_size,
        "checksums": data.checksums,
    }


def _checked(found: FileCheck) -> dict[str, Any]:
    state = "not here" if found.path is None else "damaged" if found.problem else "ok"
    return {
        "file": str(found.source),
        "state": state,
        "sha256": found.sha256,
        "path": None if found.path is None else str(found.path),
        "problem": found.problem,
    }


def _print_json(rows: list[dict[str, Any]]) -> None:
    typer.echo(json.dumps(rows, indent=2))

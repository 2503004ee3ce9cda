"""``torchfru data``: list, fetch and verify data sets."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..io import printable
from .common import DataDir, Json, print_json, print_table

app = typer.Typer(
    help="List, fetch and verify data sets. Example: torchfru data list", no_args_is_help=True
)


@app.command("list")
def list_(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the data sets, their options, and whether their files are on this machine.

    Example: torchfru data list --json
    """
    from ..data import DATASETS, available

    rows: list[dict[str, Any]] = []
    for entry in DATASETS.values():
        files = "here" if available(entry.name, data_dir=data_dir) else "to fetch"
        row = {name: getattr(entry, name) for name in ("name", "task", "summary")}
        row["files"] = files if entry.needs_download else "generated"
        rows.append({**row, "options": entry.options})
    if as_json:
        print_json(rows)
        return
    for row in rows:
        row["options"] = "  ".join(f"{name}={value}" for name, value in row["options"].items())
    print_table(["name", "task", "content", "files", "options"], (row.values() for row in rows))


@app.command()
def fetch(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", help="The names of data sets, or all.")
    ],
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Download data sets that are not on this machine, and load each of them once.

    Example: torchfru data fetch pixel-mnist imdb
    """
    from ..data import load
    from ..data import names as known

    sizes = ("seq_len", "input_size", "output_size", "vocab_size", "checksums")
    loaded: list[dict[str, Any]] = []
    for name in known() if names == ["all"] else names:
        data = load(name, data_dir=data_dir)
        row: dict[str, Any] = {"name": data.name, "task": data.task}
        row |= {"train": len(data.train), "test": len(data.test)}
        loaded.append(row | {size: getattr(data, size) for size in sizes})
    if as_json:
        print_json(loaded)
        return
    headings = ("name", "task", "train", "test", "steps", "inputs", "outputs")
    rows = ([f"{v:,}" if isinstance(v, int) else v for v in [*row.values()][:7]] for row in loaded)
    print_table(headings, rows, numbers=headings[2:])


@app.command()
def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="The names of data sets. Default: all of them."),
    ] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Check the files on this machine. The exit code is 1 if one is damaged.

    Nothing is downloaded. If you name a data set, its files must be here.

    Example: torchfru data verify --data-dir ~/data
    """
    from ..data import names as known
    from ..data import verify as check

    files = {c.source: c for name in names or known() for c in check(name, data_dir=data_dir)}
    rows = [
        {
            "file": str(found.source),
            "state": "not here" if found.path is None else "damaged" if found.problem else "ok",
            "sha256": found.sha256,
            "path": None if found.path is None else str(found.path),
            "problem": found.problem,
        }
        for found in files.values()
    ]
    if as_json:
        print_json(rows)
    else:
        cells = ([cell or "" for cell in [*row.values()][:4]] for row in rows)
        print_table(["file", "state", "SHA-256 of the content", "path"], cells)
        for row in rows:
            if row["problem"]:
                typer.echo(printable(row["problem"]), err=True)
    wrong = ("damaged", "not here") if names else ("damaged",)
    if any(row["state"] in wrong for row in rows):
        raise typer.Exit(1)

"""``torchfru doctor``: everything that a bug report needs."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from .common import shown


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="For a machine to read.")] = False,
) -> None:
    """Show versions and devices, and check every backend on the devices that are here.

    Each backend's outputs and gradients are compared with the collapsed form in float64. The exit
    code is 1 if a backend fails. Please add what this prints to a bug report.

    Example: torchfru doctor --json
    """
    from ..ops.doctor import examine

    found = examine()
    if as_json:
        typer.echo(json.dumps(found, indent=1, allow_nan=False))
    else:
        _print(found)
    if any(backend["state"] == "failed" for backend in found["backends"]):
        raise typer.Exit(1)


def _print(found: dict[str, Any]) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = 120  # a file is wide enough
    facts = Table("", "", title="System", show_header=False, box=box.SIMPLE_HEAD)
    for name, value in {**found["versions"], **found["system"]}.items():
        facts.add_row(name, shown(str(value)))
    for device in found["devices"]:
        rest = {name: value for name, value in device.items() if name != "name"}
        facts.add_row(device["name"], shown(", ".join(f"{k} {v}" for k, v in rest.items())))
    if not found["devices"]:
        facts.add_row("GPU", "none that torch can use")
    console.print(facts)
    backends = Table("backend", "device", "state", "", title="Backends", box=box.SIMPLE_HEAD)
    for row in found["backends"]:
        backends.add_row(row["name"], row["device"] or "", row["state"], shown(row["reason"]))
    console.print(backends)

"""``torchfru doctor``: everything that a bug report needs."""

from __future__ import annotations

from typing import Any

import typer

from .common import Json, print_json, print_table


def doctor(as_json: Json = False) -> None:
    """Show versions and devices, and check every backend on the devices of this machine.

    Each backend's outputs and gradients are compared with the collapsed form in float64. The exit
    code is 1 if a backend fails. Please add the output to a bug report.

    Example: torchfru doctor --json
    """
    from ..ops.doctor import examine

    found = examine()
    if as_json:
        print_json(found)
    else:
        _print(found)
    if any(backend["state"] == "failed" for backend in found["backends"]):
        raise typer.Exit(1)


def _print(found: dict[str, Any]) -> None:
    facts: dict[str, Any] = {**found["versions"], **found["system"]}
    for device in found["devices"]:
        rest = {name: value for name, value in device.items() if name != "name"}
        facts[device["name"]] = ", ".join(f"{k} {v}" for k, v in rest.items())
    if not found["devices"]:
        facts["GPU"] = "none that torch can use"
    print_table(["system", ""], facts.items())
    names = ("name", "device", "state", "reason")
    rows = ([row[name] or "" for name in names] for row in found["backends"])
    print_table(["backend", *names[1:]], rows)

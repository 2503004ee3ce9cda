"""The command ``python -m benchmarks``."""

import typer

from torchfru.cli import run

from .command import bench

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)
app.command()(bench)

if __name__ == "__main__":
    run(app)

"""The command ``python -m paper``."""

from torchfru.cli import run

from .cli import app

if __name__ == "__main__":
    run(app)

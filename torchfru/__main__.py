"""The command ``torchfru``, also as ``python -m torchfru``."""

import sys


def main() -> None:
    """Hand over to the command line, if what it needs is installed."""
    try:
        from .cli import run
    except ModuleNotFoundError as missing:
        sys.exit(f"torchfru: the command needs {missing.name}: pip install 'torchfru[cli]'")
    run()


if __name__ == "__main__":
    main()

"""The paper's experiments, report and theorems, beside the library: ``python -m paper --help``."""

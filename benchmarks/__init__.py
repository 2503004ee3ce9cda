"""Speed and memory of the layers, measured: ``python -m benchmarks --help``."""

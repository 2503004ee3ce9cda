"""From a configuration to a trained, recorded run. Needs the extra ``train``."""

from .run import Run, run_experiment

__all__ = ["Run", "run_experiment"]

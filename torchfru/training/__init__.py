"""From a configuration to a trained, recorded run. Needs the extra ``train``."""

from .run import Run, RunBusyError, run_experiment

__all__ = ["Run", "RunBusyError", "run_experiment"]

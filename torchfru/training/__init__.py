"""From a configuration to a trained, recorded run. Needs the extra ``train``.

The names are imported when they are used: configurations and recipes need no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import DataConfig, ModelConfig, RunConfig, TrainingConfig, override
    from .loop import Hook, Training, run_experiment
    from .recipes import EXPERIMENTS, find_run, record_name
    from .run import Run, RunBusyError

__all__ = [
    "EXPERIMENTS",
    "DataConfig",
    "Hook",
    "ModelConfig",
    "Run",
    "RunBusyError",
    "RunConfig",
    "Training",
    "TrainingConfig",
    "find_run",
    "override",
    "record_name",
    "run_experiment",
]


def __getattr__(name: str) -> Any:
    for module in ("config", "recipes", "run", "loop") if name in __all__ else ():
        home = import_module(f".{module}", __name__)  # the first two need no torch
        if hasattr(home, name):
            return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The claims by name, and the one function that checks them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module

import torch

from .finding import Finding, Settings

CLAIMS: dict[str, str] = {
    "fru-summary": "fru_summary",
    "sru-summary": "sru_summary",
    "gradient-fru": "gradient_fru",
    "gradient-sru": "gradient_sru",
    "gradient-rnn": "gradient_rnn",
    "gradient-general": "gradient_general",
    "residual": "residual",
    "vandermonde": "vandermonde",
    "fourier-fits-polynomials": "fourier_fits",
    "exponential-limits": "exponential_limits",
    "expressive-power": "expressive_power",
    "collapsed-equals-direct": "collapsed_equals_direct",
    "picard": "picard",
}


@contextmanager
def one_thread() -> Iterator[None]:
    """The matrices here are small: a second thread only waits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def check(name: str, settings: Settings | None = None) -> Finding:
    """Measure one claim. The same seed gives the same numbers, and torch's own is left alone.

    >>> check("vandermonde").verdict
    'holds'
    """
    if name not in CLAIMS:
        raise ValueError(f"claim must be one of {', '.join(CLAIMS)}; got {name!r}")
    settings = settings or Settings()
    measure: Callable[[Settings], Finding] = import_module(f".{CLAIMS[name]}", __package__).measure
    start = time.perf_counter()
    try:
        with one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            finding = measure(settings)
    except ModuleNotFoundError as missing:
        hint = f"{name} needs {missing.name}: pip install 'torchfru[dev]'"
        raise ModuleNotFoundError(hint, name=missing.name) from None
    return replace(finding, seconds=round(time.perf_counter() - start, 2))

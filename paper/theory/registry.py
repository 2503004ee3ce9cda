"""The claims by name, and the one function that checks them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module

import torch

from .finding import Finding, Settings

# by name: the file and the function that measures the claim
CLAIMS: dict[str, tuple[str, str]] = {
    "fru-summary": ("summaries", "measure_fru"),
    "sru-summary": ("summaries", "measure_sru"),
    "gradient-fru": ("gradient_fru", "measure"),
    "gradient-sru": ("gradient_sru", "measure"),
    "gradient-rnn": ("gradient_rnn", "measure"),
    "gradient-general": ("gradient_fru", "measure_every_basis"),
    "residual": ("residual", "measure"),
    "depth-gradient": ("depth_gradient", "measure"),
    "depth-gradient-plain": ("depth_gradient", "measure_plain"),
    "vandermonde": ("vandermonde", "measure"),
    "fourier-fits-polynomials": ("fourier_fits", "measure"),
    "exponential-limits": ("exponential_limits", "measure"),
    "expressive-power": ("expressive_power", "measure"),
    "collapsed-equals-direct": ("collapsed_equals_direct", "measure"),
    "picard": ("picard", "measure"),
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
    settings, (module, function) = settings or Settings(), CLAIMS[name]
    start = time.perf_counter()
    try:
        measure: Callable[[Settings], Finding]
        measure = getattr(import_module(f".{module}", __package__), function)
        with one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            finding = measure(settings)
    except ModuleNotFoundError as missing:
        hint = f"{name} needs {missing.name}: pip install 'torchfru[dev]'"
        raise ModuleNotFoundError(hint, name=missing.name) from None
    return replace(finding, claim=name, seconds=round(time.perf_counter() - start, 2))

"""Settings that every test shares."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import HealthCheck, settings

import torchfru

# TORCHFRU_EXAMPLES=3000 makes every property test search ten times longer.
settings.register_profile(
    "torchfru",
    max_examples=int(os.environ.get("TORCHFRU_EXAMPLES", "300")),
    deadline=None,  # the first call of a kernel compiles it
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("torchfru")


@pytest.fixture(autouse=True)
def _same_start():
    """Each test starts from the same random state, and leaves the backend as it found it."""
    torch.manual_seed(0)
    with torchfru.use_backend("auto"):
        yield

"""Settings that every test shares."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

import torchfru

# Numba looks at the file of a kernel only to see whether what it has compiled is still good, not
# at the files that the kernel uses: here every state of the sources has a cache of its own.
_sources = sorted((Path(torchfru.__file__).parent / "ops").rglob("*.py"))
_state = hashlib.sha256(b"".join(path.read_bytes() for path in _sources)).hexdigest()[:16]
_cache = Path(tempfile.gettempdir()) / f"torchfru-tests-{os.getuid()}-{_state}"
os.environ.setdefault("NUMBA_CACHE_DIR", str(_cache))

# Tests run in several processes at once: more threads than cores would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)

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


@pytest.fixture(scope="module")
def browser():
    """Chromium, for the tests that look at a page."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        message = "there is no chromium to open the page in; apt-get install chromium"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # as root, as in a container, Chromium starts without its sandbox only
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()

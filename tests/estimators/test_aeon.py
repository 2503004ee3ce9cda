"""The adapters for aeon pass aeon's own checks. `make test-aeon` runs this; it needs aeon."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("aeon")

from aeon.testing.estimator_checking import check_estimator

from torchfru import FRUClassifier
from torchfru.estimators.aeon import AeonFRUClassifier, AeonFRURegressor


@pytest.mark.parametrize("kind", [AeonFRUClassifier, AeonFRURegressor])
def test_aeon_s_own_checks(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those that the checks provoke
        found = check_estimator(kind)
    wrong = {name: state for name, state in found.items() if state != "PASSED"}
    assert not wrong
    assert len(found) > 20


def test_channels_come_first():
    rng = np.random.default_rng(0)
    y = np.array(["a", "b"] * 10)
    x = rng.normal(size=(20, 3, 12)) + (y == "b")[:, None, None]
    options = {"max_steps": 20, "settings": ("training.epochs=1",), "random_state": 0}
    ours = FRUClassifier(**options, verbose=False).fit(x.swapaxes(1, 2), y)
    theirs = AeonFRUClassifier(**options).fit(x, y)
    expected = ours.predict_proba(x.swapaxes(1, 2))
    np.testing.assert_allclose(theirs.predict_proba(x), expected, atol=1e-6)

"""The estimators as aeon's: X (n, channels, steps), and aeon's base classes. Needs aeon.

>>> from torchfru.estimators.aeon import AeonFRUClassifier, AeonFRURegressor
"""

from __future__ import annotations

from typing import Any

try:
    from aeon.classification.base import BaseClassifier
    from aeon.regression.base import BaseRegressor
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "torchfru.estimators.aeon needs aeon: pip install aeon", name="aeon"
    ) from None

from ..data.arrays import Array
from .sequences import FRUClassifier, FRURegressor


class _Adapter:
    """The parameters of both, and how they reach the estimator that does the work.

    aeon's base classes check and convert X; what comes here is (n, channels, steps), or a list of
    arrays (channels, steps).
    """

    _tags = {  # noqa: RUF012
        "X_inner_type": ["np-list", "numpy3D"],
        "capability:multivariate": True,
        "capability:unequal_length": True,
        "algorithm_type": "deeplearning",
        "python_dependencies": "torch",
    }
    kind: type[FRUClassifier] | type[FRURegressor]
    estimator_: Any

    def __init__(
        self,
        layer: str = "fru",
        max_steps: int | None = None,
        max_minutes: float | None = None,
        n_models: int | None = None,
        validation: float | None = None,
        settings: Any = (),
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.layer = layer
        self.max_steps = max_steps
        self.max_minutes = max_minutes
        self.n_models = n_models
        self.validation = validation
        self.settings = settings
        self.verbose = verbose
        self.random_state = random_state
        super().__init__()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return super().get_params(deep)  # type: ignore[misc]

    def _fit(self, X: Any, y: Any) -> _Adapter:
        self.estimator_ = self.kind(layout="channels_first", **self.get_params()).fit(X, y)
        return self

    def _predict(self, X: Any) -> Array:
        return self.estimator_.predict(X)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        """Small and short: for aeon's own checks."""
        short = {"max_steps": 4, "n_models": 2, "settings": ("training.epochs=1",)}
        return short | {"random_state": 0}


class AeonFRUClassifier(_Adapter, BaseClassifier):
    """:class:`~torchfru.FRUClassifier` as a classifier of aeon, which has the arguments.

    ``estimator_`` is the fitted one, with ``save``, ``model_`` and ``record_``.
    """

    kind = FRUClassifier

    def _predict_proba(self, X: Any) -> Array:
        return self.estimator_.predict_proba(X)


class AeonFRURegressor(_Adapter, BaseRegressor):
    """:class:`~torchfru.FRURegressor` as a regressor of aeon, which has the arguments."""

    kind = FRURegressor

"""Estimators in scikit-learn's style. Needs the extra ``sklearn``.

>>> from torchfru import FRUClassifier, FRUForecaster, FRURegressor
"""

try:
    import sklearn as _sklearn  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "torchfru's estimators need scikit-learn: pip install 'torchfru[sklearn]'", name="sklearn"
    ) from None

from .forecast import FRUForecaster
from .sequences import FRUClassifier, FRURegressor

__all__ = ["FRUClassifier", "FRUForecaster", "FRURegressor"]

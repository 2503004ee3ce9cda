"""A classifier and a regressor of sequences, trained as ``torchfru train`` trains them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)
from torch import Tensor

from ..data import SequenceData, Split, Task
from ..data.arrays import Array, floats, integers, sha256
from ..data.scaling import apply_scaling
from ..io import did_you_mean, write_atomically
from ..records import RunResult
from ..training.automatic import MODELS, automatic
from ..training.checkpoint import Checkpoint
from ..training.config import RunConfig, override
from ..training.fit import fit
from ..training.trained import TrainedModel, trained_from
from .inputs import read_sequences
from .progress import StepBar

E = TypeVar("E", bound="SequenceEstimator")

HEADROOM = (
    1.25  # how much longer than all of the training part a sequence may be, where they differ
)


def _shared(kind: type) -> str:
    """The lists of arguments and attributes that both estimators have, for their docstrings."""
    text = kind.__doc__ or ""
    return text[text.index("Args:") :].rstrip()


class SequenceEstimator(BaseEstimator):
    """What :class:`FRUClassifier` and :class:`FRURegressor` share.

    Args:
        layer: "fru", or for comparison "lstm", "gru", "rnn" or "sru", with the same window, head
            and training.
        max_steps: of the optimizer; None: by the size of the data.
        max_minutes: stop after the epoch that exceeds this; there are 30 of equally many steps.
        n_models: how many models are trained, each from its own weights, to answer together: with
            the mean of their probabilities, or of their numbers; None: by the size of the data.
        hidden_size: features of the read-out; None: by the size of the data.
        validation: the share of the training data that is held out, balanced by class, to keep the
            weights that do best on it; None: by the size of the data.
        settings: other settings, as ``torchfru train --set`` takes them: ``["training.lr=0.01"]``.
        layout: of an X with three axes: "channels_last", (n, steps, channels), or
            "channels_first", (n, channels, steps), as aeon and sktime have it.
        folder: where to keep the run's record and checkpoint; None: nowhere.
        accelerator: "auto", "cpu" or "gpu".
        verbose: whether to show a progress bar, on a terminal or in a notebook.
        random_state: the seed of weights, order and dropout.

    Attributes:
        model_: the trained model, and the description of its data; with several models a
            :class:`~torchfru.nn.Committee`.
        record_: the run's record: settings, versions, and the measures of each epoch.
        n_features_in_: steps of a sequence, or of the longest.
        n_iter_: epochs that were trained.
    """

    model_: TrainedModel
    record_: RunResult
    ragged_: bool
    n_features_in_: int
    task: Task

    def __init__(
        self,
        *,
        layer: str = "fru",
        max_steps: int | None = None,
        max_minutes: float | None = None,
        n_models: int | None = None,
        hidden_size: int | None = None,
        validation: float | None = None,
        settings: Any = (),
        layout: str = "channels_last",
        folder: Any = None,
        accelerator: str = "auto",
        verbose: bool = True,
        random_state: Any = None,
    ) -> None:
        self.layer = layer
        self.max_steps = max_steps
        self.max_minutes = max_minutes
        self.n_models = n_models
        self.hidden_size = hidden_size
        self.validation = validation
        self.settings = settings
        self.layout = layout
        self.folder = folder
        self.accelerator = accelerator
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def fit(self: E, X: Any, y: Any) -> E:
        """Train on sequences X with targets y."""
        values, lengths = read_sequences(self, X, reset=True)
        if y is None:
            raise ValueError(f"{self._name}: requires y to be passed, but the target y is None")
        targets, more = self._read_targets(y)
        check_consistent_length(values, targets)
        data = self._data(values, lengths, targets, more)
        place = None if self.folder is None else Path(self.folder)
        hooks = [StepBar(self._name)] if self.verbose else []
        model, record = fit(
            data,
            self._config(data),
            seed=self._seed(),
            folder=place,
            accelerator=self.accelerator,
            hooks=hooks,
        )
        if record.diverged:
            raise ValueError(
                f"{self._name}: the training diverged; look for outliers in X and y, or choose a "
                "smaller rate: settings=['training.lr=0.001']"
            )
        self.model_, self.record_ = model, record
        return self

    @property
    def n_iter_(self) -> int:
        check_is_fitted(self)
        return len(self.record_.epochs)

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _read_targets(self, y: Any) -> tuple[Tensor, dict[str, Any]]:
        """The targets as a :class:`Split` has them, and the sizes and names that they give."""
        raise NotImplementedError

    def _data(
        self, values: Array, lengths: Array | None, targets: Tensor, more: dict[str, Any]
    ) -> SequenceData:
        steps = values.shape[1] if lengths is None else int(HEADROOM * values.shape[1])
        given = [values, targets.numpy(), *([] if lengths is None else [lengths])]
        train = Split(floats(values), targets, None if lengths is None else integers(lengths))
        return SequenceData(
            name="sequences",
            task=self.task,
            train=train,
            test=train[:0],
            input_size=values.shape[2],
            seq_len=steps,
            checksums={"arrays": sha256(*given)},
            **more,
        )

    def _config(self, data: SequenceData) -> RunConfig:
        if self.layer not in MODELS:
            hint = did_you_mean(str(self.layer), MODELS)
            raise ValueError(f"{self._name}: there is no layer {self.layer!r}; {hint}")
        config = automatic(data, self.layer, max_steps=self.max_steps, validation=self.validation)
        given = {
            "training.max_minutes": self.max_minutes,
            "model.members": self.n_models,
            "model.hidden_size": self.hidden_size,
        }
        chosen = [f"{name}={value}" for name, value in given.items() if value is not None]
        return override(config, [*chosen, *self.settings])

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def _outputs(self, X: Any) -> Tensor:
        """The model's outputs (n, n_out)."""
        check_is_fitted(self)
        values, lengths = read_sequences(self, X)
        spec = self.model_.data
        for what, found, most in (
            ("channels", values.shape[2], spec.input_size),
            ("steps", values.shape[1], spec.seq_len),
        ):
            if found > most or (what == "channels" and found != most):
                raise ValueError(
                    f"{self._name}: X has sequences of {found} {what}, and the model reads "
                    f"{'at most ' if what == 'steps' else ''}{most}; fit it to such sequences"
                )
        assert spec.scaling is not None
        inputs = apply_scaling(spec.scaling, floats(values))
        ends = None if lengths is None else integers(lengths)
        outputs = self.model_.outputs(Split(inputs, inputs, ends))
        if not bool(outputs.isfinite().all()):
            raise ValueError(
                f"{self._name}: a prediction is not finite; X has values far larger than those of "
                "the training data"
            )
        return outputs

    # Files ---------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to a .safetensors file: numbers and JSON, no code.

        ``torchfru predict`` reads it as well.
        """
        check_is_fitted(self)
        record, plain = self.record_, (str, int, float, bool, type(None))
        params: dict[str, Any] = {"settings": list(self.settings)}
        params |= {k: v for k, v in self.get_params().items() if isinstance(v, plain)}
        checkpoint = Checkpoint(
            weights=self.model_.model.state_dict(),
            optimizer={},
            config=record.config,
            seed=record.seed,
            step=0,
            epochs=record.epochs,
            data=self.model_.data.to_dict(),
            measurements={**record.measurements, "estimator": {"params": params} | self._fitted()},
        )
        write_atomically(_safetensors(path), checkpoint.to_bytes())

    @classmethod
    def load(cls: type[E], path: str | Path) -> E:
        """The estimator that :meth:`save` wrote."""
        path = _safetensors(path)
        checkpoint = Checkpoint.load(path)
        stored = checkpoint.measurements.get("estimator")
        if not isinstance(stored, dict) or stored.get("kind") != cls.__name__:
            raise ValueError(
                f"{path} is not a saved {cls.__name__}; read a run with torchfru predict"
            )
        estimator = cls()
        estimator.model_ = trained_from(checkpoint, path)
        try:
            known = estimator.get_params()
            estimator.set_params(**{k: v for k, v in stored["params"].items() if k in known})
            estimator._restore(stored)
        except (KeyError, TypeError, AttributeError, ValueError):
            raise ValueError(f"{path} is damaged: it does not describe a {cls.__name__}") from None
        size = estimator.model_.model.count_parameters()
        names = ("sequences", estimator.model_.model.kind, checkpoint.seed)
        estimator.record_ = RunResult(*names, checkpoint.config, size, "finished")
        estimator.record_.epochs = checkpoint.epochs
        estimator.record_.measurements = checkpoint.measurements
        return estimator

    def _fitted(self) -> dict[str, Any]:
        """The attributes beside the model that a file has to hold."""
        return {"kind": self._name, "ragged": self.ragged_, "steps": self.n_features_in_}

    def _restore(self, stored: dict[str, Any]) -> None:
        self.ragged_, self.n_features_in_ = bool(stored["ragged"]), int(stored["steps"])


class FRUClassifier(ClassifierMixin, SequenceEstimator):
    __doc__ = f"""Classify sequences with a Fourier Recurrent Unit.

    X is an array (n, steps) or (n, steps, channels), a DataFrame with a sequence per row, or a list
    of arrays of different lengths; y has a label for each. Inputs are scaled by the training data.

    {_shared(SequenceEstimator)}
        classes_: the labels, sorted.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> t = np.arange(30)
    >>> y = np.array(["slow", "fast"] * 20)
    >>> X = np.sin(np.where(y == "slow", 0.2, 0.8)[:, None] * t + rng.uniform(0, 6, (40, 1)))
    >>> model = FRUClassifier(max_steps=60, random_state=0).fit(X[:30], y[:30])
    >>> model.score(X[30:], y[30:])
    1.0
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    """

    task: Task = "classify"
    classes_: Array

    def _read_targets(self, y: Any) -> tuple[Tensor, dict[str, Any]]:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{self._name}: y has 1 class, {self.classes_[0]!r}; to classify takes at least 2"
            )
        names = tuple(map(str, self.classes_.tolist()))
        return integers(codes), {"output_size": len(names), "classes": names}

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, (n, classes), in the order of ``classes_``."""
        return self._outputs(X).double().softmax(-1).numpy()

    def predict(self, X: Any) -> Array:
        """The most probable class of each sequence."""
        best = self._outputs(X).argmax(-1).numpy()
        return self.classes_[best]

    def _fitted(self) -> dict[str, Any]:
        labels = {"classes": self.classes_.tolist(), "dtype": self.classes_.dtype.str}
        return super()._fitted() | labels

    def _restore(self, stored: dict[str, Any]) -> None:
        super()._restore(stored)
        self.classes_ = np.array(stored["classes"], dtype=np.dtype(stored["dtype"]))
        if self.classes_.shape != (self.model_.data.output_size,):
            raise KeyError("classes")


class FRURegressor(RegressorMixin, SequenceEstimator):
    __doc__ = f"""Predict a number, or several, from a sequence with a Fourier Recurrent Unit.

    X is as for :class:`FRUClassifier`; y is (n,) or (n, outputs). X and y are scaled by the
    training data, and predictions are in the units of y.

    {_shared(SequenceEstimator)}

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 20))
    >>> y = 100 + 10 * X.mean(1)
    >>> model = FRURegressor(max_steps=100, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.5)
    True
    """

    task: Task = "regress"
    flat_: bool

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _read_targets(self, y: Any) -> tuple[Tensor, dict[str, Any]]:
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", estimator=self)
        self.flat_ = y.ndim == 1
        y = y.reshape(len(y), -1)
        return floats(y), {"output_size": y.shape[1]}

    def predict(self, X: Any) -> Array:
        """The value of each sequence, (n,) or (n, outputs) as y was."""
        output, scaling = self._outputs(X), self.model_.data.output_scaling
        assert scaling is not None
        values = output.double().numpy() * scaling.std + scaling.mean
        return values[:, 0] if self.flat_ else values

    def _fitted(self) -> dict[str, Any]:
        return super()._fitted() | {"flat": self.flat_}

    def _restore(self, stored: dict[str, Any]) -> None:
        super()._restore(stored)
        self.flat_ = bool(stored["flat"])


def _safetensors(path: str | Path) -> Path:
    path = Path(path).expanduser()
    if path.suffix != ".safetensors":
        raise ValueError(f"{path}: an estimator's file ends in .safetensors")
    return path

"""Another batch size for a script that stays as it is: every batch that would hold ``old`` samples holds ``new``.

``Dataset.batch`` and its kin, ``fit(batch_size=...)`` (Keras makes batches of 32 where nothing is said) and Keras'
loaders of folders, which call the first. Batches of another size, for validation say, are left alone. Data with too few
samples is repeated, as often as some steps at that size take. Whether it has worked is seen from the steps.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import wrapt

from slowtrain.capture.patching import on_import
from slowtrain.capture.recorder import Recorder

METHODS = ("batch", "padded_batch", "ragged_batch")
KERAS_BATCH = 32  # https://keras.io/api/models/model_training_apis/#fit-method
ENOUGH_STEPS = 8  # full batches that the data should give


class Rebatch:
    """Installs itself through import hooks. ``changed`` counts the calls that were given the new size."""

    def __init__(self, recorder: Recorder, old: int, new: int) -> None:
        self.recorder = recorder
        self.old = old
        self.new = new
        self.changed = 0

    def install(self) -> None:
        on_import(self.recorder, "tensorflow.python.data.ops.dataset_ops", self._patch_datasets)
        for module, owner in (
            ("keras.src.backend.tensorflow.trainer", "TensorFlowTrainer"),
            ("keras.src.backend.jax.trainer", "JAXTrainer"),
            ("keras.src.engine.training", "Model"),
            ("tf_keras.src.engine.training", "Model"),
        ):
            on_import(self.recorder, module, lambda m, owner=owner: self._patch_fit(getattr(m, owner)))  # type: ignore[misc]

    def _patch_datasets(self, module: Any) -> None:
        for name in METHODS:
            if hasattr(module.DatasetV2, name):
                wrapt.wrap_function_wrapper(module.DatasetV2, name, self._batched)

    def _batched(self, original: Callable[..., Any], dataset: Any, args: Any, kwargs: Any) -> Any:
        given = args[0] if args else kwargs.get("batch_size")
        if not self._is_old(given):
            return original(*args, **kwargs)
        self.changed += 1
        args, kwargs = ((self.new, *args[1:]), kwargs) if args else ((), {**kwargs, "batch_size": self.new})
        times = self._times(dataset)
        # The method of the repeated data set, so that the class's own version of it is called.
        return getattr(dataset.repeat(times), original.__name__)(*args, **kwargs) if times > 1 else original(
            *args, **kwargs
        )  # fmt: skip

    def _times(self, dataset: Any) -> int:
        """How often the data must be gone through for enough full batches; 1 where its length is not known."""
        count = self.recorder.guard("rebatch", lambda: int(dataset.cardinality().numpy())) or 0
        return -(-self.new * ENOUGH_STEPS // count) if count > 0 else 1

    def _patch_fit(self, trainer: type) -> None:
        wrapt.wrap_function_wrapper(trainer, "fit", self._fitted)

    def _fitted(self, original: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        try:
            bound = inspect.signature(original).bind(*args, **kwargs)
        except TypeError:
            return original(*args, **kwargs)  # which raises it where the user sees why
        given = bound.arguments
        x = given.get("x")
        if _whole(x) and self._is_old(given.get("batch_size") or KERAS_BATCH):
            self.changed += 1
            given["batch_size"] = self.new
            self.recorder.guard("rebatch", self._lengthen, given)
        return original(*bound.args, **bound.kwargs)

    def _lengthen(self, given: dict[str, Any]) -> None:
        """Arrays in memory, repeated so that one batch is full; more would only take the memory that is measured."""
        import numpy as np

        count = _length(given["x"])
        if not count or count >= self.new or given.get("validation_split"):
            return
        times = -(-self.new // count)

        def longer(value: Any) -> Any:
            if isinstance(value, dict):
                return {k: longer(v) for k, v in value.items()}
            if isinstance(value, (list, tuple)):
                return type(value)(longer(v) for v in value)
            return None if value is None else np.concatenate([np.asarray(value)] * times)

        given.update({name: longer(given[name]) for name in ("x", "y", "sample_weight") if name in given})

    def _is_old(self, given: Any) -> bool:
        try:
            return int(given) == self.old
        except (TypeError, ValueError):
            return False  # a symbolic tensor, or nothing


def _whole(x: Any) -> bool:
    """Whether these are arrays, of which fit makes the batches."""
    first = x
    while isinstance(first, (list, tuple, dict)) and first:
        first = next(iter(first.values())) if isinstance(first, dict) else first[0]
    return hasattr(first, "shape") and hasattr(first, "__getitem__") and hasattr(first, "dtype")


def _length(x: Any) -> int:
    while isinstance(x, (list, tuple, dict)) and x:
        x = next(iter(x.values())) if isinstance(x, dict) else x[0]
    return int(x.shape[0]) if len(getattr(x, "shape", ())) else 0

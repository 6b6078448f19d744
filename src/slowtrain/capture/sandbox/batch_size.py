"""Changes the batch size of a script without editing it: batches of ``old`` samples get ``new`` samples.

This covers ``Dataset.batch`` and similar methods, ``fit(batch_size=...)`` (Keras' default is 32), and Keras' loaders
of folders, which call the first. Batches of another size, for example for validation, stay unchanged. Data with too
few samples is repeated, so that there are some steps at the new size. The steps show whether the change had an effect.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import wrapt

from slowtrain.capture.core.patching import patch_on_import
from slowtrain.capture.core.recorder import Recorder

BATCH_METHODS = ("batch", "padded_batch", "ragged_batch")
KERAS_BATCH = 32  # https://keras.io/api/models/model_training_apis/#fit-method
MIN_FULL_BATCHES = 8  # full batches that the data has to give


class BatchSizeChange:
    """Installs itself through import hooks. ``changed`` counts the calls that were given the new size."""

    def __init__(self, recorder: Recorder, old: int, new: int) -> None:
        self.recorder = recorder
        self.old = old
        self.new = new
        self.changed = 0

    def install(self) -> None:
        patch_on_import(self.recorder, "tensorflow.python.data.ops.dataset_ops", self._patch_datasets)
        for module, owner in (
            ("keras.src.backend.tensorflow.trainer", "TensorFlowTrainer"),
            ("keras.src.backend.jax.trainer", "JAXTrainer"),
            ("keras.src.engine.training", "Model"),
            ("tf_keras.src.engine.training", "Model"),
        ):
            patch_on_import(self.recorder, module, lambda m, owner=owner: self._patch_fit(getattr(m, owner)))  # type: ignore[misc]

    def _patch_datasets(self, module: Any) -> None:
        for name in BATCH_METHODS:
            if hasattr(module.DatasetV2, name):
                wrapt.wrap_function_wrapper(module.DatasetV2, name, self._batch_with_new_size)

    def _batch_with_new_size(self, original: Callable[..., Any], dataset: Any, args: Any, kwargs: Any) -> Any:
        size = args[0] if args else kwargs.get("batch_size")
        if not self._is_old(size):
            return original(*args, **kwargs)
        self.changed += 1
        args, kwargs = ((self.new, *args[1:]), kwargs) if args else ((), {**kwargs, "batch_size": self.new})
        times = self._times(dataset)
        # The method of the repeated data set, so that the class's own version is called.
        return getattr(dataset.repeat(times), original.__name__)(*args, **kwargs) if times > 1 else original(
            *args, **kwargs
        )  # fmt: skip

    def _times(self, dataset: Any) -> int:
        """Returns how often to repeat the data for enough full batches; 1 if its length is not known."""
        count = self.recorder.guard("rebatch", lambda: int(dataset.cardinality().numpy())) or 0
        return -(-self.new * MIN_FULL_BATCHES // count) if count > 0 else 1

    def _patch_fit(self, trainer: type) -> None:
        wrapt.wrap_function_wrapper(trainer, "fit", self._fit_with_new_size)

    def _fit_with_new_size(self, original: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        try:
            bound = inspect.signature(original).bind(*args, **kwargs)
        except TypeError:
            return original(*args, **kwargs)  # which raises the error where the user sees it
        arguments = bound.arguments
        x = arguments.get("x")
        if _is_array_data(x) and self._is_old(arguments.get("batch_size") or KERAS_BATCH):
            self.changed += 1
            arguments["batch_size"] = self.new
            self.recorder.guard("rebatch", self._lengthen, arguments)
        return original(*bound.args, **bound.kwargs)

    def _lengthen(self, arguments: dict[str, Any]) -> None:
        """Repeats arrays in memory so that one batch is full. More would use the memory that is measured."""
        import numpy as np

        count = _sample_count(arguments["x"])
        if not count or count >= self.new or arguments.get("validation_split"):
            return
        times = -(-self.new // count)

        def longer(value: Any) -> Any:
            if isinstance(value, dict):
                return {k: longer(v) for k, v in value.items()}
            if isinstance(value, (list, tuple)):
                return type(value)(longer(v) for v in value)
            return None if value is None else np.concatenate([np.asarray(value)] * times)

        arguments.update({name: longer(arguments[name]) for name in ("x", "y", "sample_weight") if name in arguments})

    def _is_old(self, size: Any) -> bool:
        try:
            return int(size) == self.old
        except (TypeError, ValueError):
            return False  # a symbolic tensor, or None


def _is_array_data(x: Any) -> bool:
    """Returns whether ``x`` consists of arrays, from which fit makes the batches."""
    first = x
    while isinstance(first, (list, tuple, dict)) and first:
        first = next(iter(first.values())) if isinstance(first, dict) else first[0]
    return hasattr(first, "shape") and hasattr(first, "__getitem__") and hasattr(first, "dtype")


def _sample_count(x: Any) -> int:
    while isinstance(x, (list, tuple, dict)) and x:
        x = next(iter(x.values())) if isinstance(x, dict) else x[0]
    return int(x.shape[0]) if len(getattr(x, "shape", ())) else 0

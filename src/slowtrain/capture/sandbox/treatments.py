"""Cures that need no edit: the framework gets another argument while the script runs as it is written.

Each is named after its effect; causes name them in their prescriptions. A treatment has the same effect as the edit,
so that a cure can be proven where a machine cannot change the source.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

import wrapt

from slowtrain.capture.core.patching import patch_on_import
from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.inspection import user_code

DATASET_MODULE = "tensorflow.python.data.ops.dataset_ops"
COMPILE_OWNERS = (
    ("keras.src.trainers.trainer", "Trainer"),
    ("keras.src.engine.training", "Model"),
    ("tf_keras.src.engine.training", "Model"),
)
FIT_OWNERS = (("keras.src.backend.tensorflow.trainer", "TensorFlowTrainer"), *COMPILE_OWNERS[1:])
MAX_STEPS_PER_EXECUTION = 50  # steps in one call, as in the prescription
AUTOTUNE = -1  # tf.data.AUTOTUNE
READY_NODES = ("Prefetch", "Options")  # last nodes of a pipeline after which another prefetch has no effect

OriginalFunction = Callable[..., Any]


def add_prefetch(recorder: Recorder) -> None:
    """Ends every data set that is iterated with a prefetch."""

    def iterate_prefetched(original: OriginalFunction, dataset: Any, args: Any, kwargs: Any) -> Any:
        if type(dataset).__name__.lstrip("_").startswith(READY_NODES):
            return original(*args, **kwargs)
        return iter(dataset.prefetch(AUTOTUNE))

    wrap_on_import(recorder, DATASET_MODULE, "DatasetV2.__iter__", iterate_prefetched)


def parallelise_maps(recorder: Recorder) -> None:
    """Lets ``map`` process several elements at once if no number is given. Their order stays."""

    def map_in_parallel(original: OriginalFunction, _dataset: Any, args: Any, kwargs: Any) -> Any:
        arguments = inspect.signature(original).bind(*args, **kwargs).arguments
        if arguments.get("num_parallel_calls") is None:
            arguments["num_parallel_calls"] = AUTOTUNE
        return original(**arguments)

    wrap_on_import(recorder, DATASET_MODULE, "DatasetV2.map", map_in_parallel)


def cache_map(recorder: Recorder, at: str) -> None:
    """Caches in memory the output of the ``map`` at a line (``FILE:LINE``), for the passes after the first.

    Nothing outside the script shows whether that is right. So only a line that was judged, or given by hand, is
    cached.
    """
    file, _, line = at.rpartition(":")
    wanted = os.path.realpath(file), int(line)

    def map_and_cache(original: OriginalFunction, _dataset: Any, args: Any, kwargs: Any) -> Any:
        mapped, place = original(*args, **kwargs), user_code.user_place(sys._getframe(1))
        if place is None or place[1] != wanted[1] or os.path.realpath(place[0]) != wanted[0]:
            return mapped
        if not sys.modules["tensorflow"].executing_eagerly():
            return mapped  # in the function of an interleave each call would make a cache that is never read again
        recorder.fact(f"treated cache@{at}", value=True)
        return mapped.cache()

    wrap_on_import(recorder, DATASET_MODULE, "DatasetV2.map", map_and_cache)


def ignore_run_eagerly(recorder: Recorder) -> None:
    """Ignores ``run_eagerly`` and ``run_functions_eagerly``."""
    _override_compile(recorder, run_eagerly=False)

    def run_as_graphs(original: OriginalFunction, _module: Any, _args: Any, _kwargs: Any) -> Any:
        return original(False)

    wrap_on_import(recorder, "tensorflow", "config.run_functions_eagerly", run_as_graphs)


def set_steps_per_execution(recorder: Recorder) -> None:
    """Gives ``steps_per_execution`` to ``compile``. For a ``fit`` with given steps, a divisor of their number."""
    _override_compile(recorder, steps_per_execution=MAX_STEPS_PER_EXECUTION)

    def fit_with_executions(original: OriginalFunction, model: Any, args: Any, kwargs: Any) -> Any:
        epoch_steps = inspect.signature(original).bind_partial(*args, **kwargs).arguments.get("steps_per_epoch")
        # Whole calls only: otherwise it would take more steps than given, which is a different training.
        even = (n for n in range(MAX_STEPS_PER_EXECUTION, 0, -1) if not epoch_steps or epoch_steps % n == 0)
        together, known = next(even, 1), getattr(model, "_steps_per_execution", None)
        if known is not None and hasattr(known, "assign"):  # Keras 2
            known.assign(together)
        elif getattr(model, "steps_per_execution", together) != together:
            model.steps_per_execution, model.train_function = together, None
        return original(*args, **kwargs)

    for module, owner in FIT_OWNERS:
        wrap_on_import(recorder, module, f"{owner}.fit", fit_with_executions)


def enable_xla(recorder: Recorder) -> None:
    """Gives ``jit_compile=True`` to ``compile``."""
    _override_compile(recorder, jit_compile=True)


def ignore_thread_limits(recorder: Recorder) -> None:
    """Lets TensorFlow choose its number of threads, whatever number the script gives."""

    def set_no_limit(original: OriginalFunction, _module: Any, _args: Any, _kwargs: Any) -> Any:
        return original(0)

    for kind in ("intra", "inter"):
        wrap_on_import(recorder, "tensorflow", f"config.threading.set_{kind}_op_parallelism_threads", set_no_limit)


def enable_mixed_precision(recorder: Recorder) -> None:
    """Sets Keras' policy to ``mixed_float16`` at the start."""
    patch_on_import(recorder, "keras", lambda keras: keras.mixed_precision.set_global_policy("mixed_float16"))


def _override_compile(recorder: Recorder, **changed: Any) -> None:
    def compile_overridden(original: OriginalFunction, _model: Any, args: Any, kwargs: Any) -> Any:
        bound = inspect.signature(original).bind_partial(*args, **kwargs)
        bound.apply_defaults()
        for name in [n for n, p in inspect.signature(original).parameters.items() if p.kind is p.VAR_KEYWORD]:
            kwargs = bound.arguments.pop(name, {})
            bound.arguments |= kwargs
        return original(**bound.arguments | changed)

    for module, owner in COMPILE_OWNERS:
        wrap_on_import(recorder, module, f"{owner}.compile", compile_overridden)


def wrap_on_import(recorder: Recorder, module: str, path: str, wrapper: Callable[..., Any]) -> None:
    def patch(loaded: Any) -> None:
        wrapt.wrap_function_wrapper(loaded, path, wrapper)

    patch_on_import(recorder, module, patch)


TREATMENTS: dict[str, Callable[[Recorder], None]] = {
    "prefetch": add_prefetch,
    "parallel-map": parallelise_maps,
    "no-eager": ignore_run_eagerly,
    "several-steps": set_steps_per_execution,
    "xla": enable_xla,
    "all-threads": ignore_thread_limits,
    "mixed-precision": enable_mixed_precision,
}
"""By the name that ``slowtrain verify --treat`` and prescriptions use."""
PLACED_TREATMENTS: dict[str, Callable[[Recorder, str], None]] = {"cache": cache_map}
"""Those of one line, which stands behind their name: ``cache@train.py:12``."""


def install_treatments(recorder: Recorder, names: list[str]) -> None:
    for one in names:
        name, _, at = one.partition("@")
        if at:
            PLACED_TREATMENTS[name](recorder, at)
        else:
            TREATMENTS[name](recorder)

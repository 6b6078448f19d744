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

from slowtrain.capture import frames
from slowtrain.capture.patching import on_import
from slowtrain.capture.recorder import Recorder

DATASETS = "tensorflow.python.data.ops.dataset_ops"
COMPILED = (
    ("keras.src.trainers.trainer", "Trainer"),
    ("keras.src.engine.training", "Model"),
    ("tf_keras.src.engine.training", "Model"),
)
FITTED = (("keras.src.backend.tensorflow.trainer", "TensorFlowTrainer"), *COMPILED[1:])
EXECUTIONS = 50  # steps in one call, as in the prescription
AUTOTUNE = -1  # tf.data.AUTOTUNE
READY = ("Prefetch", "Options")  # last nodes of a pipeline after which another prefetch has no effect

Original = Callable[..., Any]


def prefetch(recorder: Recorder) -> None:
    """Ends every data set that is iterated with a prefetch."""

    def iterate_prefetched(original: Original, dataset: Any, args: Any, kwargs: Any) -> Any:
        if type(dataset).__name__.lstrip("_").startswith(READY):
            return original(*args, **kwargs)
        return iter(dataset.prefetch(AUTOTUNE))

    _wrap(recorder, DATASETS, "DatasetV2.__iter__", iterate_prefetched)


def parallel_map(recorder: Recorder) -> None:
    """Lets ``map`` process several elements at once if no number is given. Their order stays."""

    def map_in_parallel(original: Original, _dataset: Any, args: Any, kwargs: Any) -> Any:
        given = inspect.signature(original).bind(*args, **kwargs).arguments
        if given.get("num_parallel_calls") is None:
            given["num_parallel_calls"] = AUTOTUNE
        return original(**given)

    _wrap(recorder, DATASETS, "DatasetV2.map", map_in_parallel)


def cache(recorder: Recorder, at: str) -> None:
    """Caches in memory the output of the ``map`` at a line (``FILE:LINE``), for the passes after the first.

    Nothing outside the script shows whether that is right. So only a line that was judged, or given by hand, is
    cached.
    """
    file, _, line = at.rpartition(":")
    wanted = os.path.realpath(file), int(line)

    def map_and_cache(original: Original, _dataset: Any, args: Any, kwargs: Any) -> Any:
        made, place = original(*args, **kwargs), frames.place(sys._getframe(1))
        if place is None or place[1] != wanted[1] or os.path.realpath(place[0]) != wanted[0]:
            return made
        if not sys.modules["tensorflow"].executing_eagerly():
            return made  # in the function of an interleave each call would make a cache that is never read again
        recorder.fact(f"treated cache@{at}", value=True)
        return made.cache()

    _wrap(recorder, DATASETS, "DatasetV2.map", map_and_cache)


def no_eager(recorder: Recorder) -> None:
    """Ignores ``run_eagerly`` and ``run_functions_eagerly``."""
    _compile_with(recorder, run_eagerly=False)

    def run_as_graphs(original: Original, _module: Any, _args: Any, _kwargs: Any) -> Any:
        return original(False)

    _wrap(recorder, "tensorflow", "config.run_functions_eagerly", run_as_graphs)


def several_steps(recorder: Recorder) -> None:
    """Gives ``steps_per_execution`` to ``compile``. For a ``fit`` with given steps, a divisor of their number."""
    _compile_with(recorder, steps_per_execution=EXECUTIONS)

    def fit_with_executions(original: Original, model: Any, args: Any, kwargs: Any) -> Any:
        told = inspect.signature(original).bind_partial(*args, **kwargs).arguments.get("steps_per_epoch")
        # Whole calls only: otherwise it would take more steps than given, which is a different training.
        even = (n for n in range(EXECUTIONS, 0, -1) if not told or told % n == 0)
        together, known = next(even, 1), getattr(model, "_steps_per_execution", None)
        if known is not None and hasattr(known, "assign"):  # Keras 2
            known.assign(together)
        elif getattr(model, "steps_per_execution", together) != together:
            model.steps_per_execution, model.train_function = together, None
        return original(*args, **kwargs)

    for module, owner in FITTED:
        _wrap(recorder, module, f"{owner}.fit", fit_with_executions)


def xla(recorder: Recorder) -> None:
    """Gives ``jit_compile=True`` to ``compile``."""
    _compile_with(recorder, jit_compile=True)


def all_threads(recorder: Recorder) -> None:
    """Lets TensorFlow choose its number of threads, whatever number the script gives."""

    def set_no_limit(original: Original, _module: Any, _args: Any, _kwargs: Any) -> Any:
        return original(0)

    for kind in ("intra", "inter"):
        _wrap(recorder, "tensorflow", f"config.threading.set_{kind}_op_parallelism_threads", set_no_limit)


def mixed_precision(recorder: Recorder) -> None:
    """Sets Keras' policy to ``mixed_float16`` at the start."""
    on_import(recorder, "keras", lambda keras: keras.mixed_precision.set_global_policy("mixed_float16"))


def _compile_with(recorder: Recorder, **changed: Any) -> None:
    def compile_overridden(original: Original, _model: Any, args: Any, kwargs: Any) -> Any:
        given = inspect.signature(original).bind_partial(*args, **kwargs)
        given.apply_defaults()
        for name in [n for n, p in inspect.signature(original).parameters.items() if p.kind is p.VAR_KEYWORD]:
            kwargs = given.arguments.pop(name, {})
            given.arguments |= kwargs
        return original(**given.arguments | changed)

    for module, owner in COMPILED:
        _wrap(recorder, module, f"{owner}.compile", compile_overridden)


def _wrap(recorder: Recorder, module: str, path: str, wrapper: Callable[..., Any]) -> None:
    def patch(loaded: Any) -> None:
        wrapt.wrap_function_wrapper(loaded, path, wrapper)

    on_import(recorder, module, patch)


TREATMENTS: dict[str, Callable[[Recorder], None]] = {
    "prefetch": prefetch,
    "parallel-map": parallel_map,
    "no-eager": no_eager,
    "several-steps": several_steps,
    "xla": xla,
    "all-threads": all_threads,
    "mixed-precision": mixed_precision,
}
"""By the name that ``slowtrain verify --treat`` and prescriptions use."""
PLACED: dict[str, Callable[[Recorder, str], None]] = {"cache": cache}
"""Those of one line, which stands behind their name: ``cache@train.py:12``."""


def install(recorder: Recorder, names: list[str]) -> None:
    for one in names:
        name, _, at = one.partition("@")
        if at:
            PLACED[name](recorder, at)
        else:
            TREATMENTS[name](recorder)

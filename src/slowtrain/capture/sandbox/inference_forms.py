"""Measures a trained model in forms that are made for inference: quantised, pruned, exported to LiteRT.

NumPy is imported where it is used, because the probe's files are redirected before it is imported.

A probe takes a few steps, then makes the forms from the model as it is, and times one batch through each in turn.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Progress
from slowtrain.capture.sandbox import model_changes

STEPS_BEFORE = 3  # steps taken before the forms are made, so that the model is built and has statistics
BATCH = 32  # inputs that are timed together
TURNS = 15  # of all forms, one after the other
WARM_CALLS = 2
MAX_TURN_S = 20.0  # of all turns; then the number of turns is what was reached
MIN_TURNS = 5
QUANTISED_MODES = ("int8", "int4")

Predict = Callable[[Any], Any]
Form = tuple[int, Predict, float | None]  # bytes of weights, call, share of the parameters that can be trained


class InferenceForms:
    """Ends the process through ``leave`` after the forms are measured."""

    def __init__(self, recorder: Recorder, progress: Progress, leave: Callable[[], None]) -> None:
        self.recorder = recorder
        self.progress = progress
        self.leave = leave

    def install(self) -> None:
        self.progress.boundary = self._at_boundary

    def _at_boundary(self, steps: int) -> None:
        if steps <= STEPS_BEFORE or threading.current_thread() is not threading.main_thread():
            return
        rows = self.recorder.guard("inference", measure_forms) or []
        self.recorder.fact("inference", rows)
        self.recorder.fact("stopped_ns", now())
        self.recorder.halt()
        self.leave()


def measure_forms() -> list[dict[str, Any]]:
    """Returns a row for each form: ``form``, ``bytes`` of weights, ``ms`` of a batch in each turn, ``difference`` of
    its outputs from the model's as a share of their spread, and the share of its parameters that is ``trainable``; or
    ``form`` and ``failed``.
    """
    import numpy as np

    model = model_changes.largest_model()
    if model is None:
        return []
    batch = _random_batch(model)
    rows: list[dict[str, Any]] = []
    calls: list[Predict] = []
    for form, make in _forms(model):
        try:
            size, predict, trainable = make()
            outputs = np.asarray(predict(batch))
            for _ in range(WARM_CALLS):
                predict(batch)
        except Exception as error:  # a form that this model cannot take is a row of the answer
            rows.append({"form": form, "failed": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"})
            continue
        rows.append({"form": form, "bytes": size, "trainable": trainable, "ms": [], "outputs": outputs})
        calls.append(predict)
    timed = [row for row in rows if "ms" in row]
    end = time.monotonic() + MAX_TURN_S
    for turn in range(TURNS):
        if turn >= MIN_TURNS and time.monotonic() > end:
            break
        for row, predict in zip(timed, calls, strict=True):
            begun = time.perf_counter_ns()
            predict(batch)
            row["ms"].append((time.perf_counter_ns() - begun) / 1e6)
    results = [row.pop("outputs") for row in timed]
    for row, mine in zip(timed, results, strict=True):
        row["difference"] = float(np.mean(np.abs(mine - results[0]))) / (float(np.std(results[0])) or 1.0)
    return rows


def _forms(model: Any) -> Iterator[tuple[str, Callable[[], Form]]]:
    """Yields the name of each form, and a function that makes it: its bytes and its call."""
    yield "as it is", lambda: _keras_form(model)
    for mode in QUANTISED_MODES:
        yield mode, functools.partial(_quantised_form, model, mode)
    yield "half pruned", lambda: _pruned_form(model)
    yield "LiteRT", lambda: _exported_form(model)


def _keras_form(model: Any) -> Form:
    import numpy as np

    whole = sum(int(np.prod(one.shape)) for one in model.variables)
    trained = sum(int(np.prod(one.shape)) for one in model.trainable_variables)
    return _weight_bytes(model), _compiled_call(model), trained / whole if whole else 0.0


def _compiled_call(model: Any) -> Predict:
    call = sys.modules["tensorflow"].function(lambda batch: model(batch, training=False), reduce_retracing=True)
    return lambda batch: call(batch).numpy()


def _copy(model: Any) -> Any:
    copy = sys.modules["keras"].models.clone_model(model)
    copy.set_weights(model.get_weights())
    return copy


def _quantised_form(model: Any, mode: str) -> Form:
    copy = _copy(model)
    copy.quantize(mode)
    return _keras_form(copy)


def _pruned_form(model: Any) -> Form:
    copy = _copy(model)
    for variable in copy.trainable_variables:
        if len(variable.shape) > 1:
            variable.assign(variable * model_changes.kept_weights(variable))
    return _keras_form(copy)


def _exported_form(model: Any) -> Form:
    lite = sys.modules["tensorflow"].lite
    converter = lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [lite.Optimize.DEFAULT]
    content = converter.convert()
    interpreter = lite.Interpreter(model_content=content)
    about = interpreter.get_input_details()[0]

    def predict(batch: Any) -> Any:
        if tuple(interpreter.get_input_details()[0]["shape"]) != tuple(batch.shape):
            interpreter.resize_tensor_input(about["index"], batch.shape)
            interpreter.allocate_tensors()
        interpreter.set_tensor(about["index"], batch.numpy())
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

    return len(content), predict, None


def _weight_bytes(model: Any) -> int:
    import numpy as np

    return sum(int(np.prod(one.shape)) * np.dtype(_stored_type(one)).itemsize for one in model.variables)


def _stored_type(variable: Any) -> str:
    name = str(variable.dtype)
    return {"bfloat16": "float16"}.get(name, name)


def _random_batch(model: Any) -> Any:
    """Returns a batch of the model's only input, normal numbers or small whole ones by its type."""
    import numpy as np

    tensorflow = sys.modules["tensorflow"]
    if len(model.inputs) != 1:
        raise ValueError(f"the model has {len(model.inputs)} inputs")
    shape = [BATCH if n is None else int(n) for n in model.inputs[0].shape]
    kind = tensorflow.as_dtype(model.inputs[0].dtype)
    random = np.random.default_rng(0)
    values = random.standard_normal(shape) if kind.is_floating else random.integers(0, 2, shape)
    return tensorflow.constant(values, kind)

"""Measures a trained model in forms that are made for inference: quantised, pruned, exported to LiteRT.

NumPy is imported where it is used, because the probe's files are redirected before it is imported.

A probe takes a few steps, then makes the forms from the model as it is, and times one batch through each in turn. The
batch is one that ``fit`` got, if that is known.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Progress
from slowtrain.capture.sandbox import model_changes, model_layers
from slowtrain.capture.sandbox.treatments import FIT_OWNERS, OriginalFunction, wrap_on_import

STEPS_BEFORE = 3  # steps taken before the forms are made, so that the model is built and has statistics
BATCH = 32  # inputs that are timed together
TURNS = 15  # of all forms, one after the other
WARM_CALLS = 2
MAX_TURN_S = 20.0  # of all turns; then the number of turns is what was reached
MIN_TURNS = 5
QUANTISED_MODES = ("int8", "int4")
CALIBRATION_INPUTS = 128  # that GPTQ and AWQ see, as is Keras's default
CALIBRATION_BATCH = 8
CALIBRATED_MODES = {"gptq": "GPTQConfig", "awq": "AWQConfig"}
# By class, in Keras's modules of the same mode, the method that rounds a layer after its calibration.
ROUNDING_METHODS = {"gptq": ("GPTQ", "quantize_and_correct_layer"), "awq": ("AWQ", "quantize_layer")}

Predict = Callable[[Any], Any]
Form = tuple[int, Predict, float | None]  # bytes of weights, call, share of the parameters that can be trained


class FormUnavailable(Exception):
    """A form that this model or this version of Keras does not have; the text says why."""


class InferenceForms:
    """Ends the process through ``leave`` after the forms are measured."""

    def __init__(self, recorder: Recorder, progress: Progress, leave: Callable[[], None]) -> None:
        self.recorder = recorder
        self.progress = progress
        self.leave = leave
        self._given: Any = None  # the inputs that fit got

    def install(self) -> None:
        self.progress.boundary = self._at_boundary
        for module, owner in FIT_OWNERS:
            wrap_on_import(self.recorder, module, f"{owner}.fit", self._note_inputs)

    def _note_inputs(self, original: OriginalFunction, _model: Any, args: Any, kwargs: Any) -> Any:
        self._given = inspect.signature(original).bind_partial(*args, **kwargs).arguments.get("x")
        return original(*args, **kwargs)

    def _at_boundary(self, steps: int) -> None:
        if steps <= STEPS_BEFORE or threading.current_thread() is not threading.main_thread():
            return
        rows = self.recorder.guard("inference", measure_forms, self._given) or []
        self.recorder.fact("inference", rows)
        self.recorder.fact("stopped_ns", now())
        self.recorder.halt()
        self.leave()


def measure_forms(given: Any) -> list[dict[str, Any]]:
    """Returns a row for each form: ``form``, ``bytes`` of weights, ``ms`` of a batch in each turn, ``difference`` of
    its outputs from the model's as a share of their spread, the share of its parameters that is ``trainable``, and
    whether its inputs are those ``given`` to ``fit`` (``own_inputs``); or ``form`` and ``failed``.
    """
    import numpy as np

    model = model_layers.largest_model()
    if model is None:
        return []
    try:
        inputs = _known_inputs(model, given)
        batch = _input_batch(model, inputs)
    except FormUnavailable as error:
        return [{"form": "inference", "failed": str(error)}]
    rows: list[dict[str, Any]] = []
    calls: list[Predict] = []
    for form, make in _forms(model, inputs):
        try:
            size, predict, trainable = make()
            outputs = np.asarray(predict(batch))
            for _ in range(WARM_CALLS):
                predict(batch)
        except FormUnavailable as error:
            rows.append({"form": form, "failed": str(error)})
            continue
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
        row["own_inputs"] = inputs is not None
    return rows


def _forms(model: Any, inputs: Any) -> Iterator[tuple[str, Callable[[], Form]]]:
    """Yields the name of each form, and a function that makes it: its bytes and its call."""
    yield "as it is", lambda: _keras_form(model)
    for mode in QUANTISED_MODES:
        yield mode, functools.partial(_quantised_form, model, mode)
    for mode in CALIBRATED_MODES:
        yield mode.upper(), functools.partial(_calibrated_form, model, mode, inputs)
    yield "half pruned", lambda: _pruned_form(model)
    yield "LiteRT", lambda: _exported_form(model)


def _keras_form(model: Any) -> Form:
    import numpy as np

    whole = sum(int(np.prod(one.shape)) for one in model.variables)
    trained = sum(int(np.prod(one.shape)) for one in model.trainable_variables)
    return _weight_bytes(model), _compiled_call(model), trained / whole if whole else 0.0


def _compiled_call(model: Any) -> Predict:
    call = sys.modules["tensorflow"].function(lambda batch: model(batch, training=False), reduce_retracing=True)

    def predict(batch: Any) -> Any:
        outputs = call(batch)
        if not hasattr(outputs, "numpy"):
            raise FormUnavailable("the model has several outputs")
        return outputs.numpy()

    return predict


def _copy(model: Any) -> Any:
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if not kinds & {"Functional", "Sequential"}:
        raise FormUnavailable(
            f"the model is a class of the script's own ({type(model).__name__}): Keras cannot copy it"
        )
    copy = sys.modules["keras"].models.clone_model(model)
    copy.set_weights(model.get_weights())
    return copy


def _quantised_form(model: Any, mode: str) -> Form:
    copy = _copy(model)
    _require_quantisation(copy)
    copy.quantize(mode)
    return _keras_form(copy)


def _require_quantisation(model: Any) -> None:
    if not hasattr(model, "quantize"):
        raise FormUnavailable(f"Keras {sys.modules['keras'].__version__} does not quantise models; it needs Keras 3")


def _calibrated_form(model: Any, mode: str, inputs: Any) -> Form:
    """Rounds the matrices of dense layers by how much each weight does for the script's own inputs."""
    keras = sys.modules["keras"]
    configuration = getattr(getattr(keras, "quantizers", None), CALIBRATED_MODES[mode], None)
    if configuration is None:
        raise FormUnavailable(f"Keras {keras.__version__} does not have it")
    if inputs is None:
        raise FormUnavailable("it needs inputs of the script for its calibration, and fit got none that are arrays")
    copy = _copy(model)
    if not any(type(one).__name__ in model_layers.PRODUCT_CLASSES for one in model_layers.leaf_layers(copy)):
        raise FormUnavailable("the model has no dense layer, and Keras rounds these only")
    _refuse_rounding_without_calibration(mode)
    batches = [inputs[at : at + CALIBRATION_BATCH] for at in range(0, len(inputs), CALIBRATION_BATCH)]
    # Keras expects texts. The tokens that it takes from them are here the numbers of batches.
    structure = {
        "pre_block_layers": [lambda token: sys.modules["tensorflow"].constant(batches[int(token[0][0])])],
        "sequential_blocks": [_WholeModel(copy, inputs.shape[1:])],
    }
    tokens = [[at] for at in range(len(batches))]
    copy.quantize(mode, config=configuration(
        dataset=tokens, tokenizer=len, num_samples=len(batches), sequence_length=1,
        quantization_layer_structure=structure,
    ))  # fmt: skip
    return _keras_form(copy)


class _WholeModel:
    """The model as the one block that Keras calibrates. Keras adds an axis in front of some batches."""

    def __init__(self, model: Any, shape: tuple[int, ...]) -> None:
        self.model = model
        self.shape = shape

    def __call__(self, batch: Any) -> Any:
        return self.model(sys.modules["tensorflow"].reshape(batch, (-1, *self.shape)), training=False)

    def _flatten_layers(self) -> Any:
        return self.model._flatten_layers()


def _refuse_rounding_without_calibration(mode: str) -> None:
    """Lets the rounding of a layer fail if its calibration saw no inputs.

    In Keras 3.15 it never sees any, so that both modes are plain rounding (keras-team/keras, pull request 23512).
    """
    owner, method = ROUNDING_METHODS[mode]
    kind = getattr(importlib.import_module(f"keras.src.quantizers.{mode}"), owner)
    original = getattr(kind, method)

    def round_layer(calibrated: Any, *args: Any, **kwargs: Any) -> Any:
        if not getattr(calibrated, "num_samples", 1):
            version = sys.modules["keras"].__version__
            raise FormUnavailable(f"Keras {version} shows it no inputs, so that it would be plain rounding to 4 bits")
        return original(calibrated, *args, **kwargs)

    setattr(kind, method, round_layer)


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
    name = _type_name(variable)
    return {"bfloat16": "float16"}.get(name, name)


def _type_name(variable: Any) -> str:
    return str(getattr(variable.dtype, "name", variable.dtype))  # in Keras 2 the type is one of TensorFlow's


def _known_inputs(model: Any, given: Any) -> Any:
    """Returns up to ``CALIBRATION_INPUTS`` inputs of those ``given`` to ``fit``, as an array of the model's type.

    None if they are no arrays, or not those of this model.
    """
    import numpy as np

    if sys.modules["keras"].backend.backend() != "tensorflow":
        raise FormUnavailable("is measured with TensorFlow only")
    try:
        batches = list(_given_batches(given, CALIBRATION_INPUTS))
        inputs = np.concatenate(batches)[:CALIBRATION_INPUTS] if batches else None
    except Exception:  # data that no array holds, or that can be read once only
        return None
    expected = getattr(model, "inputs", None)
    if inputs is None or not len(inputs) or expected is None:
        return inputs if inputs is not None and len(inputs) else None
    shape = tuple(expected[0].shape)[1:]
    fits = len(expected) == 1 and len(shape) == inputs.ndim - 1
    fits = fits and all(wanted in (None, own) for wanted, own in zip(shape, inputs.shape[1:], strict=True))
    return inputs.astype(_type_name(expected[0])) if fits else None


def _given_batches(given: Any, count: int) -> Iterator[Any]:
    """Yields batches of inputs, as arrays, until there are ``count`` inputs."""
    import numpy as np

    if hasattr(given, "shape"):
        yield np.asarray(given[:count])
        return
    if isinstance(given, sys.modules["tensorflow"].data.Dataset):
        elements = iter(given)
    elif hasattr(given, "__getitem__") and hasattr(given, "__len__"):  # keras.utils.PyDataset
        elements = (given[at] for at in range(len(given)))
    else:
        return
    for element in elements:
        batch = np.asarray(element[0] if isinstance(element, (tuple, list)) else element)
        yield batch
        count -= len(batch)
        if count <= 0:
            return


def _input_batch(model: Any, inputs: Any) -> Any:
    """Returns a batch of the known inputs; otherwise normal numbers, or small whole ones, by the type of the input."""
    import numpy as np

    tensorflow = sys.modules["tensorflow"]
    if inputs is not None:
        return tensorflow.constant(np.resize(inputs, (BATCH, *inputs.shape[1:])))
    expected = getattr(model, "inputs", None)
    if not expected:
        raise FormUnavailable("the shape of the model's input is not known: fit got no arrays")
    if len(expected) != 1:
        raise FormUnavailable(f"the model has {len(expected)} inputs")
    shape = [BATCH if n is None else int(n) for n in expected[0].shape]
    kind = tensorflow.as_dtype(expected[0].dtype)
    random = np.random.default_rng(0)
    values = random.standard_normal(shape) if kind.is_floating else random.integers(0, 2, shape)
    return tensorflow.constant(values, kind)

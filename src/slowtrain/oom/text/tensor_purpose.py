"""The purpose of a request, from the op's name and the traceback: memory that grows with the batch, or a variable.

Covers Keras 2 and 3, TensorFlow's own optimizers and layers, PyTorch and optax. If neither tells, it is ``UNKNOWN``.
"""

from __future__ import annotations

import re

from slowtrain.model.exhaustion import MemoryRequest, Purpose

_OPTIMIZER = re.compile(rb"[/\\]optim(?:izers?)?[/\\]|[/\\](?:base_)?optimizer(?:_v2)?\.py|[/\\]optax[/\\]")
# These compute the gradients first.
_GRADIENT_FUNCTIONS = {b"minimize", b"compute_gradients", b"_compute_gradients", b"get_gradients"}
_INITIALIZER = re.compile(rb"[/\\]initializers?(?:[/\\]|_v\d)|[/\\]init_ops(?:_v2)?\.py")
_VARIABLE_FUNCTIONS = {
    b"build", b"build_wrapper", b"add_weight", b"add_variable", b"_init_from_args", b"load_weights", b"set_weights",
    b"batch_set_value", b"load_own_variables", b"load_model",
}  # fmt: skip
_CONSTANT = re.compile(r"_EagerConst\Z|(?:.*/)?Const(?:_\d+)?\Z")
_STEP_FUNCTIONS = {
    b"fit", b"train_on_batch", b"train_step", b"test_step", b"predict", b"predict_step", b"evaluate", b"call",
    b"_call_impl", b"backward", b"gradient",
}  # fmt: skip
# An optimizer's name is the scope of its ops: adam in Keras 3, Adam in Keras 2 and TensorFlow 1.
_OPTIMIZER_SCOPES = {
    "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "ftrl", "gradientdescent", "lamb", "lion", "muon",
    "nadam", "rmsprop", "sgd",
}  # fmt: skip
_NUMBER_SUFFIX = re.compile(r"_\d+\Z")
_UPDATE_OP = re.compile(
    r"Resource(?:Sparse)?Apply|(?:Sparse)?Apply(?:Ada|Ftrl|Gradient|Momentum|RMSProp)|Assign\w*Op\Z"
)
_SPARSE_GRADIENT_OP = re.compile(r"Unsorted|Unique|Gather")  # of a sparse gradient, whose number depends on the batch
# A gradient of a weight or of an activation.
_GRADIENT_OP = re.compile(r"MatMul(?:_\d+)?\Z|BackpropFilter")


def request_purpose(request: MemoryRequest) -> Purpose:
    """Decided by the op if its name is clear, else by the traceback."""
    if is_constant(request):
        return Purpose.VARIABLE if request.within is Purpose.VARIABLE else Purpose.ARRAY
    parts = request.op.split("/")
    last = _NUMBER_SUFFIX.sub("", parts[-1])
    gradient = any(part in ("gradient_tape", "gradients") for part in parts)
    if "Initializer" in parts or last == "initial_value" or (len(parts) == 1 and last == "AssignVariableOp"):
        return Purpose.VARIABLE
    updates = _UPDATE_OP.match(last) is not None or any(_is_optimizer_scope(part) for part in parts[:-1])
    if updates and not gradient:
        return Purpose.UNKNOWN if _SPARSE_GRADIENT_OP.match(last) else Purpose.UPDATE
    if gradient and _GRADIENT_OP.search(parts[-1]):
        return Purpose.UNKNOWN
    return request.within or (Purpose.STEP if len(parts) > 1 else Purpose.UNKNOWN)


def is_constant(request: MemoryRequest) -> bool:
    """Whether the request makes a constant from an array."""
    return request.constant or _CONSTANT.match(request.op) is not None


def _is_optimizer_scope(scope: str) -> bool:
    name = _NUMBER_SUFFIX.sub("", scope).lower()
    return name in _OPTIMIZER_SCOPES or name.endswith("optimizer")


def frame_purpose(file: bytes, function: bytes) -> Purpose | None:
    """The purpose that a library's frame implies; None if it implies none."""
    if _OPTIMIZER.search(file):
        return None if function in _GRADIENT_FUNCTIONS else Purpose.UPDATE
    if _INITIALIZER.search(file) or function in _VARIABLE_FUNCTIONS:
        return Purpose.VARIABLE
    return Purpose.STEP if function in _STEP_FUNCTIONS else None

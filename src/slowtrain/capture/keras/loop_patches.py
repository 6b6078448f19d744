"""Patches of Keras 2 and 3: loops, steps, compile and build, generators given to fit."""

from __future__ import annotations

import sys
import weakref
from _thread import get_ident
from collections.abc import Callable
from functools import partial
from types import FrameType, FunctionType
from typing import Any

import wrapt

from slowtrain.capture.core.fast_path import fast_path_maker
from slowtrain.capture.core.patching import Wrapper, copy_names, hide_from_warnings, patch_on_import, replace_function
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import FunctionSite, Progress, ThreadState
from slowtrain.capture.inspection import call_signatures, user_code
from slowtrain.capture.inspection.container_contents import quantised_level_count
from slowtrain.capture.keras.reported_losses import loss_keeper
from slowtrain.capture.nonfinite.function_replay import NonfiniteCheck
from slowtrain.capture.tensorflow.dataset_recipe import attribute_arrays, referenced_arrays

LOOP_METHODS = {"fit": "fit", "evaluate": "evaluate", "predict": "predict"}
LIST_TYPES = (list, tuple, dict)
MAX_MODELS = 32  # models whose metrics are known
MAX_DATA_LOOKS = 3  # fits whose data are examined: a millisecond each, and there may be thousands
PHASES = ("train", "test", "predict")
JIT_COMPILE_POSITION = 7  # position of the argument in compile(), in Keras 2 and 3
RECORDER_ATTRIBUTE = "_self_recorder"  # on our step functions; wrapt's wrapper keeps attributes with this prefix
ON_BATCH = {"train_on_batch": "train", "test_on_batch": "test", "predict_on_batch": "predict"}


class KerasPatches:
    """Installs itself through import hooks; see :meth:`install`."""

    def __init__(
        self,
        recorder: Recorder,
        state: ThreadState,
        progress: Progress,
        watch_items: Callable[[Any], None] = lambda _: None,
        checking: NonfiniteCheck | None = None,
        settle: Callable[[Any], None] = lambda _: None,
    ) -> None:
        self.checking = checking
        self.settle = settle  # gets the model before a loop within its loop, such as validation
        self.watch_items = watch_items  # gets the data of each loop
        self.recorder = recorder
        self.state = state
        self.progress = progress
        self._policies: dict[str, int] = {}  # number of layers by precision policy
        self._looks = MAX_DATA_LOOKS

    def install(self) -> None:
        for module, patch in (
            ("keras.src.backend.tensorflow.trainer", lambda m: self._patch_trainer(m.TensorFlowTrainer)),
            ("keras.src.backend.jax.trainer", lambda m: self._patch_trainer(m.JAXTrainer)),
            ("keras.src.backend.torch.trainer", lambda m: self._patch_trainer(m.TorchTrainer)),
            ("keras.src.trainers.trainer", lambda m: self._patch_compile(m.Trainer)),
            ("keras.src.engine.training", self._patch_keras2),
            ("tf_keras.src.engine.training", self._patch_keras2),
            ("keras.src.layers.layer", lambda m: self._patch_build(m.Layer)),
            ("keras.src.engine.base_layer", lambda m: self._patch_build(m.Layer)),
        ):
            patch_on_import(self.recorder, module, patch)

    def _patch_keras2(self, module: Any) -> None:
        self._patch_trainer(module.Model)
        self._patch_compile(module.Model)

    # -- loops and steps

    def _patch_trainer(self, trainer: type) -> None:
        for name in LOOP_METHODS:
            if name in trainer.__dict__:
                replace_function(trainer, name, partial(self._loop, name))
        for name, phase in ON_BATCH.items():
            if name in trainer.__dict__:
                replace_function(trainer, name, partial(self._on_batch, phase))
        for phase in PHASES:
            if f"make_{phase}_function" in trainer.__dict__:
                replace_function(
                    trainer, f"make_{phase}_function", partial(self._step_function, phase, _is_jax_trainer(trainer))
                )

    def _loop(self, loop: str, original: Wrapper) -> Wrapper:
        recorder, state, override, watch = self.recorder, self.state, self._patch_override, self.watch_items
        settle, progress, arguments = self.settle, self.progress, self._loop_facts

        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            me = state.me
            if not recorder.active or me.tracing:
                return original(self, *args, **kwargs)
            outer = me.loops
            if outer:
                recorder.guard(loop, settle, self)
            recorder.guard(loop, override, type(self))
            about = recorder.guard(loop, arguments, loop, self, args, kwargs)
            recorder.guard(loop, watch, args[0] if args else kwargs.get("x"))
            if not outer:
                progress.loop = about
            start = now()
            recorder.guard(loop, note_begin, about or {}, outer, start, sys._getframe(1))
            me.loops = outer + 1
            try:
                return original(self, *args, **kwargs)
            finally:
                me.loops = outer
                recorder.guard(loop, record_loop, about or {}, outer, start, now(), sys._getframe(1))

        def note_begin(about: dict[str, Any], outer: int, start: int, frame: FrameType) -> None:
            if not outer:
                recorder.note_begin("loop", loop, start, site=user_code.user_place(frame), nested=0, **about)

        def record_loop(about: dict[str, Any], outer: int, start: int, end: int, frame: FrameType) -> None:
            recorder.span(recorder.name("loop", loop, ("loop", loop, outer), nested=outer), start, end)
            # Inside another loop the caller is Keras itself (to validate), or a callback of the user's.
            place = user_code.user_place(frame) if not outer or user_code.is_user_code(frame.f_code) else None
            recorder.event("loop", loop, start, end, site=place, nested=outer, **about)

        return wrapper

    def _loop_facts(self, loop: str, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        about = _loop_arguments(loop, model, args, kwargs)
        if loop == "fit" and self._looks > 0:
            self._looks -= 1
            found = quantised_level_count(_first_array(args[0] if args else kwargs.get("x")))
            if found is not None:
                about["data"]["levels"] = found
        return about

    def _patch_override(self, model: type) -> None:
        """Patches the step functions that a model class of the user's makes itself."""
        for phase in PHASES:
            name = f"make_{phase}_function"
            owner = next((c for c in model.__mro__ if name in c.__dict__), None)
            if owner is not None and not hasattr(owner.__dict__[name], "_slowtrain_make"):
                replace_function(owner, name, partial(self._step_function, phase, _is_jax_trainer(model)))

    def _step_function(self, phase: str, on_jax: bool, original: Wrapper) -> Wrapper:
        recorder, timed = self.recorder, self._time_step_function

        def make_function(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            if recorder.active:
                timed_function = recorder.guard("step function", timed, phase, on_jax, self, result)
                return result if timed_function is None else timed_function
            return result

        make_function._slowtrain_make = original  # type: ignore[attr-defined]
        return make_function

    def _time_step_function(self, phase: str, on_jax: bool, model: Any, result: Any) -> Any:
        """Wraps the function that was made, in the attribute where Keras keeps it and in the result."""
        attribute = f"{phase}_function"
        current = model.__dict__.get(attribute)
        by = getattr(current, RECORDER_ATTRIBUTE, None)
        if current is None or by is self.recorder:
            return result
        function = self._add_check(phase, model, current.__wrapped__ if by is not None else current)
        known = FunctionSite({"train": 5, "test": 4, "predict": 4}[phase])
        known.name = self.recorder.name("step", phase)
        timed = self._timed_call(phase, on_jax, known, function, loss_keeper(self.progress, known.kind, model))
        if not on_jax:
            timed = fast_path_maker("step", self.recorder, self.state.main, progress=self.progress, names=known)(
                function, timed
            )
        if isinstance(function, FunctionType):
            wrapped: Any = copy_names(function, timed)
        else:  # has more than its call: scripts ask a tf.function how often it was traced
            wrapper = hide_from_warnings(lambda _function, _instance, args, kwargs: timed(*args, **kwargs))
            wrapped = wrapt.FunctionWrapper(function, wrapper)
        setattr(wrapped, RECORDER_ATTRIBUTE, self.recorder)
        setattr(model, attribute, wrapped)
        return wrapped if result is current else result

    def _timed_call(self, phase: str, on_jax: bool, known: FunctionSite, function: Wrapper, keep_loss: Wrapper) -> Any:
        recorder, state, progress, emit = self.recorder, self.state, self.progress, self.recorder.emit
        main = state.main
        # The part of a step on JAX after its batch is ready: it starts the compiled function.
        started = (
            recorder.name("function", f"{phase}_step", ("jit", phase), number=f"jit {phase}_step") if on_jax else 0
        )

        def step(*args: Any, **kwargs: Any) -> Any:
            me = main if get_ident() == main.ident else state.me
            if me.steps or me.busy:
                return function(*args, **kwargs)
            wanted = progress.wanted
            if known.kind == progress.kind and progress.boundary is None:
                progress.steps += 1  # same as progress.step, without the call
            else:
                progress.given = args
                progress.step(known.kind)
                progress.given = None
            name = known.name
            me.steps = 1
            me.loops += 1
            start = now()
            try:
                result = function(*args, **kwargs) if kwargs else function(*args)
                if wanted:
                    recorder.guard("loss", keep_loss, result, me.loops > 1)
                return result
            finally:
                end = now()
                me.steps = 0
                me.loops -= 1
                me.left -= 1
                if not me.left:
                    me.look(recorder.active)
                emit((name, start, end, me.ident, 1))
                if started:  # one ns later than the step, because neither of two equal spans lies inside the other
                    emit((started, max(start + 1, me.fed), end, me.ident, 0))

        return hide_from_warnings(step)

    def _add_check(self, phase: str, model: Any, function: Wrapper) -> Wrapper:
        """Returns a training function on JAX that is checked for `run --on-nonfinite`; else the function unchanged."""
        checking = self.checking if phase == "train" else None
        if checking is not None and not _is_jax_trainer(type(model)):
            checking.variables.models = [*checking.variables.models[1 - MAX_MODELS :], weakref.ref(model)]
            checking = None
        return function if checking is None else checking.jax.wrap_step(model, function)

    def _on_batch(self, phase: str, original: Wrapper) -> Wrapper:
        recorder, state = self.recorder, self.state

        def on_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not recorder.active or state.me.tracing or state.me.loops:
                return original(self, *args, **kwargs)
            start = now()
            try:
                return original(self, *args, **kwargs)
            finally:
                batch = args[:1] or (kwargs.get("x"),)
                recorder.guard("on batch", record_batch, batch, start, now(), sys._getframe(1))

        def record_batch(batch: tuple[Any, ...], start: int, end: int, frame: FrameType) -> None:
            name = recorder.name_at(frame, "on_batch", phase, key)
            recorder.span(name, start, end, call_signatures.batch_size(batch))

        key = f"on_batch {phase}"
        return on_batch

    # -- compile and build

    def _patch_compile(self, owner: type) -> None:
        recorder = self.recorder

        def make(original: Wrapper) -> Wrapper:
            def compile(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A001  the name it replaces
                start = now()
                try:
                    return original(self, *args, **kwargs)
                finally:
                    jit_compile = recorder.guard("compile", _jit_compile_given, args, kwargs)
                    recorder.guard("compile", record_compile, self, jit_compile, start, now(), sys._getframe(1))

            return compile

        def record_compile(model: Any, jit_compile: Any, start: int, end: int, frame: FrameType) -> None:
            recorder.span(recorder.name("build", "compile"), start, end)
            about = {"site": user_code.user_place(frame), "model": id(model), "jit_compile_given": jit_compile}
            recorder.event("compile", type(model).__name__, start, end, **about, **_compile_settings(model))

        replace_function(owner, "compile", make)

    def _patch_build(self, layer: type) -> None:
        recorder, state, policies = self.recorder, self.state, self._policies
        name = recorder.name("build", "layer")

        def make(original: Wrapper) -> Wrapper:
            def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
                if state.me.tracing or not recorder.active:
                    original(self, *args, **kwargs)
                    return
                start = now()
                try:
                    original(self, *args, **kwargs)
                finally:
                    recorder.span(name, start, now())
                    recorder.guard("policy", count_policy, self)

            return __init__

        def count_policy(layer: Any) -> None:
            # Not Keras' global policy, because it is set for each thread, and the recorder's thread has the default.
            if type(layer).__name__ == "InputLayer":
                return  # computes nothing, and is float32 in Keras 2 whatever the model is
            policy = str(getattr(getattr(layer, "dtype_policy", None), "name", ""))
            policies[policy] = policies.get(policy, 0) + 1
            recorder.fact("policies", dict(policies))

        replace_function(layer, "__init__", make)


def _is_jax_trainer(model: type) -> bool:
    return any(c.__name__ == "JAXTrainer" for c in model.__mro__)


def _loop_arguments(loop: str, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a loop, as far as they can be described without reading the data."""
    names = {
        "fit": ("x", "y", "batch_size", "epochs", "verbose", "callbacks", "validation_split", "validation_data"),
        "evaluate": ("x", "y", "batch_size", "verbose"),
        "predict": ("x", "batch_size", "verbose", "steps"),
    }[loop]
    arguments = dict(zip(names, args, strict=False)) | kwargs
    x = arguments.get("x")
    about: dict[str, Any] = {
        "data": _describe_data(x),
        "model": id(model),
        "batch_size": arguments.get("batch_size"),
        "epochs": arguments.get("epochs", 1),
        "steps_per_epoch": arguments.get("steps_per_epoch"),
        "validation": _describe_data(arguments["validation_data"])
        if arguments.get("validation_data") is not None
        else None,
        "validation_split": arguments.get("validation_split"),
        "validation_freq": arguments.get("validation_freq", 1),
        "callbacks": [type(c).__name__ for c in arguments.get("callbacks") or ()]
        if isinstance(arguments.get("callbacks"), (list, tuple))
        else None,
        "workers": getattr(x, "workers", arguments.get("workers")),
        "processes": bool(getattr(x, "use_multiprocessing", arguments.get("use_multiprocessing"))),
    }
    if loop == "fit":
        about["weights"] = _largest_weights(model)
    return about | _compile_settings(model)


def _first_array(x: Any) -> Any:
    """Returns the first array of nested lists, tuples and dictionaries."""
    while isinstance(x, (list, tuple, dict)) and x:
        x = next(iter(x.values())) if isinstance(x, dict) else x[0]
    return x


def _describe_data(x: Any) -> dict[str, Any]:
    kind = type(x)
    about: dict[str, Any] = {"type": f"{kind.__module__}.{kind.__qualname__}"}
    first = _first_array(x)
    shape = getattr(first, "shape", None)
    if shape is not None:
        about["shape"] = [None if d is None else int(d) for d in shape]
        about["dtype"] = str(getattr(first, "dtype", ""))
    if hasattr(x, "gi_code"):
        about["generator"] = user_code.describe_function(x)
        about["arrays"] = referenced_arrays(x)
    elif shape is None and hasattr(x, "__getitem__") and hasattr(kind, "__len__") and not isinstance(x, LIST_TYPES):
        about["generator"] = user_code.describe_function(kind.__getitem__)
        about["length"] = len(x)
        about["arrays"] = attribute_arrays(x)
    return about


def _compile_settings(model: Any) -> dict[str, Any]:
    about: dict[str, Any] = {}
    for name in ("run_eagerly", "steps_per_execution", "jit_compile"):
        value = getattr(model, name, None)
        if name == "jit_compile" and _is_jax_trainer(type(model)):
            continue  # has no effect there: what is not compiled as a whole runs op by op
        if isinstance(value, (bool, int, str)):
            about[name] = value
    together = getattr(getattr(model, "_steps_per_execution", None), "numpy", None)
    if "steps_per_execution" not in about and callable(together):  # Keras 2 has it in a variable
        about["steps_per_execution"] = int(together())
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        about["optimizer"] = type(optimizer).__name__
    return about


def _jit_compile_given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """Returns the ``jit_compile`` argument of ``compile()``.

    Keras resolves it to True or False; None is Keras 2's default.
    """
    value = args[JIT_COMPILE_POSITION] if len(args) > JIT_COMPILE_POSITION else kwargs.get("jit_compile")
    if value is None:
        return "absent"
    return value if isinstance(value, bool) else str(value)[:20]


def _largest_weights(model: Any) -> list[dict[str, Any]]:
    """Returns layers with their class and weights, largest first; at most fifty."""
    found = []
    for layer in list(getattr(model, "layers", ()) or ())[:500]:
        for weight in list(getattr(layer, "weights", ()) or ())[:8]:
            shape = [int(d) for d in weight.shape]
            size = 1
            for d in shape:
                size *= d
            about = {"layer": layer.name, "class": type(layer).__name__, "shape": shape, "dtype": str(weight.dtype)}
            found.append({**about, "size": size})
    return sorted(found, key=lambda w: -w["size"])[:50]

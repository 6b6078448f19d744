"""Patches of Keras 2 and 3: loops, steps, callbacks, compile and build, generators given to fit."""

from __future__ import annotations

import sys
from typing import Any

from slowtrain.capture import frames
from slowtrain.capture.datasets import DatasetPatches, held_arrays, host_arrays
from slowtrain.capture.patching import Wrapper, on_import, replace
from slowtrain.capture.recorder import Recorder, now
from slowtrain.capture.state import Progress, ThreadState

HOOKS = tuple(
    f"on_{loop}{unit}_{edge}"
    for loop, units in (("", ("epoch", "batch")), ("train", ("", "_batch")), ("test", ("", "_batch")), ("predict", ("", "_batch")))
    for unit in units
    for edge in ("begin", "end")
)
LOOPS = {"fit": "fit", "evaluate": "evaluate", "predict": "predict"}
ON_BATCH = {"train_on_batch": "train", "test_on_batch": "test", "predict_on_batch": "predict"}


class KerasPatches:
    """Installs itself through import hooks; see :meth:`install`."""

    def __init__(self, recorder: Recorder, state: ThreadState, progress: Progress, datasets: DatasetPatches) -> None:
        self.recorder = recorder
        self.state = state
        self.progress = progress
        self.datasets = datasets

    def install(self) -> None:
        for module, patch in (
            ("keras.src.backend.tensorflow.trainer", lambda m: self._patch_trainer(m.TensorFlowTrainer)),
            ("keras.src.backend.jax.trainer", lambda m: self._patch_trainer(m.JAXTrainer)),
            ("keras.src.backend.torch.trainer", lambda m: self._patch_trainer(m.TorchTrainer)),
            ("keras.src.trainers.trainer", lambda m: self._patch_compile(m.Trainer)),
            ("keras.src.engine.training", self._patch_keras2),
            ("tf_keras.src.engine.training", self._patch_keras2),
            ("keras.src.callbacks.callback_list", self._patch_callbacks),
            ("keras.src.callbacks", self._patch_callbacks),
            ("tf_keras.src.callbacks", self._patch_callbacks),
            ("keras.src.layers.layer", lambda m: self._patch_build(m.Layer)),
            ("keras.src.engine.base_layer", lambda m: self._patch_build(m.Layer)),
        ):
            on_import(self.recorder, module, patch)

    def _patch_keras2(self, module: Any) -> None:
        self._patch_trainer(module.Model)
        self._patch_compile(module.Model)

    # -- loops and steps

    def _patch_trainer(self, trainer: type) -> None:
        for name in LOOPS:
            if name in trainer.__dict__:
                replace(trainer, name, lambda original, n=name: self._loop(n, original))
        for name, phase in ON_BATCH.items():
            if name in trainer.__dict__:
                replace(trainer, name, lambda original, p=phase: self._on_batch(p, original))
        for phase in ("train", "test", "predict"):
            if f"make_{phase}_function" in trainer.__dict__:
                replace(trainer, f"make_{phase}_function", lambda original, p=phase: self._step_function(p, original))

    def _loop(self, loop: str, original: Wrapper) -> Wrapper:
        recorder, state = self.recorder, self.state

        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not recorder.active or state.me.tracing:
                return original(self, *args, **kwargs)
            outer = state.me.loops
            place = None if outer else frames.site(2)
            about = recorder.guard(loop, _arguments, loop, self, args, kwargs)
            start = now()
            state.me.loops = outer + 1
            try:
                return original(self, *args, **kwargs)
            finally:
                state.me.loops = outer
                end = now()
                recorder.span(recorder.name("loop", loop, ("loop", loop, outer), nested=outer), start, end)
                recorder.event("loop", loop, start, end, site=place, nested=outer, **(about or {}))

        return wrapper

    def _step_function(self, phase: str, original: Wrapper) -> Wrapper:
        recorder, state, progress = self.recorder, self.state, self.progress
        attribute = f"{phase}_function"
        name = recorder.name("step", phase)
        kind = {"train": 5, "test": 4, "predict": 4}[phase]

        def timed(function: Any) -> Any:
            def step(*args: Any, **kwargs: Any) -> Any:
                me = state.me
                if me.steps or me.tracing or not recorder.active:
                    return function(*args, **kwargs)
                progress.step(kind)
                me.steps = 1
                me.loops += 1
                start = now()
                try:
                    result = function(*args, **kwargs)
                    progress.last_result = result
                    return result
                finally:
                    end = now()
                    me.steps = 0
                    me.loops -= 1
                    recorder.emit((name, start, end, me.ident, 1))

            step._slowtrain_step = function  # type: ignore[attr-defined]
            return step

        def make_function(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            function = self.__dict__.get(attribute)
            if function is not None and not hasattr(function, "_slowtrain_step"):
                wrapped = recorder.guard("step function", timed, function)
                if wrapped is not None:
                    setattr(self, attribute, wrapped)
                    return wrapped if result is function else result
            return result

        return make_function

    def _on_batch(self, phase: str, original: Wrapper) -> Wrapper:
        recorder, state = self.recorder, self.state

        def on_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not recorder.active or state.me.tracing or state.me.loops:
                return original(self, *args, **kwargs)
            frame = frames.user_frame(sys._getframe(1))
            place = (frame.f_code.co_filename, frame.f_lineno) if frame else None
            x = args[0] if args else kwargs.get("x")
            shape = getattr(x, "shape", None)
            start = now()
            try:
                return original(self, *args, **kwargs)
            finally:
                key = ("on_batch", phase, place)
                name = recorder.ids.get(key) or recorder.name("on_batch", phase, key, site=place)
                recorder.span(name, start, now(), int(shape[0]) if shape else 0)

        return on_batch

    # -- compile and build

    def _patch_compile(self, owner: type) -> None:
        recorder = self.recorder

        def make(original: Wrapper) -> Wrapper:
            def compile(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A001  the name it replaces
                place = frames.site(2)
                start = now()
                try:
                    return original(self, *args, **kwargs)
                finally:
                    end = now()
                    recorder.span(recorder.name("build", "compile"), start, end)
                    recorder.event("compile", type(self).__name__, start, end, site=place, **_compiled(self))

            return compile

        replace(owner, "compile", make)

    def _patch_build(self, layer: type) -> None:
        recorder, state = self.recorder, self.state
        name = recorder.name("build", "layer")

        def make(original: Wrapper) -> Wrapper:
            def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
                if state.me.tracing or not recorder.active:
                    return original(self, *args, **kwargs)
                start = now()
                try:
                    return original(self, *args, **kwargs)
                finally:
                    recorder.span(name, start, now())

            return __init__

        replace(layer, "__init__", make)

    # -- callbacks

    def _patch_callbacks(self, module: Any) -> None:
        if not hasattr(module, "CallbackList"):
            return
        recorder, datasets = self.recorder, self.datasets
        done: set[type] = set()

        def init(original: Wrapper) -> Wrapper:
            def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
                original(self, *args, **kwargs)
                for callback in list(getattr(self, "callbacks", ()) or ()):
                    recorder.guard("callback", patch_class, type(callback))
                    recorder.guard("callback", patch_instance, callback)

            return __init__

        def patch_class(kind: type) -> None:
            for owner in kind.__mro__[:-1]:
                if owner in done or owner.__name__ in ("Callback", "CallbackList"):
                    continue
                done.add(owner)
                for hook in HOOKS:
                    if hook in owner.__dict__ and not getattr(owner.__dict__[hook], "_is_default", False):
                        replace(owner, hook, lambda original, h=hook: timed(h, original))

        def patch_instance(callback: Any) -> None:
            """Hooks given to the object itself: LambdaCallback keeps the user's functions so."""
            for hook in HOOKS:
                function = vars(callback).get(hook)
                if callable(function) and not hasattr(function, "_slowtrain_hook"):
                    setattr(callback, hook, given(f"{type(callback).__name__}.{hook}", function))

        def given(text: str, function: Any) -> Any:
            about = frames.describe(function)
            name = recorder.name("callback", text, ("callback", text, function), **about)

            def hook(*args: Any, **kwargs: Any) -> Any:
                start = now()
                try:
                    return function(*args, **kwargs)
                finally:
                    recorder.span(name, start, now())

            hook._slowtrain_hook = function  # type: ignore[attr-defined]
            return hook

        def timed(hook: str, original: Wrapper) -> Wrapper:
            names: dict[type, int] = {}

            def callback(self: Any, *args: Any, **kwargs: Any) -> Any:
                name = names.get(type(self))
                if name is None:
                    kind = type(self)
                    about = frames.describe(getattr(kind, hook))
                    name = names[kind] = recorder.name("callback", f"{kind.__name__}.{hook}", (kind, hook), **about)
                start = now()
                try:
                    return original(self, *args, **kwargs)
                finally:
                    recorder.span(name, start, now())

            return callback

        def epoch_end(original: Wrapper) -> Wrapper:
            def on_epoch_end(self: Any, epoch: Any, logs: Any = None) -> Any:
                start = now()
                recorder.guard("epoch's end", datasets.epoch_ended)
                result = original(self, epoch, logs)
                recorder.event("epoch", "end", start, epoch=epoch, logs=_floats(logs))
                return result

            return on_epoch_end

        def epoch_begin(original: Wrapper) -> Wrapper:
            def on_epoch_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
                recorder.event("epoch", "begin", now(), epoch=args[0] if args else None)
                return original(self, *args, **kwargs)

            return on_epoch_begin

        replace(module.CallbackList, "__init__", init)
        replace(module.CallbackList, "on_epoch_end", epoch_end)
        replace(module.CallbackList, "on_epoch_begin", epoch_begin)


def _floats(logs: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in (logs or {}).items():
        try:
            found[str(name)] = float(value)
        except (TypeError, ValueError):
            continue
    return found


def _arguments(loop: str, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a loop was given, as far as it can be told without touching the data."""
    names = {
        "fit": ("x", "y", "batch_size", "epochs", "verbose", "callbacks", "validation_split", "validation_data"),
        "evaluate": ("x", "y", "batch_size", "verbose"),
        "predict": ("x", "batch_size", "verbose", "steps"),
    }[loop]
    given = dict(zip(names, args)) | kwargs
    x = given.get("x")
    about: dict[str, Any] = {
        "data": _data(x),
        "model": id(model),
        "batch_size": given.get("batch_size"),
        "epochs": given.get("epochs", 1),
        "steps_per_epoch": given.get("steps_per_epoch"),
        "validation": _data(given["validation_data"]) if given.get("validation_data") is not None else None,
        "validation_split": given.get("validation_split"),
        "validation_freq": given.get("validation_freq", 1),
        "callbacks": [type(c).__name__ for c in given.get("callbacks") or ()]
        if isinstance(given.get("callbacks"), (list, tuple))
        else None,
        "workers": getattr(x, "workers", given.get("workers")),
    }
    if loop == "fit":
        about["weights"] = _weights(model)
    return about | _compiled(model)


def _data(x: Any) -> dict[str, Any]:
    kind = type(x)
    about: dict[str, Any] = {"type": f"{kind.__module__}.{kind.__qualname__}"}
    first = x
    while isinstance(first, (list, tuple, dict)) and first:
        first = next(iter(first.values())) if isinstance(first, dict) else first[0]
    shape = getattr(first, "shape", None)
    if shape is not None:
        about["shape"] = [None if d is None else int(d) for d in shape]
        about["dtype"] = str(getattr(first, "dtype", ""))
    if hasattr(x, "gi_code"):
        about["generator"] = frames.describe(x)
        about["arrays"] = host_arrays(x)
    elif hasattr(x, "__getitem__") and shape is None and hasattr(kind, "__len__") and not isinstance(x, (list, tuple, dict)):
        about["generator"] = frames.describe(kind.__getitem__)
        about["length"] = len(x)
        about["arrays"] = held_arrays(x)
    return about


def _compiled(model: Any) -> dict[str, Any]:
    about: dict[str, Any] = {}
    for name in ("run_eagerly", "steps_per_execution", "jit_compile"):
        value = getattr(model, name, None)
        if isinstance(value, (bool, int, str)):
            about[name] = value
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        about["optimizer"] = type(optimizer).__name__
    return about


def _weights(model: Any) -> list[dict[str, Any]]:
    """Layers with their class and weights, largest first; at most fifty."""
    found = []
    for layer in list(getattr(model, "layers", ()) or ())[:500]:
        for weight in list(getattr(layer, "weights", ()) or ())[:8]:
            shape = [int(d) for d in weight.shape]
            size = 1
            for d in shape:
                size *= d
            found.append(
                {"layer": layer.name, "class": type(layer).__name__, "shape": shape, "dtype": str(weight.dtype), "size": size}
            )
    return sorted(found, key=lambda w: -w["size"])[:50]

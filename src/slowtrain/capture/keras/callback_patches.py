"""Keras' callbacks: the time of each class and hook, the ends of epochs, saves, and the base of `slowtrain.Monitor`.

Each call that writes a model or a checkpoint is one span on the lane ``save``, with the script's line. A call inside
another, such as a checkpoint's in a manager's, lies within its span.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from _thread import get_ident
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

from slowtrain.capture.core.fast_path import fast_path_maker
from slowtrain.capture.core.patching import Wrapper, hide_from_warnings, patch_on_import, replace_function
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Progress
from slowtrain.capture.growth import named_containers
from slowtrain.capture.inspection import user_code
from slowtrain.capture.tensorflow.dataset_patches import DatasetPatches
from slowtrain.errors import EnvironmentMissing

VARIADIC_FLAGS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
HOOK_NAMES = (
    *(f"on_{unit}_{edge}" for unit in ("epoch", "batch") for edge in ("begin", "end")),
    *(
        f"on_{loop}{unit}_{edge}"
        for loop in ("train", "test", "predict")
        for unit in ("", "_batch")
        for edge in ("begin", "end")
    ),
)


class CallbackPatches:
    """Installs itself through import hooks. A class is patched when a list of callbacks contains an object of it."""

    def __init__(
        self,
        recorder: Recorder,
        datasets: DatasetPatches,
        progress: Progress,
        epoch_ends: Callable[[Any], None] = lambda _: None,
    ) -> None:
        self.recorder = recorder
        self.progress = progress
        self.epoch_ends = epoch_ends  # gets the list of callbacks
        self.datasets = datasets
        self._done: set[type] = set()

    def install(self) -> None:
        for module in ("keras.src.callbacks.callback_list", "keras.src.callbacks", "tf_keras.src.callbacks"):
            patch_on_import(self.recorder, module, self._patch)

    def _patch(self, module: Any) -> None:
        recorder = self.recorder
        if not hasattr(module, "CallbackList"):
            return

        def wrap_init(original: Wrapper) -> Wrapper:
            def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
                original(self, *args, **kwargs)
                if recorder.active:
                    for callback in list(getattr(self, "callbacks", ()) or ()):
                        recorder.guard("callback", patch_class, type(callback))
                        recorder.guard("callback", patch_instance, callback)
                        recorder.guard("callback", named_containers.watch_attributes, callback)

            return __init__

        patch_class, patch_instance = self._patch_class, self._patch_instance
        replace_function(module.CallbackList, "__init__", wrap_init)
        replace_function(module.CallbackList, "on_epoch_end", self._epoch_end)
        replace_function(module.CallbackList, "on_epoch_begin", self._epoch_begin)

    def _patch_class(self, kind: type) -> None:
        for owner in kind.__mro__[:-1]:
            if owner in self._done or owner.__name__ in ("Callback", "CallbackList"):
                continue
            self._done.add(owner)
            for hook in HOOK_NAMES:
                function = owner.__dict__.get(hook)
                # Anything but a plain function (for example a partial) would be bound differently once it is wrapped.
                if isinstance(function, FunctionType) and not getattr(function, "_is_default", False):
                    names: dict[type, int] = {}
                    quick = fast_path_maker("hook", self.recorder, self.datasets.state.main, names=names)
                    make = functools.partial(self._time_batch_hook, hook, names)
                    replace_function(owner, hook, make, quick if _is_batch_hook(function) else None)

    def _time_batch_hook(self, hook: str, names: dict[type, int], original: Wrapper) -> Wrapper:
        recorder, state, emit = self.recorder, self.datasets.state, self.recorder.emit
        main = state.main

        def batch_hook(self: Any, batch: Any, logs: Any = None) -> Any:
            me = main if get_ident() == main.ident else state.me
            if me.busy:  # no callback is called inside a function, so recording has ended
                return original(self, batch, logs)
            start = now()
            try:
                return original(self, batch, logs)
            finally:
                end = now()
                name = names.get(type(self)) or recorder.guard("callback", hook_name, type(self)) or 0
                me.left -= 1
                if not me.left:
                    me.look(recorder.active)
                emit((name, start, end, me.ident, 0))

        def other_hook(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not recorder.active:
                return original(self, *args, **kwargs)
            start = now()
            try:
                return original(self, *args, **kwargs)
            finally:
                end = now()
                name = names.get(type(self)) or recorder.guard("callback", hook_name, type(self)) or 0
                recorder.span(name, start, end)

        def hook_name(kind: type) -> int:
            about = user_code.describe_function(getattr(kind, hook))
            names[kind] = self._name(f"{kind.__name__}.{hook}", about)
            return names[kind]

        return batch_hook if _is_batch_hook(original) else other_hook

    def _patch_instance(self, callback: Any) -> None:
        """Patches hooks that are attributes of the object. LambdaCallback keeps the user's functions that way."""
        for hook in HOOK_NAMES:
            function = getattr(callback, "__dict__", {}).get(hook)
            if callable(function) and not hasattr(function, "_slowtrain_hook"):
                setattr(callback, hook, self._time_user_function(f"{type(callback).__name__}.{hook}", function))

    def _time_user_function(self, text: str, function: Any) -> Any:
        recorder, name = self.recorder, self._name(text, user_code.describe_function(function))

        def hook(*args: Any, **kwargs: Any) -> Any:
            start = now()
            try:
                return function(*args, **kwargs)
            finally:
                recorder.span(name, start, now())

        hook._slowtrain_hook = True  # type: ignore[attr-defined]
        return hide_from_warnings(hook)

    def _name(self, text: str, about: dict[str, Any]) -> int:
        # The key is not the function itself, because a key is never freed, nor is what it refers to.
        return self.recorder.name("callback", text, ("callback", text, about.get("file"), about.get("line")), **about)

    # -- the edges of epochs

    def _epoch_end(self, original: Wrapper) -> Wrapper:
        recorder, datasets, epoch_ends = self.recorder, self.datasets, self.epoch_ends

        def on_epoch_end(self: Any, *args: Any, **kwargs: Any) -> Any:
            recorder.guard("epoch's end", epoch_ends, self)
            start = now()
            recorder.guard("epoch's end", datasets.read_newest_iterators)
            result = original(self, *args, **kwargs)
            arguments = dict(zip(("epoch", "logs"), args, strict=False)) | kwargs
            recorder.guard("epoch's end", record_epoch_end, arguments, start)
            return result

        def record_epoch_end(arguments: dict[str, Any], start: int) -> None:
            recorder.event("epoch", "end", start, epoch=arguments.get("epoch"), logs=_float_logs(arguments.get("logs")))

        return on_epoch_end

    def _epoch_begin(self, original: Wrapper) -> Wrapper:
        recorder, progress = self.recorder, self.progress

        def on_epoch_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
            progress.epoch_start = progress.steps
            recorder.event("epoch", "begin", now(), epoch=args[0] if args else kwargs.get("epoch"))
            return original(self, *args, **kwargs)

        return on_epoch_begin


def _float_logs(logs: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in (logs or {}).items():
        try:
            found[str(name)] = float(value)
        except (TypeError, ValueError):
            continue
    return found


def _is_batch_hook(hook: Any) -> bool:
    """Returns whether a hook is ``(self, batch, logs=None)``, as hooks of each batch are. These need no unpacking."""
    code = hook.__code__
    defaults: tuple[Any, ...] = hook.__defaults__ or ()
    if code.co_posonlyargcount or code.co_kwonlyargcount or code.co_flags & VARIADIC_FLAGS:
        return False
    names = code.co_varnames[1 : code.co_argcount]
    return names == ("batch", "logs") and len(defaults) == 1 and defaults[0] is None


def keras_callback_class() -> type:
    """Returns ``Callback`` of the imported Keras, else of an installed one. Raises ``EnvironmentMissing``."""
    for name in sorted(("keras", "tf_keras"), key=lambda n: n not in sys.modules):
        try:
            found: type = importlib.import_module(f"{name}.callbacks").Callback
        except (ImportError, AttributeError):
            continue
        return found
    raise EnvironmentMissing(
        "slowtrain.Monitor is a Keras callback and there is no Keras here; slowtrain.record() needs none"
    )


class TensorBoardScalars:
    """Writes figures for TensorBoard through ``tf.summary``. Raises ``EnvironmentMissing`` without TensorFlow."""

    def __init__(self, folder: Path) -> None:
        try:
            self.tensorflow: Any = importlib.import_module("tensorflow")
        except ImportError as error:
            raise EnvironmentMissing("figures for TensorBoard need TensorFlow, which is not here") from error
        with self.tensorflow.device("cpu:0"):
            self.writer = self.tensorflow.summary.create_file_writer(str(folder))

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        # On the processor, so that nothing waits in the queue of an accelerator.
        with self.tensorflow.device("cpu:0"), self.writer.as_default(step):
            for name, value in figures.items():
                self.tensorflow.summary.scalar(f"slowtrain/{name}", value)

    def close(self) -> None:
        self.writer.close()


# Module -> the class in it, if it is a method, and the names. Callbacks and ``Model.save`` call these. They are the
# same in TensorFlow 2.15 and 2.21.
SAVE_FUNCTIONS = {
    "keras.src.saving.saving_api": ("", ("save_model", "save_weights")),
    "tf_keras.src.saving.saving_api": ("", ("save_model", "save_weights")),
    "tensorflow.python.checkpoint.checkpoint": ("Checkpoint", ("save", "write")),
    "tensorflow.python.checkpoint.checkpoint_management": ("CheckpointManager", ("save",)),
    "tensorflow.python.saved_model.save": ("", ("save",)),
}


class SavePatches:
    """Installs itself through import hooks."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def install(self) -> None:
        for module, (kind, names) in SAVE_FUNCTIONS.items():
            patch_on_import(self.recorder, module, partial(self._patch, kind, names))

    def _patch(self, kind: str, names: tuple[str, ...], module: Any) -> None:
        owner = getattr(module, kind) if kind else module
        for name in names:
            replace_function(owner, name, partial(self._time_save, f"{kind}.{name}" if kind else name))

    def _time_save(self, what: str, original: Wrapper) -> Wrapper:
        recorder, key = self.recorder, f"save {what}"

        def save(*args: Any, **kwargs: Any) -> Any:
            if not recorder.active:
                return original(*args, **kwargs)
            start = now()
            try:
                return original(*args, **kwargs)
            finally:
                recorder.guard("saving", record_save, start, now(), sys._getframe(1))

        def record_save(start: int, end: int, frame: FrameType) -> None:
            recorder.span(recorder.name_at(frame, "save", what, key), start, end)

        return save

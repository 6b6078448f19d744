"""Patches of JAX for custom training loops: what ``jax.jit`` compiles, and gradients that are taken.

Only names in the module ``jax`` are replaced, which scripts and their libraries use. JAX calls its own functions by
other names. A call of a compiled function returns once its work is queued (see
:mod:`slowtrain.capture.jax.keras_backend`), so its span is the time to start it. Waits of the script, for a value or
for all work, are in the lanes ``readback`` and ``sync``.
"""

from __future__ import annotations

import copy
import operator
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import wrapt

from slowtrain.capture.core.patching import FILE_MARK, Wrapper, hide_from_warnings, patch_on_import, replace_function
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import CALLS_A_LOOK, FIRST_CALLS, Flags, FunctionSite, Progress, ThreadState
from slowtrain.capture.inspection import call_signatures, user_code
from slowtrain.capture.jax import jit_arguments, keras_backend
from slowtrain.capture.jax.keras_backend import COMPILE_EVENTS, COMPILED_EVENT, TRACED_EVENT

LIBRARY_MODULES = ("jax", "jaxlib", "keras")  # their functions are internal; Keras' own steps are recorded as such
TRAINING_CALL, PLAIN_CALL, EAGER_GRADIENT = 3, 1, 2  # kinds, as Progress.step counts


class TransparentWrapper(wrapt.FunctionWrapper):  # type: ignore[misc, type-arg, unused-ignore]
    """Behaves like the wrapped object. Copies and pickles contain only that object."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        return operator.getitem, ([self.__wrapped__], 0)

    def __reduce__(self) -> Any:
        return operator.getitem, ([self.__wrapped__], 0)

    def __copy__(self) -> Any:
        return copy.copy(self.__wrapped__)

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.deepcopy(self.__wrapped__, memo)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


class JitFunction(FunctionSite):
    """What is known of one compiled function. ``data`` is the position of the batch among its arguments."""

    __slots__ = ("about", "data", "static")

    def __init__(self, about: dict[str, Any], static: jit_arguments.StaticArguments) -> None:
        super().__init__(PLAIN_CALL)
        self.about = about
        self.static = static
        self.data: jit_arguments.BatchPlace | None = None


class JaxLoops:
    """Installs itself through import hooks. Records only calls in the main thread."""

    def __init__(self, recorder: Recorder, state: ThreadState, progress: Progress) -> None:
        self.recorder = recorder
        self.state = state
        self.progress = progress
        self.given: Any = None  # the arguments of a step that is about to begin, set while the boundary is called
        self._functions = 0
        self._clean: Callable[[], bool] = lambda: True
        self._hear: Any = self._heard  # one object, so that it can be found again in JAX's list

    def install(self) -> None:
        patch_on_import(self.recorder, "jax", self._patch)
        patch_on_import(self.recorder, "jax.numpy", self._patch_numpy)
        patch_on_import(self.recorder, "jax._src.core", self._look_at_traces)
        patch_on_import(self.recorder, "jax._src.array", self._patch_array)
        patch_on_import(self.recorder, "jax._src.monitoring", self._listen)
        patch_on_import(self.recorder, "jax._src.source_info_util", self._pass_over)
        self.recorder.at_exit.append(self._deafen)

    def _patch(self, module: Any) -> None:
        for name, make in (
            ("jit", partial(self._making, self._wrap_jitted)),
            ("pmap", partial(self._making, self._wrap_jitted)),
            ("grad", partial(self._making, partial(self._wrap_gradient, False))),
            ("value_and_grad", partial(self._making, partial(self._wrap_gradient, True))),
            ("vjp", self._vjp),
            ("eval_shape", _unwrap_first_argument),
            ("block_until_ready", self._waiting),
            ("device_put", self._feeding),
        ):
            if hasattr(module, name):
                replace_function(module, name, make)

    def _patch_numpy(self, module: Any) -> None:
        for name in ("asarray", "array"):
            replace_function(module, name, self._feeding)

    def _patch_array(self, module: Any) -> None:
        replace_function(module.ArrayImpl, "block_until_ready", self._waiting)

    def _look_at_traces(self, module: Any) -> None:
        """Finds the function by which JAX says that it is not tracing: a call then runs at once."""
        context = getattr(module, "trace_ctx", None)
        self._clean = getattr(context, "is_top_level", None) or module.trace_state_clean

    def _pass_over(self, module: Any) -> None:
        """Makes JAX skip our frames, so that the line of an op in its programs is the script's."""
        module.register_exclusion(FILE_MARK)
        self.recorder.at_exit.append(lambda: _remove_exclusion(module))

    # -- functions that are made

    def _making(self, wrapped: Callable[..., Any], original: Wrapper) -> Wrapper:
        """Wraps the results of ``jax.jit(f)``, ``jax.jit(f, …)``, ``jax.jit(…)(f)``, and similar."""
        recorder = self.recorder

        def make(*args: Any, **kwargs: Any) -> Any:
            jitted = original(*args, **kwargs)
            caller = sys._getframe(1)
            if not recorder.active or _is_library_frame(caller):
                return jitted
            if args or "fun" in kwargs:
                return (
                    recorder.guard("jax", wrapped, jitted, args[0] if args else kwargs["fun"], kwargs, caller) or jitted
                )

            def decorate(function: Any) -> Any:
                last = jitted(function)
                return recorder.guard("jax", wrapped, last, function, kwargs, sys._getframe(1)) or last

            return hide_from_warnings(decorate)

        return make

    def _wrap_jitted(self, jitted: Any, python: Any, settings: dict[str, Any], frame: FrameType) -> Any:
        self._functions += 1
        about = user_code.describe_function(python)
        about["number"] = f"jax {self._functions}"
        about["made"] = None if self.state.me.loops else user_code.user_place(frame)
        known = JitFunction(about, jit_arguments.static_arguments(python, settings))
        return TransparentWrapper(jitted, self._call(known))

    def _call(self, known: JitFunction) -> Wrapper:
        recorder, state, progress, clean = self.recorder, self.state, self.progress, self._clean
        emit, guard, getframe = recorder.emit, recorder.guard, sys._getframe
        traced, named, looked, begins = self._record_trace, self._name_call, self._read_rare_changes, self._begins

        def call(function: Any, _instance: Any, args: Any, kwargs: Any) -> Any:
            me = state.me
            if me.busy or me.loops or not me.main or not clean():
                return function(*args, **kwargs)
            if known.kind == progress.kind and progress.boundary is None:
                progress.steps += 1  # same as progress.step, without the call
            else:
                begins(known.kind, (args, kwargs))
            traces = me.traces
            me.busy += 1
            me.training = False
            result = None
            start = now()
            try:
                result = function(*args, **kwargs)
            finally:
                end = now()
                me.busy -= 1
                frame = getframe(1)
                if me.training or me.traces != traces:
                    guard("trace", traced, known, function, (args, kwargs), result, start, end, frame)
                if known.at != frame.f_lasti or known.code is not frame.f_code:
                    guard("function", named, known, frame)
                known.left -= 1
                if not known.left:
                    guard("function", looked, known, me, args, kwargs)
                emit((known.name, start, end, me.ident, known.size))
            if progress.wanted:
                guard("loss", progress.keep, result, known.kind, (user_code.last_name(known.about["qualname"]), 0))
            return result

        return hide_from_warnings(call)

    def _begins(self, kind: int, arguments: Any) -> None:
        self.given = arguments
        try:
            self.progress.step(kind)
        finally:
            self.given = None

    def _name_call(self, known: JitFunction, frame: FrameType) -> None:
        """Names a function's first call, or its first call from another place."""
        known.remember(frame, False)
        about = known.about
        known.name = self.recorder.name_at(frame, "function", str(about["qualname"]), about["number"], **about)
        self.recorder.fact("jax", True)

    def _read_rare_changes(self, known: JitFunction, me: Flags, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Reads what rarely changes, in one call of a few."""
        known.looks += 1
        known.left = 1 if known.looks < FIRST_CALLS else CALLS_A_LOOK
        me.look(self.recorder.active)
        known.size = jit_arguments.batch_samples(known.data, args, kwargs)

    def _record_trace(
        self, known: JitFunction, function: Any, arguments: Any, result: Any, start: int, end: int, frame: FrameType
    ) -> None:
        """Records a call that traced its function, with its arguments."""
        me, about = self.state.me, known.about
        if me.training:
            about["training"], me.training, known.kind = True, False, TRAINING_CALL
            keras_backend.has_custom_loops[:] = [True]
        compiled, me.last_trace = me.last_trace, None
        if compiled is None:
            return  # with jax.disable_jit(): runs in Python
        args, kwargs = arguments
        known.data = jit_arguments.find_batch(args, kwargs, known.static, result)
        about["traces"] = about.get("traces", 0) + 1
        self.recorder.event(
            "trace",
            str(about["qualname"]),
            start,
            end,
            number=about["number"],
            file=about.get("file"),
            line=about.get("line"),
            nth=about["traces"],
            trace_ns=compiled["ns"],
            training=bool(about.get("training")),
            keras=False,
            jax=True,
            site=user_code.user_place(frame),
            signature=jit_arguments.describe_jit_call(function, args, kwargs, known.static),
            graph=None,
        )

    # -- gradients

    def _wrap_gradient(self, valued: bool, gradient_function: Any, _python: Any, _settings: Any, _frame: Any) -> Any:
        def call(function: Any, _instance: Any, args: Any, kwargs: Any) -> Any:
            return gradient(sys._getframe(1), function, args, kwargs)

        gradient = partial(self._gradient, valued)
        return TransparentWrapper(gradient_function, hide_from_warnings(call))

    def _vjp(self, original: Wrapper) -> Wrapper:
        def vjp(*args: Any, **kwargs: Any) -> Any:
            return self._gradient(True, sys._getframe(1), original, args, kwargs)

        return vjp

    @hide_from_warnings
    def _gradient(self, valued: bool, frame: FrameType, function: Any, args: Any, kwargs: Any) -> Any:
        """Takes a gradient.

        Inside a trace it marks the traced function as training; outside it is a step of its own.
        """
        me = self.state.me
        if me.busy or me.loops or not me.main or not self.recorder.active or not self._clean():
            if me.busy and not me.loops:
                me.training = True
            return function(*args, **kwargs)
        self._begins(EAGER_GRADIENT, (args, kwargs))
        me.busy += 1
        start = now()
        try:
            result = function(*args, **kwargs)
        finally:
            end = now()
            me.busy -= 1
            me.last_trace = None
            self.recorder.guard("gradient", self._record_gradient, start, end, frame)
        if valued and (self.progress.wanted or self.progress.trajectory is not None):
            self.recorder.guard("loss", self._keep_loss, result, frame)
        return result

    def _keep_loss(self, result: Any, frame: FrameType) -> None:
        self.progress.keep({"loss": _loss_value(result)}, EAGER_GRADIENT, user_code.user_function_place(frame))

    def _record_gradient(self, start: int, end: int, frame: FrameType) -> None:
        self.recorder.span(self.recorder.name_at(frame, "gradient", "gradient", "gradient"), start, end)
        keras_backend.has_custom_loops[:] = [True]
        self.recorder.fact("jax", True)

    # -- what is compiled

    def _listen(self, module: Any) -> None:
        module.register_event_duration_secs_listener(self._hear)

    def _deafen(self) -> None:
        listeners = getattr(sys.modules.get("jax._src.monitoring"), "_event_duration_secs_listeners", [])
        if self._hear in listeners:
            listeners.remove(self._hear)

    def _heard(self, event: str, duration_s: float, **_: Any) -> None:
        """Notes that a call of the script's traces or compiles."""
        me = self.state.me
        if not me.busy or me.loops or not event.startswith(COMPILE_EVENTS):
            return
        what = event[len(COMPILE_EVENTS) :]
        if what == TRACED_EVENT:  # the outermost trace ends last, and includes the others
            known = me.last_trace or {"ns": 0}
            me.last_trace = {"ns": max(known["ns"], int(duration_s * 1e9))}
        elif what == COMPILED_EVENT:
            me.last_trace = me.last_trace or {"ns": 0}
            me.traces += 1

    # -- waiting, and data that is handed over

    def _waiting(self, original: Wrapper) -> Wrapper:
        recorder, state = self.recorder, self.state

        def block_until_ready(*args: Any, **kwargs: Any) -> Any:
            me = state.me
            if me.busy or me.loops or not me.main or not recorder.active:
                return original(*args, **kwargs)
            me.busy += 1
            start = now()
            try:
                return original(*args, **kwargs)
            finally:
                me.busy -= 1
                recorder.guard("sync", record_wait, start, now(), sys._getframe(1))

        def record_wait(start: int, end: int, frame: FrameType) -> None:
            recorder.span(recorder.name_at(frame, "sync", "block_until_ready", "block_until_ready"), start, end)

        return block_until_ready

    def _feeding(self, original: Wrapper) -> Wrapper:
        recorder, state = self.recorder, self.state

        def convert(*args: Any, **kwargs: Any) -> Any:
            me = state.me
            if me.busy or me.loops or not args or not me.main or not recorder.active or hasattr(args[0], "aval"):
                return original(*args, **kwargs)
            start = now()
            try:
                return original(*args, **kwargs)
            finally:
                recorder.guard("feed", record_feed, args[0], start, now(), sys._getframe(1))

        def record_feed(values: Any, start: int, end: int, frame: FrameType) -> None:
            parts = tuple(values.values()) if isinstance(values, dict) else (values,)
            size = call_signatures.host_bytes(parts)
            if size:
                recorder.span(recorder.name_at(frame, "feed", original.__name__, "feed"), start, end, size)

        return convert

    def settle_step(self) -> None:
        """Waits for the steps before the one that is about to begin. They created its arguments."""
        if self.given is None:
            return
        me, start = self.state.me, now()
        me.busy += 1
        try:
            for array in _live_arrays(self.given):
                array.block_until_ready()
        finally:
            me.busy -= 1
        self.recorder.span(self.recorder.name("sync", "device"), start, now())


def _is_library_frame(frame: FrameType) -> bool:
    """Returns whether JAX or Keras creates the function for itself."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in LIBRARY_MODULES


def _remove_exclusion(module: Any) -> None:
    if FILE_MARK in module._exclude_paths:
        module._exclude_paths.remove(FILE_MARK)
        for cached in ("_exclude_path_regex", "is_user_filename"):
            getattr(module, cached).cache_clear()


def _unwrap_first_argument(original: Wrapper) -> Wrapper:
    """Patches functions that check the exact type of their argument."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) is TransparentWrapper:
            args = (args[0].__wrapped__, *args[1:])
        return original(*args, **kwargs)

    return call


def _loss_value(result: Any) -> Any:
    """Returns the loss, which comes before the gradients: alone, or before the function's other results."""
    loss = result[0]
    return loss[0] if isinstance(loss, tuple) and loss else loss


def _live_arrays(tree: Any) -> Iterator[Any]:
    for one in jit_arguments.tree_leaves(tree):
        if hasattr(one, "block_until_ready") and not one.is_deleted():
            yield one

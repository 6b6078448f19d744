"""Patches of TensorFlow: functions and their traces, gradients.

Each wrapper reads the clock twice and writes one span. The patched names are the same in TensorFlow 2.15 and 2.21. The
cost of a wrapper is the memory it touches, because a step has emptied the caches. So known things are compared in
place and not looked up (docs/overhead.md).
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable
from types import FrameType
from typing import Any

from slowtrain.capture.core.fast_path import fast_path_maker
from slowtrain.capture.core.patching import Wrapper, patch_on_import, replace_function
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import (
    CALLS_A_LOOK,
    EAGER_STEP,
    FIRST_CALLS,
    KERAS_CALL,
    Flags,
    FunctionSite,
    Progress,
    ThreadState,
)
from slowtrain.capture.inspection import call_signatures, user_code
from slowtrain.capture.inspection.graph_summary import GraphSummary
from slowtrain.capture.nonfinite.function_replay import NonfiniteCheck

getframe = sys._getframe
_FOREIGN_FLAGS = Flags(0)  # for a thread whose calls belong to another thread
_FOREIGN_FLAGS.busy = 1

FUNCTION_MODULE = "tensorflow.python.eager.polymorphic_function.polymorphic_function"
CONCRETE_MODULE = "tensorflow.python.eager.polymorphic_function.concrete_function"


class TensorFlowPatches:
    """Installs itself through import hooks; see :meth:`install`."""

    def __init__(
        self, recorder: Recorder, state: ThreadState, progress: Progress, checking: NonfiniteCheck | None = None
    ) -> None:
        self.recorder = recorder
        self.state = state
        self.progress = progress
        self.checking = checking
        self._functions = 0
        self._tracers: list[Flags] = []  # of threads that are tracing a function now

    def install(self) -> None:
        for module, patch in (
            (FUNCTION_MODULE, self._patch_function),
            (FUNCTION_MODULE, self._patch_concrete),
            ("tensorflow.python.framework.func_graph", self._patch_trace),
            ("tensorflow.python.eager.backprop", self._patch_gradient),
        ):
            patch_on_import(self.recorder, module, patch)

    def _in_a_trace(self) -> bool:
        """Returns whether this thread works for a trace of another one.

        A distribution strategy traces each replica in a thread of its own.
        """
        return bool(self._tracers) and not sys.modules["tensorflow.python.eager.context"].executing_eagerly()

    # -- tf.function

    def _patch_function(self, module: Any) -> None:
        main, progress = self.state.main, self.progress
        stands = fast_path_maker("function", self.recorder, main, progress=progress, after=self._after)
        replace_function(module.Function, "__init__", self._init)
        replace_function(module.Function, "__call__", self._caller(), stands)

    def _patch_concrete(self, module: Any) -> None:
        """Patches the concrete functions that scripts request from a tf.function to call them directly."""
        replace_function(module.Function, "get_concrete_function", self._concrete)
        replace_function(sys.modules[CONCRETE_MODULE].ConcreteFunction, "__call__", self._caller(ours=True))

    def _caller(self, ours: bool = False) -> Callable[[Wrapper], Wrapper]:
        """Returns a wrapper maker for calls: for all, or with ``ours`` only for concrete functions that we know."""
        patches, progress, main = self, self.progress, self.state.main
        emit, elsewhere = self.recorder.emit, self._flags_of_thread

        def call(original: Wrapper) -> Wrapper:
            def __call__(*args: Any, **kwargs: Any) -> Any:  # self is in args, so that the tuple is passed on as it is
                me = main if get_ident() == main.ident else elsewhere()
                if me.busy or (ours and not hasattr(args[0], "_slowtrain")):
                    return original(*args, **kwargs)
                self = args[0]
                # Everything possible is done before the call, while the caches still hold the data of the last
                # wrapper.
                try:
                    known = self._slowtrain_known
                except AttributeError:
                    known = self._slowtrain_known = FunctionSite(_step_kind(self))
                if me.loops:
                    is_new_place, wanted = known.at != KERAS_CALL - me.steps, False
                else:
                    frame, wanted = getframe(1), progress.wanted
                    is_new_place = known.at != frame.f_lasti or known.code is not frame.f_code
                    if known.kind == progress.kind and progress.boundary is None:
                        progress.steps += 1  # same as progress.step, without the call
                    else:
                        progress.step(known.kind)
                known.left -= 1
                if not known.left:
                    patches.look(known, me, args[1:])
                name, size, traces = known.name, known.size, me.traces
                me.busy += 1
                start = now()
                try:
                    result = original(*args, **kwargs) if kwargs else original(*args)
                finally:
                    end = now()
                    me.busy -= 1
                    if is_new_place or me.traces != traces:
                        traced = (args[1:], kwargs, start, end) if me.traces != traces else None
                        name = patches.name_after_call(self, known, me, getframe(1), traced)
                    emit((name, start, end, me.ident, size))
                if wanted:
                    patches.keep_loss(result, known, self)
                return result

            return __call__

        return call

    def _concrete(self, original: Wrapper) -> Wrapper:
        state, guard = self.state, self.recorder.guard

        def get_concrete_function(*args: Any, **kwargs: Any) -> Any:
            me = state.me
            if me.busy or me.tracing or not user_code.is_user_code(getframe(1).f_code):
                return original(*args, **kwargs)  # tf.data requests the graph of each map, in each call of predict
            traces, start = me.traces, now()
            me.busy += 1
            try:
                concrete = original(*args, **kwargs)
            finally:
                end = now()
                me.busy -= 1
            traced = (args[1:], kwargs, start, end, getframe(1)) if me.traces != traces else None
            guard("concrete function", note_concrete, args[0], concrete, traced)
            return concrete

        def note_concrete(function: Any, concrete: Any, traced: Any) -> None:
            if traced is not None:
                self._record_trace(function, None, *traced)
            concrete._slowtrain = _function_facts(function)  # its calls count as the function's

        return get_concrete_function

    def _after(self, args: tuple[Any, ...], kwargs: dict[str, Any], known: FunctionSite, start: int, end: int) -> int:
        """Handles a call that traced its function. The fast path calls it; returns the name of the call."""
        return self.name_after_call(args[0], known, self.state.main, getframe(1), (args[1:], kwargs, start, end))

    # Rarely called by the wrapper, which is kept small: each variable of a closure is a line of cold memory.

    def _flags_of_thread(self) -> Flags:
        """Returns the flags of a thread that is not the main one.

        If it traces for the main one, wrappers only forward.
        """
        return _FOREIGN_FLAGS if self._tracers and self._in_a_trace() else self.state.me

    def look(self, known: FunctionSite, me: Flags, args: tuple[Any, ...]) -> None:
        """Reads what rarely changes, in one call of many."""
        known.looks += 1
        known.left = 1 if known.looks < FIRST_CALLS else CALLS_A_LOOK
        me.look(self.recorder.active)
        known.size = self.recorder.guard("batch size", call_signatures.batch_size, args) or 0

    def keep_loss(self, result: Any, known: FunctionSite, function: Any) -> None:
        origin = (user_code.last_name(_function_facts(function)["qualname"]), 0)
        self.recorder.guard("loss", self.progress.keep, result, known.kind, origin)

    def name_after_call(self, function: Any, known: FunctionSite, me: Flags, frame: FrameType, traced: Any) -> int:
        """Returns the call's name, after the first call, a call from another place, or a call that traced."""
        if traced is not None:
            self.recorder.guard("trace", self._record_trace, function, known, *traced, frame)
        return self.recorder.guard("function", self._name_call, function, known, me, frame) or 0

    def _name_call(self, function: Any, known: FunctionSite, me: Flags, frame: FrameType) -> int:
        about = _function_facts(function)
        number, text = about.get("number"), str(about.get("qualname"))
        if me.loops:
            known.code, known.at = None, KERAS_CALL - me.steps
            known.name = self.recorder.name("function", text, (number, me.steps), site=None, **about)
        else:
            known.remember(frame, False)
            known.name = self.recorder.name_at(frame, "function", text, number, **about)
        return known.name

    def _init(self, original: Wrapper) -> Wrapper:
        recorder, state = self.recorder, self.state

        def __init__(self: Any, python_function: Any, *args: Any, **kwargs: Any) -> None:
            original(self, python_function, *args, **kwargs)
            recorder.guard("tf.function", assign_number, self, python_function, sys._getframe(1))

        def assign_number(function: Any, python_function: Any, frame: FrameType) -> None:
            self._functions += 1
            about = user_code.describe_function(python_function)
            about["number"] = self._functions
            about["made"] = None if state.me.loops else user_code.user_place(frame)
            function._slowtrain = about

        return __init__

    def _record_trace(
        self, function: Any, known: FunctionSite | None, args: Any, kwargs: Any, start: int, end: int, frame: FrameType
    ) -> None:
        """Records a call that traced its function, with its arguments. ``known`` is set if the call was a step, too."""
        me, about = self.state.me, _function_facts(function)
        trace, me.last_trace = me.last_trace or {}, None
        if trace.get("training"):
            about["training"] = True
            if known is not None:
                known.kind = _step_kind(function)
            if known is not None and not me.loops:
                self.progress.set_last_kind(known.kind)
        about["traces"] = about.get("traces", 0) + 1
        self.recorder.event(
            "trace",
            str(about.get("qualname")),
            start,
            end,
            number=about.get("number"),
            file=about.get("file"),
            line=about.get("line"),
            nth=about["traces"],
            trace_ns=trace.get("ns", 0),
            training=bool(about.get("training")),
            keras=bool(me.loops),
            jit_compile=getattr(function, "_jit_compile", None),
            site=user_code.user_place(frame),
            signature=call_signatures.describe_call(function, args, kwargs),
            graph=trace.get("graph"),
        )

    def _patch_trace(self, module: Any) -> None:
        recorder, state, tracers, in_a_trace = self.recorder, self.state, self._tracers, self._in_a_trace
        checking = self.checking

        def make(original: Wrapper) -> Wrapper:
            def func_graph_from_py_func(*args: Any, **kwargs: Any) -> Any:
                me = state.me
                if me.tracing:
                    inner = original(*args, **kwargs)
                    recorder.guard("graph", me.graph.add, inner)
                    return inner
                if not recorder.active or (not me.main and in_a_trace()):
                    return original(*args, **kwargs)
                me.tracing = 1
                me.busy += 1
                me.training = False
                me.graph = GraphSummary()
                tracers.append(me)
                if checking is not None:
                    args, kwargs = checking.with_batch_returned(args, kwargs)
                start = now()
                graph = None
                try:
                    graph = original(*args, **kwargs)
                    return graph
                finally:
                    end = now()
                    tracers.remove(me)
                    me.tracing = 0
                    me.busy -= 1
                    me.traces += 1
                    recorder.guard("graph", record_trace, me, graph, start, end)

            return func_graph_from_py_func

        def record_trace(me: Flags, graph: Any, start: int, end: int) -> None:
            in_call = me.busy > 0
            recorder.span(recorder.name("trace", "function" if in_call else "other"), start, end)
            if in_call:
                if graph is not None:
                    recorder.guard("graph's ops", me.graph.add, graph)
                if graph is not None and checking is not None:
                    recorder.guard("checking", checking.add_traced_graph, graph)
                previous = me.last_trace or {"ns": 0, "training": False}
                me.last_trace = {
                    "ns": previous["ns"] + end - start,
                    "training": previous["training"] or me.training,
                    "graph": me.graph.facts(),
                }

        replace_function(module, "func_graph_from_py_func", make)

    # -- gradients

    def _keep_eager_loss(self, loss: Any, frame: FrameType) -> None:
        self.progress.keep({"loss": loss}, EAGER_STEP, user_code.user_function_place(frame))

    def _patch_gradient(self, module: Any) -> None:
        recorder, state, progress, differentiated = self.recorder, self.state, self.progress, self._keep_eager_loss
        tracers, in_a_trace = self._tracers, self._in_a_trace
        eager = self.checking.eager if self.checking is not None else None

        def make(original: Wrapper) -> Wrapper:
            def gradient(self: Any, *args: Any, **kwargs: Any) -> Any:
                me = state.me
                if me.tracing:
                    me.training = True
                    result = original(self, *args, **kwargs)
                    if eager is not None and eager.again is not None:
                        eager.store_replayed_gradients(args[0] if args else kwargs.get("target"), result)
                    return result
                if not recorder.active:
                    return original(self, *args, **kwargs)
                if not me.main and in_a_trace():
                    for tracer in tracers:
                        tracer.training = True
                    return original(self, *args, **kwargs)
                if not me.loops and not me.busy:  # inside a call functions run eagerly
                    progress.step(2)
                    if args and (progress.wanted or progress.trajectory is not None):
                        recorder.guard("loss", differentiated, args[0], sys._getframe(1))
                start = now()
                try:
                    result = original(self, *args, **kwargs)
                finally:
                    recorder.guard("gradient", record_gradient, start, now(), sys._getframe(1))
                if eager is not None:
                    recorder.guard("checking", eager.check_gradient, self, args, kwargs, sys._getframe(1))
                return result

            return gradient

        def record_gradient(start: int, end: int, frame: FrameType) -> None:
            recorder.span(recorder.name_at(frame, "gradient", "gradient", "gradient"), start, end)

        replace_function(module.GradientTape, "gradient", make)


def _function_facts(function: Any) -> dict[str, Any]:
    """Returns the facts noted when a tf.function was created and traced. There are few if it existed before us."""
    about: dict[str, Any] = function.__dict__.setdefault("_slowtrain", {"qualname": "tf.function", "number": 0})
    return about


def _step_kind(function: Any) -> int:
    """Returns the kind of step, as :meth:`Progress.step` counts."""
    return 3 if _function_facts(function).get("training") else 1

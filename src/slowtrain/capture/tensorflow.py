"""Patches of TensorFlow: functions and their traces, gradients.

Each wrapper takes two clock readings and writes one span. The names patched are the same
in TensorFlow 2.15 and 2.21.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from slowtrain.capture import frames, signatures
from slowtrain.capture.graphs import GraphSummary
from slowtrain.capture.patching import Wrapper, on_import, replace
from slowtrain.capture.recorder import Recorder, now
from slowtrain.capture.state import Flags, Progress, ThreadState

FUNCTION = "tensorflow.python.eager.polymorphic_function.polymorphic_function"


class TensorFlowPatches:
    """Installs itself through import hooks; see :meth:`install`."""

    def __init__(self, recorder: Recorder, state: ThreadState, progress: Progress) -> None:
        self.recorder = recorder
        self.state = state
        self.progress = progress
        self._functions = 0
        self._tracers: list[Flags] = []  # of threads that are tracing a function now

    def install(self) -> None:
        for module, patch in (
            (FUNCTION, self._patch_function),
            ("tensorflow.python.framework.func_graph", self._patch_trace),
            ("tensorflow.python.eager.backprop", self._patch_gradient),
        ):
            on_import(self.recorder, module, patch)

    def _in_a_trace(self) -> bool:
        """Whether another thread works for a trace: a distribution strategy traces each replica in one of its own."""
        return bool(self._tracers) and not sys.modules["tensorflow.python.eager.context"].executing_eagerly()

    # -- tf.function

    def _patch_function(self, module: Any) -> None:
        recorder, state, progress = self.recorder, self.state, self.progress
        emit, ids, traced, in_a_trace = recorder.emit, recorder.ids, self._traced, self._in_a_trace
        batch_size = signatures.batch_size

        def call(original: Wrapper) -> Wrapper:
            def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
                me = state.me
                if not recorder.active or me.calls or me.tracing or (not me.main and in_a_trace()):
                    return original(self, *args, **kwargs)
                about = self.__dict__.get("_slowtrain") or _UNKNOWN
                if not me.loops:
                    progress.step(3 if about.get("training") else 1)
                traces = me.traces
                me.calls = 1
                start = now()
                try:
                    result = original(self, *args, **kwargs)
                finally:
                    end = now()
                    me.calls = 0
                    frame = sys._getframe(1)
                    number = about.get("number")
                    # Everything from here on runs in cold caches, after a step: known names take no call of ours.
                    name = ids.get((number, me.steps) if me.loops else (number, id(frame.f_code), frame.f_lasti))
                    if me.traces != traces:
                        recorder.guard("trace", traced, self, about, args, kwargs, start, end, frame)
                    if name is None:
                        name = recorder.guard("function", named, about, me, frame)
                    try:
                        emit((name or 0, start, end, me.ident, batch_size(args)))
                    except Exception:
                        recorder.fault("function")
                if progress.wanted and not me.loops:
                    known = self.__dict__.get("_slowtrain") or about  # the first call is the one that traces
                    recorder.guard("loss", progress.keep, result, 3 if known.get("training") else 1)
                return result

            return __call__

        def named(about: dict[str, Any], me: Flags, frame: FrameType) -> int:
            number = about.get("number")
            if me.loops:
                return recorder.name("function", str(about.get("qualname")), (number, me.steps), site=None, **about)
            return recorder.name_at(frame, "function", str(about.get("qualname")), number, **about)

        replace(module.Function, "__init__", self._init)
        replace(module.Function, "__call__", call)

    def _init(self, original: Wrapper) -> Wrapper:
        recorder, state = self.recorder, self.state

        def __init__(self: Any, python_function: Any, *args: Any, **kwargs: Any) -> None:
            original(self, python_function, *args, **kwargs)
            recorder.guard("tf.function", number, self, python_function, sys._getframe(1))

        def number(function: Any, python_function: Any, frame: FrameType) -> None:
            self._functions += 1
            about = frames.describe(python_function)
            about["number"] = self._functions
            about["made"] = None if state.me.loops else frames.place(frame)
            function._slowtrain = about

        return __init__

    def _traced(
        self, function: Any, about: dict[str, Any], args: Any, kwargs: Any, start: int, end: int, frame: FrameType
    ) -> None:
        """Notes a call that traced its function, with what was given to it."""
        me = self.state.me
        trace, me.last_trace = me.last_trace or {}, None
        if trace.get("training"):
            about["training"] = True
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
            site=frames.place(frame),
            signature=signatures.describe(function, args, kwargs),
            graph=trace.get("graph"),
        )

    def _patch_trace(self, module: Any) -> None:
        recorder, state, tracers, in_a_trace = self.recorder, self.state, self._tracers, self._in_a_trace

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
                me.training = False
                me.graph = GraphSummary()
                tracers.append(me)
                start = now()
                graph = None
                try:
                    graph = original(*args, **kwargs)
                    return graph
                finally:
                    end = now()
                    tracers.remove(me)
                    me.tracing = 0
                    me.traces += 1
                    recorder.guard("graph", done, me, graph, start, end)

            return func_graph_from_py_func

        def done(me: Flags, graph: Any, start: int, end: int) -> None:
            in_call = me.calls > 0
            recorder.span(recorder.name("trace", "function" if in_call else "other"), start, end)
            if in_call:
                if graph is not None:
                    recorder.guard("graph's ops", me.graph.add, graph)
                previous = me.last_trace or {"ns": 0, "training": False}
                me.last_trace = {
                    "ns": previous["ns"] + end - start,
                    "training": previous["training"] or me.training,
                    "graph": me.graph.facts(),
                }

        replace(module, "func_graph_from_py_func", make)

    # -- gradients

    def _patch_gradient(self, module: Any) -> None:
        recorder, state, progress = self.recorder, self.state, self.progress
        tracers, in_a_trace = self._tracers, self._in_a_trace

        def make(original: Wrapper) -> Wrapper:
            def gradient(self: Any, *args: Any, **kwargs: Any) -> Any:
                me = state.me
                if me.tracing:
                    me.training = True
                    return original(self, *args, **kwargs)
                if not recorder.active:
                    return original(self, *args, **kwargs)
                if not me.main and in_a_trace():
                    for tracer in tracers:
                        tracer.training = True
                    return original(self, *args, **kwargs)
                if not me.loops and not me.calls:  # inside a call: functions run eagerly
                    progress.step(2)
                    if progress.trajectory is not None and args:
                        recorder.guard("loss", progress.keep, {"loss": args[0]}, 2)
                start = now()
                try:
                    return original(self, *args, **kwargs)
                finally:
                    recorder.guard("gradient", done, start, now(), sys._getframe(1))

            return gradient

        def done(start: int, end: int, frame: FrameType) -> None:
            recorder.span(recorder.name_at(frame, "gradient", "gradient", "gradient"), start, end)

        replace(module.GradientTape, "gradient", make)


_UNKNOWN: dict[str, Any] = {"qualname": "tf.function", "number": 0}

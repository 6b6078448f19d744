"""Patches of TensorFlow: functions and their traces, gradients, tensors made and read by hand, Python in ops.

Each wrapper takes two clock readings and writes one span. The names patched are the same
in TensorFlow 2.15 and 2.21.
"""

from __future__ import annotations

import sys
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

    def install(self) -> None:
        for module, patch in (
            (FUNCTION, self._patch_function),
            ("tensorflow.python.framework.func_graph", self._patch_trace),
            ("tensorflow.python.eager.backprop", self._patch_gradient),
            ("tensorflow.python.framework.ops", self._patch_readback),
            ("tensorflow", self._patch_feed),
        ):
            on_import(self.recorder, module, patch)

    # -- tf.function

    def _patch_function(self, module: Any) -> None:
        recorder, state, progress = self.recorder, self.state, self.progress
        emit, ids = recorder.emit, recorder.ids

        def init(original: Wrapper) -> Wrapper:
            def __init__(self: Any, python_function: Any, *args: Any, **kwargs: Any) -> None:
                original(self, python_function, *args, **kwargs)
                recorder.guard("tf.function", number, self, python_function)

            return __init__

        def number(function: Any, python_function: Any) -> None:
            self._functions += 1
            about = frames.describe(python_function)
            about["number"] = self._functions
            about["made"] = None if state.me.loops else frames.site(4)
            function._slowtrain = about

        def call(original: Wrapper) -> Wrapper:
            def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
                me = state.me
                if not recorder.active or me.calls or me.tracing:
                    return original(self, *args, **kwargs)
                about = self.__dict__.get("_slowtrain") or _UNKNOWN
                if not me.loops:
                    progress.step(3 if about.get("training") else 1)
                traces = me.traces
                me.calls = 1
                start = now()
                try:
                    result = original(self, *args, **kwargs)
                    if not me.loops:
                        progress.last_result = result
                    return result
                finally:
                    end = now()
                    me.calls = 0
                    if me.traces != traces:
                        recorder.guard("trace", traced, self, about, args, kwargs, start, end)
                    emit((called(about, me, sys._getframe(1)), start, end, me.ident, signatures.batch_size(args)))

            return __call__

        def called(about: dict[str, Any], me: Flags, frame: Any) -> int:
            if me.loops:
                key: Any = (about.get("number"), me.steps)
                place = None
            else:
                frame = frames.user_frame(frame)
                key = (about.get("number"), frame.f_code, frame.f_lineno) if frame else about.get("number")
                place = (frame.f_code.co_filename, frame.f_lineno) if frame else None
            known = ids.get(key)
            if known is not None:
                return known
            return recorder.name("function", str(about.get("qualname")), key, site=place, **about)

        def traced(function: Any, about: dict[str, Any], args: Any, kwargs: Any, start: int, end: int) -> None:
            trace = state.me.last_trace or {}
            if trace.get("training"):
                about["training"] = True
            about["traces"] = about.get("traces", 0) + 1
            frame = frames.user_frame(sys._getframe(3))
            recorder.event(
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
                keras=bool(state.me.loops),
                site=(frame.f_code.co_filename, frame.f_lineno) if frame else None,
                signature=signatures.describe(function, args, kwargs),
                graph=trace.get("graph"),
            )
            state.me.last_trace = None

        replace(module.Function, "__init__", init)
        replace(module.Function, "__call__", call)

    def _patch_trace(self, module: Any) -> None:
        recorder, state = self.recorder, self.state

        def make(original: Wrapper) -> Wrapper:
            def func_graph_from_py_func(*args: Any, **kwargs: Any) -> Any:
                if state.me.tracing:
                    inner = original(*args, **kwargs)
                    recorder.guard("graph", state.me.graph.add, inner)
                    return inner
                state.me.tracing = 1
                state.me.training = False
                state.me.graph = GraphSummary()
                start = now()
                graph = None
                try:
                    graph = original(*args, **kwargs)
                    return graph
                finally:
                    end = now()
                    state.me.tracing = 0
                    state.me.traces += 1
                    in_call = state.me.calls > 0
                    if in_call and graph is not None:
                        recorder.guard("graph", state.me.graph.add, graph)
                    recorder.span(recorder.name("trace", "function" if in_call else "other"), start, end)
                    if in_call:
                        previous = state.me.last_trace or {"ns": 0, "training": False}
                        state.me.last_trace = {
                            "ns": previous["ns"] + end - start,
                            "training": previous["training"] or state.me.training,
                            "graph": state.me.graph.facts(),
                        }

            return func_graph_from_py_func

        replace(module, "func_graph_from_py_func", make)

    # -- gradients

    def _patch_gradient(self, module: Any) -> None:
        recorder, state, progress = self.recorder, self.state, self.progress

        def make(original: Wrapper) -> Wrapper:
            def gradient(self: Any, *args: Any, **kwargs: Any) -> Any:
                if state.me.tracing:
                    state.me.training = True
                    return original(self, *args, **kwargs)
                if not recorder.active:
                    return original(self, *args, **kwargs)
                if not state.me.loops and not state.me.calls:  # inside a call: functions run eagerly
                    progress.step(2)
                start = now()
                try:
                    return original(self, *args, **kwargs)
                finally:
                    end = now()
                    frame = frames.user_frame(sys._getframe(1))
                    place = (frame.f_code.co_filename, frame.f_lineno) if frame else None
                    recorder.span(recorder.name("gradient", "gradient", ("gradient", place), site=place), start, end)

            return gradient

        replace(module.GradientTape, "gradient", make)

    # -- tensors read back and made by hand

    def _patch_readback(self, module: Any) -> None:
        recorder, state = self.recorder, self.state

        def make(original: Wrapper) -> Wrapper:
            def _numpy(self: Any) -> Any:
                me = state.me
                if me.calls or me.tracing or not recorder.active or not me.main:
                    return original(self)
                start = now()
                try:
                    return original(self)
                finally:
                    end = now()
                    frame = sys._getframe(1)
                    outer = frames.user_frame(frame) if not me.loops else None
                    if outer is None:
                        key: Any = "readback"
                        place = None
                    else:
                        place = (outer.f_code.co_filename, outer.f_lineno)
                        key = ("readback", place)
                    name = recorder.ids.get(key) or recorder.name(
                        "readback", frame.f_code.co_name, key, site=place
                    )
                    recorder.emit((name, start, end, me.ident, 0))

            return _numpy

        replace(module._EagerTensorBase, "_numpy", make)

    def _patch_feed(self, module: Any) -> None:
        recorder, state = self.recorder, self.state
        tensor = module.Tensor

        def make(original: Wrapper) -> Wrapper:
            def convert(*args: Any, **kwargs: Any) -> Any:
                me = state.me
                if me.calls or me.tracing or me.loops or not args or isinstance(args[0], tensor):
                    return original(*args, **kwargs)
                if not recorder.active or not me.main:
                    return original(*args, **kwargs)
                start = now()
                try:
                    return original(*args, **kwargs)
                finally:
                    end = now()
                    frame = frames.user_frame(sys._getframe(1))
                    if frame is not None:
                        place = (frame.f_code.co_filename, frame.f_lineno)
                        key = ("feed", place)
                        name = recorder.ids.get(key) or recorder.name("feed", original.__name__, key, site=place)
                        recorder.span(name, start, end, signatures.host_bytes(args[:1]))

            return convert

        for name in ("convert_to_tensor", "constant"):
            replace(module, name, make)


_UNKNOWN: dict[str, Any] = {"qualname": "tf.function", "number": 0}

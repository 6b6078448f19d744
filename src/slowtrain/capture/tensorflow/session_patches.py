"""Calls of ``Session.run``, the steps of TensorFlow 1, and the graphs that sessions run.

A call counts as a call of a function at the calling line. It trains if its fetches depend on a gradient and change
variables.
"""

from __future__ import annotations

import itertools
import re
import sys
import weakref
from collections import Counter, deque
from collections.abc import Iterator
from types import FrameType
from typing import Any

from slowtrain.capture.core.patching import Wrapper, patch_on_import, replace_function
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Progress, ThreadState
from slowtrain.capture.inspection import call_signatures, graph_summary, user_code

MAX_FETCHED_OPS = 20_000  # examined for the fetches of one call: a tenth of a second, at a first call
NEWEST_OPS = 64  # ops of a graph whose lines are looked up; 30 µs each
MAX_GRAPHS = 4
MIN_OP_BYTES = 1000  # minimum for an op in a graph: its Python object and the node behind it
_UPDATE_OPS = re.compile(r"^(?:Resource)?(?:Sparse)?Apply|^(?:Resource)?Scatter|^Assign")
_GRADIENT_SCOPE = re.compile(r"(?:^|/)gradients(?:_\d+)?/")
_session_graphs: deque[tuple[str, weakref.ref[Any]]] = deque(maxlen=MAX_GRAPHS)
_graph_numbers = itertools.count(1)


class SessionPatches:
    """Times ``Session.run``, and the conversion of the values in its ``feed_dict`` to arrays."""

    def __init__(self, recorder: Recorder, state: ThreadState, progress: Progress) -> None:
        self.recorder = recorder
        self.state = state
        self.progress = progress
        self._kinds: dict[tuple[int, int], int] = {}  # by the calling code and the offset in it

    def install(self) -> None:
        patch_on_import(self.recorder, "tensorflow.python.client.session", self._patch)

    def _patch(self, module: Any) -> None:
        recorder, state, progress, fed = self.recorder, self.state, self.progress, self._record_feed

        def make(original: Wrapper) -> Wrapper:
            def run(self: Any, fetches: Any, *args: Any, **kwargs: Any) -> Any:
                me = state.me
                if me.busy or me.loops or not recorder.active:
                    return original(self, fetches, *args, **kwargs)
                frame = user_code.user_frame(sys._getframe(1))
                kind = recorder.guard("session", kind_of, self, fetches, frame) or 1
                progress.step(kind)
                me.busy += 1
                me.fed = 0
                start = now()
                try:
                    return original(self, fetches, *args, **kwargs)
                finally:
                    end = now()
                    me.busy -= 1
                    recorder.guard("session", record_run, frame, kind, start, end)
                    if me.fed:
                        recorder.guard("session", fed, frame, start, me.fed, args, kwargs)

            return run

        def wrap_fetch_init(original: Wrapper) -> Wrapper:
            def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
                state.me.fed = now()  # the arguments of the call are arrays by now
                original(self, *args, **kwargs)

            return __init__

        def kind_of(session: Any, fetches: Any, frame: FrameType | None) -> int:
            place = (id(frame.f_code), frame.f_lasti) if frame is not None else (0, 0)
            kind = self._kinds.get(place)
            if kind is None:
                watch_graph(session.graph)
                kind = self._kinds[place] = 3 if _is_training_fetch(fetches) else 1
            return kind

        def record_run(frame: FrameType | None, kind: int, start: int, end: int) -> None:
            file, line = (frame.f_code.co_filename, frame.f_lineno) if frame is not None else (None, 0)
            about = {"file": file, "line": line, "qualname": "Session.run", "training": kind == 3}
            name = recorder.name_at(frame, "function", "Session.run", "Session.run", **about)
            recorder.span(name, start, end)

        replace_function(module.BaseSession, "run", make)
        replace_function(module._FetchHandler, "__init__", wrap_fetch_init)

    def _record_feed(self, frame: FrameType | None, start: int, end: int, args: Any, kwargs: Any) -> None:
        feed = args[0] if args else kwargs.get("feed_dict")
        if feed:
            name = self.recorder.name_at(frame, "feed", "Session.run", "feed of a session")
            self.recorder.span(name, start, end, call_signatures.host_bytes(tuple(feed.values())))


def watch_graph(graph: Any) -> None:
    """Also counts this graph's ops, as long as it lives."""
    if all(known() is not graph for _, known in _session_graphs):
        _session_graphs.append((f"graph {next(_graph_numbers)} of a session", weakref.ref(graph)))


def graph_op_counts() -> Iterator[tuple[str, Any, int]]:
    """Yields the graphs that code without functions builds: name, graph, number of ops."""
    ops: Any = sys.modules.get("tensorflow.python.framework.ops")
    default = getattr(getattr(ops, "_default_graph_stack", None), "_global_default_graph", None)
    run = [
        (name, graph)
        for name, known in list(_session_graphs)
        if (graph := known()) is not None and graph is not default
    ]
    for name, graph in [("default graph", default), *run]:
        count = getattr(graph, "num_operations", None)
        if callable(count):
            yield name, graph, int(count())


def describe_growing_graph(graph: Any) -> dict[str, Any]:
    """Describes a growing graph: the user's lines that made its newest ops, those that made most first."""
    lines = (graph_summary.user_line(op.traceback) for op in graph.get_operations()[-NEWEST_OPS:])
    found = Counter(line for line in lines if line is not None)
    sites = [list(line) for line, _ in found.most_common(3)]
    return {"kind": "graph", "element": "op", "element_bytes": MIN_OP_BYTES, "at_least": True, "sites": sites}


def _is_training_fetch(fetches: Any) -> bool:
    todo, seen = deque(_fetched_ops(fetches)), set[str]()
    changes = gradient = False
    while todo and len(seen) < MAX_FETCHED_OPS:
        op = todo.popleft()
        if op.name in seen:
            continue
        seen.add(op.name)
        changes = changes or _UPDATE_OPS.search(op.type) is not None
        gradient = gradient or _GRADIENT_SCOPE.search(op.name) is not None
        if changes and gradient:
            return True
        todo += [one.op for one in op.inputs]
        todo += op.control_inputs
    return False


def _fetched_ops(fetches: Any) -> Iterator[Any]:
    """Yields the ops that a call fetches."""
    if isinstance(fetches, dict):
        fetches = list(fetches.values())
    for one in fetches if isinstance(fetches, (list, tuple)) else [fetches]:
        if isinstance(one, (list, tuple, dict)):
            yield from _fetched_ops(one)
            continue
        op = one if hasattr(one, "control_inputs") else getattr(one, "op", None)
        if op is not None and hasattr(op, "control_inputs"):
            yield op

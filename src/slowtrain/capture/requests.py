"""The allocator's record of a probe's first steps: TensorFlow's profiler from its import to the last of them.

At the end it is noted what the variables take, and which of them belong to an optimizer; and which op reads which, as
the graphs ran in the end: what memory comes back when an op ends hangs on who else still reads it.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slowtrain.capture.patching import on_import
from slowtrain.capture.recorder import Recorder, now
from slowtrain.capture.state import Progress

FOLDER = "requests"
GRAPH = "graph.json"  # in it: the inputs of each op, by name
MOST_NODES = 200_000
OPTIONS = {"host_tracer_level": 2, "device_tracer_level": 0, "python_tracer_level": 0}
TRAINING = (2, 3, 5)  # kinds of steps, see Progress.step: a gradient taken, a training function, a step of fit
MOST_VARIABLES = 5000


class Requests:
    """Ends the process, by ``leave``, after ``steps`` training steps. In a probe without windows of its own."""

    def __init__(self, recorder: Recorder, progress: Progress, steps: int, leave: Callable[[], None]) -> None:
        self.recorder = recorder
        self.progress = progress
        self.steps = steps
        self.leave = leave
        self._sessions: list[Any] = []

    def install(self) -> None:
        on_import(self.recorder, "tensorflow", self._begin)
        on_import(self.recorder, "tensorflow.python.profiler.profiler_v2", self._only_ours)
        self.progress.boundary = self._at_boundary
        self.recorder.at_exit.append(self._end)

    def _begin(self, _module: Any) -> None:
        from tensorflow.python.profiler.internal import _pywrap_profiler

        session = _pywrap_profiler.ProfilerSession()
        session.start(str(self.recorder.folder / FOLDER), OPTIONS)
        self._sessions.append(session)
        self.recorder.guard("graphs", _collect)

    def _only_ours(self, module: Any) -> None:
        """There can be only one profiler; the script's own would end the probe with an error."""
        module.start = module.stop = lambda *_, **__: None

    def _at_boundary(self, steps: int) -> None:
        if self.progress.kind in TRAINING and steps > self.steps and threading.current_thread() is _MAIN:
            self.recorder.fact("stopped_ns", now())
            self._end()
            self.recorder.guard("notes", self._note)
            self.recorder.halt()
            self.leave()

    def _end(self) -> None:
        if not self._sessions:
            return
        self.recorder.guard("variables", lambda: self.recorder.fact("variables", variables()))
        self.recorder.guard("requests", self._sessions.pop().export_to_tb)
        self.recorder.guard("graphs", lambda: self._inputs(self.recorder.folder / FOLDER / GRAPH))
        self.recorder.fact("requests", {"steps": self.progress.steps, "kind": self.progress.kind})

    def _inputs(self, file: Path) -> None:
        from tensorflow.python.eager import context

        found: dict[str, set[str]] = {}
        for function in context.context().export_run_metadata().function_graphs:
            for graph in function.partition_graphs:
                for node in graph.node:
                    if len(found) < MOST_NODES:
                        given = (i.partition(":")[0] for i in node.input if not i.startswith("^"))
                        found.setdefault(node.name, set()).update(given)
        file.write_text(json.dumps({op: sorted(given) for op, given in found.items()}), encoding="utf-8")

    def _note(self) -> None:
        for call in self.recorder.at_exit:
            if call != self._end:
                self.recorder.guard("at exit", call)


_MAIN = threading.main_thread()


def _collect() -> None:
    """What ``tf.summary.trace_on(graph=True)`` calls; it is for functions that are first run after it."""
    from tensorflow.python.eager import context

    context.context().enable_graph_collection()


def variables() -> dict[str, int]:
    """Bytes of all variables that are alive: those of optimizers, the others that are trained, and the rest."""
    tensorflow = sys.modules["tensorflow"]
    found: dict[int, Any] = {}
    optimizers: set[int] = set()
    for one in gc.get_objects():
        kind = type(one)
        if issubclass(kind, tensorflow.Variable):
            found[id(one)] = one
        elif hasattr(kind, "apply_gradients") and hasattr(kind, "variables"):
            optimizers.update(id(v) for v in _of_optimizer(one))
    totals = {"optimizer": 0, "trained": 0, "other": 0}
    for key, variable in list(found.items())[:MOST_VARIABLES]:
        size = int(variable.dtype.size) * (int(variable.shape.num_elements() or 0))
        part = "optimizer" if key in optimizers else "trained" if variable.trainable else "other"
        totals[part] += size
    return totals


def _of_optimizer(optimizer: Any) -> list[Any]:
    known = optimizer.variables
    known = known() if callable(known) else known
    # Keras 3 wraps them; of TensorFlow's own, ``value`` is a method.
    return [v if callable(getattr(v, "value", None)) else getattr(v, "value", v) for v in known]

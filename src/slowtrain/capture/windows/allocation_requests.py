"""Records the allocator's activity in a probe's first steps, with TensorFlow's profiler, from its import to the last
step.

At the end it records the bytes of variables, and which of them belong to an optimizer. It also records which op reads
which, from the graphs as they ran: an op's end frees memory only if no other op reads it.

JAX's GPU has an allocator of the same kind, and a profiler of its own, which exists once JAX has opened its devices.
Its record is in a separate folder, because a script may use ``tf.data`` with JAX.
"""

from __future__ import annotations

import gc
import json
import math
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slowtrain.capture.core.patching import Wrapper, patch_on_import, replace_function
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Progress
from slowtrain.capture.jax import keras_backend
from slowtrain.capture.windows import framework_profilers

REQUESTS_FOLDER, JAX_REQUESTS_FOLDER = "requests", "requests-jax"
GRAPH_FILE = "graph.json"  # in the folder: the inputs of each op, by name
MAX_GRAPH_NODES = 200_000
PROFILER_OPTIONS = {"host_tracer_level": 2, "device_tracer_level": 0, "python_tracer_level": 0}
TRAINING_KINDS = (2, 3, 5)  # kinds of steps, see Progress.step: eager gradient, training function, step of fit
MAX_VARIABLES = 5000


class AllocationRequests:
    """Ends the process through ``leave`` after ``steps`` training steps. The probe has no windows of its own."""

    def __init__(self, recorder: Recorder, progress: Progress, steps: int, leave: Callable[[], None]) -> None:
        self.recorder = recorder
        self.progress = progress
        self.steps = steps
        self.leave = leave
        self._looked = False
        self._ends: dict[
            str, framework_profilers.EndProfile
        ] = {}  # by framework, what ends its profiler and writes its file

    def install(self) -> None:
        patch_on_import(self.recorder, "tensorflow", self._begin)
        patch_on_import(self.recorder, "tensorflow.python.profiler.profiler_v2", self._only_ours)
        patch_on_import(
            self.recorder, "jax._src.xla_bridge", lambda module: replace_function(module, "backends", self._opening)
        )
        for name in (framework_profilers.JAX_PROFILER, "jax.profiler"):
            patch_on_import(self.recorder, name, self._only_ours)
        self.progress.boundary = self._at_boundary
        self.recorder.at_exit.append(self._end)

    def _begin(self, _module: Any) -> None:
        from tensorflow.python.profiler.internal import _pywrap_profiler

        session = _pywrap_profiler.ProfilerSession()
        session.start(str(self.recorder.folder / REQUESTS_FOLDER), PROFILER_OPTIONS)
        self._ends["tensorflow"] = session.export_to_tb
        self.recorder.guard("graphs", _enable_graph_collection)

    def _opening(self, original: Wrapper) -> Wrapper:
        def backends(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            if "jax" not in self._ends:
                end = self.recorder.guard(
                    "requests",
                    framework_profilers.begin_jax_profile,
                    self.recorder.folder / JAX_REQUESTS_FOLDER,
                    PROFILER_OPTIONS,
                )
                self._ends["jax"] = end or (lambda: None)
            return found

        return backends

    def _only_ours(self, module: Any) -> None:
        """Disables the script's own profiler.

        There can be only one, and the script's would end the probe with an error.
        """
        for name in ("start", "stop", "start_trace", "stop_trace"):
            if hasattr(module, name):
                setattr(module, name, lambda *_, **__: None)

    def _at_boundary(self, steps: int) -> None:
        if self.progress.kind not in TRAINING_KINDS or threading.current_thread() is not _MAIN_THREAD:
            return
        if steps == self.steps:
            self._look()
        if steps > self.steps:
            self.recorder.fact("stopped_ns", now())
            self._end()
            self.recorder.guard("notes", self._note)
            self.recorder.halt()
            self.leave()

    def _end(self) -> None:
        if not self._ends:
            return
        self._look()
        for end in self._ends.values():
            self.recorder.guard("requests", end)
        if "tensorflow" in self._ends:
            self.recorder.guard("graphs", lambda: self._inputs(self.recorder.folder / REQUESTS_FOLDER / GRAPH_FILE))
        self._ends.clear()
        self.recorder.fact("requests", {"steps": self.progress.steps, "kind": self.progress.kind})

    def _look(self) -> None:
        """Reads the variables once.

        JAX closes its devices before we are called, if a script ends with its last step.
        """
        if self._looked:
            return
        self._looked = True
        self.recorder.guard("variables", lambda: self.recorder.fact("variables", variable_bytes()))
        if keras_backend.active_jax() is not None:
            self.recorder.guard("allocator", lambda: self.recorder.fact("allocator", keras_backend.allocator_limit()))

    def _inputs(self, file: Path) -> None:
        from tensorflow.python.eager import context

        found: dict[str, set[str]] = {}
        for function in context.context().export_run_metadata().function_graphs:
            for graph in function.partition_graphs:
                for node in graph.node:
                    if len(found) < MAX_GRAPH_NODES:
                        inputs = (i.partition(":")[0] for i in node.input if not i.startswith("^"))
                        found.setdefault(node.name, set()).update(inputs)
        file.write_text(json.dumps({op: sorted(inputs) for op, inputs in found.items()}), encoding="utf-8")

    def _note(self) -> None:
        for call in self.recorder.at_exit:
            if call != self._end:
                self.recorder.guard("at exit", call)


_MAIN_THREAD = threading.main_thread()


def _enable_graph_collection() -> None:
    """Enables the graph collection of ``tf.summary.trace_on(graph=True)``, for functions that first run after it."""
    from tensorflow.python.eager import context

    context.context().enable_graph_collection()


def variable_bytes() -> dict[str, int]:
    """Returns the bytes of all live variables: of optimizers, other trainable ones, and the rest.

    Arrays of a JAX script are no variables, because their purpose is not known.
    """
    kind, size = _variable_type()
    found: dict[int, Any] = {}
    optimizers: set[int] = set()
    for one in gc.get_objects():
        if issubclass(type(one), kind):
            found[id(one)] = one
        elif hasattr(type(one), "apply_gradients") and hasattr(type(one), "variables"):
            optimizers.update(id(v) for v in _optimizer_variables(one, kind))
    totals = {"optimizer": 0, "trained": 0, "other": 0}
    for key, variable in list(found.items())[:MAX_VARIABLES]:
        part = "optimizer" if key in optimizers else "trained" if variable.trainable else "other"
        totals[part] += size(variable)
    return totals


def _variable_type() -> tuple[Any, Callable[[Any], int]]:
    """Returns the class of the framework's variables, and a function for the bytes of one."""
    if keras_backend.active_jax() is not None:
        module = sys.modules.get("keras.src.backend.common.variables")
        kind = getattr(module, "Variable", None) or getattr(module, "KerasVariable", ())
        # Keras takes their values away while it trains; shape and dtype stay.
        return kind, lambda v: math.prod(v.shape) * int(sys.modules["jax"].numpy.dtype(v.dtype).itemsize)
    kind = sys.modules["tensorflow"].Variable
    return kind, lambda v: int(v.dtype.size) * (int(v.shape.num_elements() or 0))


def _optimizer_variables(optimizer: Any, kind: Any) -> list[Any]:
    known = optimizer.variables
    known = known() if callable(known) else known
    # Keras 3 wraps TensorFlow's variables; ``value`` of TensorFlow's own is a method.
    return [v if isinstance(v, kind) or callable(getattr(v, "value", None)) else getattr(v, "value", v) for v in known]

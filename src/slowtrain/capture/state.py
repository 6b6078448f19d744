"""What the wrappers of one thread know of each other, and of the training in progress."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from slowtrain.capture.graphs import GraphSummary

MOST_KEPT = 400  # results of a probe's steps


class Flags:
    """``calls``: tf.function calls under way; ``traces``: functions traced so far in this thread."""

    __slots__ = (
        "calls",
        "graph",
        "ident",
        "last_trace",
        "loops",
        "main",
        "python",
        "steps",
        "traces",
        "tracing",
        "training",
    )

    def __init__(self) -> None:
        self.ident = threading.get_ident()
        # Not current_thread(): for a thread of TensorFlow's that would add one to threading.enumerate().
        self.main = self.ident == threading.main_thread().ident
        self.calls = 0
        self.tracing = 0
        self.traces = 0
        self.steps = 0  # Keras steps under way (a step inside a step is not counted)
        self.loops = 0  # Keras fit, evaluate, predict under way
        self.training = False  # a gradient was taken during the trace under way
        self.last_trace: dict[str, Any] | None = None
        self.python = 0  # calls of Python inside an op under way
        self.graph = GraphSummary()  # of the trace under way


class ThreadState(threading.local):
    """``me``: the flags of the current thread. One look-up a wrapper, for it costs more than what follows."""

    def __init__(self) -> None:
        self.me = Flags()


class Progress:
    """Steps seen so far; whoever waits for a step boundary (the windows) is told."""

    def __init__(self) -> None:
        self.steps = 0
        self.kind = 0  # the strongest kind of step seen: a Keras step counts over the functions in it
        self.boundary: Callable[[int], None] | None = None
        self.wanted = False  # whether the next step's result is to be looked at
        self.last_scalars: list[tuple[str, Any]] = []
        self.trajectory: list[tuple[int, list[tuple[str, Any]]]] | None = None  # a probe keeps its first

    def step(self, kind: int) -> None:
        """A step is about to begin. ``kind``: 1 inference function, 2 eager gradient, 3 training function, 4 Keras."""
        if kind < self.kind:
            return
        if kind > self.kind:
            self.kind = kind
            self.steps = 0
        self.steps += 1
        if self.boundary is not None:
            self.boundary(self.steps)

    def keep(self, result: Any, kind: int) -> None:
        """Keeps the scalars of a step's result. Not the result: it may be large, and free memory for the next step.

        ``kind`` is that of :meth:`step`; of a probe's losses those of the strongest kind count.
        """
        self.wanted = False
        items = list(result.items()) if isinstance(result, dict) else [("result", result)]
        if isinstance(result, (list, tuple)):
            items = [(f"result[{i}]", v) for i, v in enumerate(result[:8])]
        found = []
        for name, value in items[:16]:
            dtype = getattr(value, "dtype", None)
            if getattr(dtype, "is_floating", False) and getattr(value, "shape", None) == ():
                found.append((str(name), value))
        self.last_scalars = found
        if self.trajectory is None:
            return
        self.wanted = True
        if len(self.trajectory) < MOST_KEPT:
            self.trajectory.append((kind, found))

"""Times ``__getitem__`` of PyDataset and Sequence, which worker threads of Keras call."""

from __future__ import annotations

from typing import Any

from slowtrain.capture.core.line_tracer import LineClock
from slowtrain.capture.core.patching import Wrapper, replace_function
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import ThreadState
from slowtrain.capture.inspection import user_code


class ItemPatches:
    """``watch`` gets the data of each loop, and times it if it is a PyDataset or Sequence."""

    def __init__(self, recorder: Recorder, state: ThreadState, lines: LineClock) -> None:
        self.recorder = recorder
        self.state = state
        self.lines = lines
        self._watched: set[type] = set()

    def watch(self, x: Any) -> None:
        """Wraps ``__getitem__`` of the class of ``x``, once."""
        owner = next((c for c in type(x).__mro__ if "__getitem__" in c.__dict__), None)
        known = {"PyDataset", "Sequence"} & {c.__name__ for c in type(x).__mro__[1:]}
        if owner is None or not known or owner in self._watched:
            return
        self._watched.add(owner)
        recorder, lines, state = self.recorder, self.lines, self.state
        about = user_code.describe_function(owner.__dict__["__getitem__"])
        name = recorder.name("pyfunc", owner.__qualname__, ("items", owner), **about)

        def make(original: Wrapper) -> Wrapper:
            def __getitem__(self: Any, index: Any) -> Any:
                me = state.me
                if not recorder.active or me.python:  # else it is part of a call that is timed
                    return original(self, index)
                start = now()
                traced = recorder.guard("lines", lines.begin_call, name, start)
                me.python += 1
                try:
                    return original(self, index)
                finally:
                    me.python -= 1
                    if traced:
                        recorder.guard("lines", lines.end_call, name)
                    recorder.span(name, start, now())

            return __getitem__

        replace_function(owner, "__getitem__", make)

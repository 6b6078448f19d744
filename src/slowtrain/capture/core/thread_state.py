"""What the wrappers of one thread share with each other, and the progress of the training."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from slowtrain.capture.inspection import user_code
from slowtrain.capture.inspection.graph_summary import GraphSummary

MAX_KEPT_RESULTS = 400  # results of a probe's steps
EAGER_STEP, TRAINING_STEP = 2, 3  # kinds of a step in a custom loop, as in Progress.step
CALLS_A_LOOK = (
    31  # calls; asking a tensor for its shape costs more than everything else. Odd, because most epochs are even
)
FIRST_CALLS = 64  # calls that are all examined first, so that short runs are exact
KERAS_CALL = -2  # in place of an instruction offset: called by Keras between its steps; one less inside a step
CONSTANTS_FILE = "tensor_util.py"  # of TensorFlow; values that it reads may be for a gradient's own use
ENDED_FLAG = 1 << 20  # added to Flags.busy; more than calls can be nested

# of a step in a custom loop: the function's name, and the offset of its gradient call, 0 for a whole call
StepOrigin = tuple[str, int]
# of a step: its kind, its origin, its scalars, and the number of steps over which Keras averaged them
StepResult = tuple[int, StepOrigin | None, list[tuple[str, Any]], int]
StepPlace = tuple[int, str, int]  # of a step: its number, what reported its loss, and the last number above
UNKNOWN_SPAN = 0  # in place of that number: nobody knows whether the script's own train_step averages its loss


class CallSite:
    """The place of the last call, and the name for it. Comparing two fields is faster than a lookup in a table."""

    __slots__ = ("at", "code", "name")

    def __init__(self) -> None:
        self.code: CodeType | None = None
        self.at = -1
        self.name = 0

    def remember(self, frame: FrameType, anywhere: bool) -> None:
        """Stores ``frame`` as the place for which the name holds.

        A line of a library is not stored, because different lines of the user's may be above it. ``anywhere`` means
        that the name contains no line of the user's.
        """
        known = anywhere or user_code.is_user_code(frame.f_code)
        self.code, self.at = (frame.f_code, frame.f_lasti) if known else (None, -1)


class FunctionSite(CallSite):
    """What the wrapper knows of one tf.function. The size of its batch is read in one call of ``CALLS_A_LOOK``.

    ``kind`` is that of :meth:`Progress.step`. If Keras is the caller, ``at`` is ``KERAS_CALL`` and no line is looked
    up.
    """

    __slots__ = ("kind", "left", "looks", "size")

    def __init__(self, kind: int) -> None:
        super().__init__()
        self.kind = kind
        self.size = 0
        self.left = 1
        self.looks = 0


class ReadbackSite(CallSite):
    """The last place where the values of tensors were read: the method of the tensor, and the caller of that method."""

    __slots__ = ("asker", "asker_at", "in_loops")

    def __init__(self) -> None:
        super().__init__()
        self.asker: CodeType | None = None
        self.asker_at = -1
        self.in_loops = False

    def remember(self, frame: FrameType, anywhere: bool) -> None:
        asker = frame.f_back
        # For a constant, only frames further out show who reads its value.
        constant = asker is not None and asker.f_code.co_filename.endswith(CONSTANTS_FILE)
        known = asker is not None and (user_code.is_user_code(asker.f_code) or (anywhere and not constant))
        self.code, self.at = (frame.f_code, frame.f_lasti) if known else (None, -1)
        self.asker, self.asker_at = (asker.f_code, asker.f_lasti) if asker else (None, -1)
        self.in_loops = anywhere

    def is_same_place(self, frame: FrameType, anywhere: bool) -> bool:
        """Returns whether this is the stored place, so that ``name`` holds."""
        asker = frame.f_back
        return (
            self.at == frame.f_lasti
            and self.code is frame.f_code
            and asker is not None
            and self.asker_at == asker.f_lasti
            and self.asker is asker.f_code
            and self.in_loops == anywhere
        )


class Flags(CallSite):
    """The flags of one thread. ``busy`` is above 0 while wrappers only forward their calls.

    That is so inside a tf.function's call or trace, and once recording has ended. ``traces`` counts the functions
    traced so far in this thread. All flags are in one small object, because it lies in cold memory after a step. As a
    ``CallSite`` it stores where an iterator was last asked for its next element.
    """

    __slots__ = (
        "busy",
        "fed",
        "graph",
        "ident",
        "last_trace",
        "left",
        "loops",
        "main",
        "python",
        "steps",
        "traces",
        "tracing",
        "training",
    )

    def __init__(self, ident: int) -> None:
        super().__init__()
        self.ident = ident
        # Not current_thread(): for a thread of TensorFlow it would add an entry to threading.enumerate().
        self.main = ident == threading.main_thread().ident
        self.busy = 0
        self.tracing = 0  # counted in busy as well
        self.traces = 0
        self.steps = 0  # Keras steps in progress; a step inside a step is not counted
        self.fed = 0  # on JAX, and in a session's run: when the newest batch was ready
        self.loops = 0  # Keras fit, evaluate, predict in progress
        self.training = False  # a gradient was taken during the current trace
        self.last_trace: dict[str, Any] | None = None
        self.python = 0  # Python calls inside an op in progress
        self.graph = GraphSummary()  # of the current trace
        self.left = 1  # calls until the next check whether recording still goes on

    def look(self, active: bool) -> None:
        """Switches the wrappers off once recording has ended.

        A fast wrapper calls it once in ``CALLS_A_LOOK`` calls.
        """
        self.left = CALLS_A_LOOK
        if not active:
            self.busy += ENDED_FLAG


class ThreadState(threading.local):
    """``me``: the flags of the current thread; ``main``: those of the main thread, in any thread.

    Looking up ``me`` costs as much as all other work of a wrapper. Code that runs in each step compares the thread's
    number and uses ``main``, because nearly all of it runs in the main thread.
    """

    def __init__(self, main: Flags) -> None:  # called again in each thread, with the same argument
        self.main = main
        ident = threading.get_ident()
        self.me = main if ident == main.ident else Flags(ident)


def new_thread_state() -> ThreadState:
    return ThreadState(Flags(threading.main_thread().ident or 0))


class Progress:
    """Steps seen so far. Calls whoever waits for a step boundary, such as the profiler windows."""

    __slots__ = (
        "boundary",
        "compiling",
        "epoch_start",
        "given",
        "kind",
        "last_place",
        "last_scalars",
        "loop",
        "max_results",
        "steps",
        "stronger",
        "trajectory",
        "wanted",
    )

    def __init__(self) -> None:
        self.steps = 0
        self.kind = 0  # the strongest kind of step seen; a Keras step counts in place of the functions in it
        self.boundary: Callable[[int], None] | None = None
        # called when a stronger kind is seen, and steps count from 1 again
        self.stronger: Callable[[], None] | None = None
        # called before something new is compiled, if the framework reports it
        self.compiling: Callable[[], None] | None = None
        self.given: Any = None  # the arguments of a Keras step that is about to begin, set while the boundary is called
        self.loop: dict[str, Any] | None = None  # facts of the outermost loop in progress, recorded at its end
        self.wanted = False  # whether the next step's result is examined
        self.last_scalars: list[tuple[str, Any]] = []
        self.last_place: StepPlace = (0, "", 1)  # of the scalars
        self.epoch_start = 0  # steps before the current epoch of Keras
        self.max_results = MAX_KEPT_RESULTS  # results that a probe keeps
        self.trajectory: list[StepResult] | None = None  # the first results, kept by a probe

    def step(self, kind: int) -> None:
        """Counts a step that is about to begin.

        ``kind``: 1 inference function, 2 eager gradient, 3 training function, 4 Keras, 5 a training step of Keras.
        """
        if kind < self.kind:
            return
        if kind > self.kind:
            self._restart_count(kind, 0)
        self.steps += 1
        if self.boundary is not None:
            self.boundary(self.steps)

    def set_last_kind(self, kind: int) -> None:
        """Sets the kind of the step just taken. Only the trace in its first call shows that a function trains."""
        if kind > self.kind:
            self._restart_count(kind, 1)

    def _restart_count(self, kind: int, steps: int) -> None:
        self.kind, self.steps, self.epoch_start = kind, steps, 0
        if self.stronger is not None:
            self.stronger()

    def keep(
        self,
        result: Any,
        kind: int,
        origin: StepOrigin | None = None,
        source: str = "",
        *,
        averaged: bool | None = False,
    ) -> None:
        """Keeps the scalars of a step's result. Not the result, which may be large and occupy memory of the next step.

        ``kind`` is that of :meth:`step`. Only results of the strongest kind count, because others may be evaluations.
        A probe also keeps an eager gradient beside a training function, because a loop may have steps of both kinds.
        ``source`` names what reports the loss, if no function does. ``averaged``: whether the scalars are means since
        the epoch began; None if nobody knows.
        """
        is_weaker = kind < self.kind
        if is_weaker and (self.trajectory is None or not EAGER_STEP <= kind < self.kind <= TRAINING_STEP):
            return
        self.wanted = is_weaker and self.wanted
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], dict):
            result = result[0]  # on JAX it comes with the new state
        items = list(result.items()) if isinstance(result, dict) else [("result", result)]
        if isinstance(result, (list, tuple)):
            items = [(f"result[{i}]", v) for i, v in enumerate(result[:8])]
        found = []
        for name, value in items[:16]:
            dtype = getattr(value, "dtype", None)
            if _is_floating(dtype) and getattr(value, "shape", None) == ():
                found.append((str(name), value))
        span = UNKNOWN_SPAN if averaged is None else max(self.steps - self.epoch_start, 1) if averaged else 1
        if not is_weaker:
            self.last_place = (self.steps, origin[0] if origin is not None else source, span)
            self.last_scalars = found
        if self.trajectory is None:
            return
        self.wanted = True
        if len(self.trajectory) < self.max_results:
            self.trajectory.append((kind, origin, found, span))


def loss_scalars(named: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Returns the results that are named as a loss, or all if none is.

    Keras gives its metrics together with the loss. A metric may legitimately be NaN, for example the ratio of two
    zeros.
    """
    found = list(named)
    return [one for one in found if "loss" in one[0]] or found


def _is_floating(dtype: Any) -> bool:
    known = getattr(dtype, "is_floating", None)  # TensorFlow's attribute; JAX has NumPy's types
    return bool(known) if known is not None else str(dtype).startswith(("float", "bfloat"))


def scalar_value(value: Any, *, wait: bool = False) -> float | None:
    """Returns the number in a framework's scalar; None if the device has not computed it, unless ``wait`` is set."""
    read = getattr(value, "_numpy_internal", None)
    if read is not None:
        return float(read())
    return float(value) if wait or value.is_ready() else None

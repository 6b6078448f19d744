"""What the wrappers of one thread know of each other, and of the training in progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from slowtrain.capture import frames
from slowtrain.capture.graphs import GraphSummary

MOST_KEPT = 400  # results of a probe's steps
EAGER, TRAINING = 2, 3  # kinds of a step in a loop by hand, as Progress.step counts
EVERY = 31  # calls: to ask a tensor its shape costs more than all the rest. Odd, as most epochs are not
ALL = 64  # calls that are all looked at first, so that short runs are exact
KERAS = -2  # in place of an instruction: called by Keras, between its steps; one less inside a step
CONSTANTS = "tensor_util.py"  # of TensorFlow's: what it reads may be for a gradient's own use
ENDED = 1 << 20  # of Flags.busy: more than calls can be nested

Origin = tuple[str, int]  # of a step by hand: the function's name; where in it a gradient is taken, 0 for a whole call
Told = tuple[int, Origin | None, list[tuple[str, Any]]]  # of a step: its kind, where it is from, its scalars


class Site:
    """Where something was called last, and the name of that: a look at two fields instead of into a table."""

    __slots__ = ("at", "code", "name")

    def __init__(self) -> None:
        self.code: CodeType | None = None
        self.at = -1
        self.name = 0

    def remember(self, frame: FrameType, anywhere: bool) -> None:
        """The name holds for calls from here. Not so from a library's line, above which there may be any of the user's.

        ``anywhere``: the name says no line of the user's.
        """
        known = anywhere or frames.is_user(frame.f_code)
        self.code, self.at = (frame.f_code, frame.f_lasti) if known else (None, -1)


class Known(Site):
    """What the wrapper knows of one tf.function. Its batch's size is looked at in one call of :data:`EVERY`.

    ``kind`` is that of :meth:`Progress.step`. Where Keras calls, ``at`` says so (:data:`KERAS`): no line is looked for.
    """

    __slots__ = ("kind", "left", "looks", "size")

    def __init__(self, kind: int) -> None:
        super().__init__()
        self.kind = kind
        self.size = 0
        self.left = 1
        self.looks = 0


class Read(Site):
    """Where tensors were last asked for their values: in which method of theirs, and from where that was called."""

    __slots__ = ("asker", "asker_at", "in_loops")

    def __init__(self) -> None:
        super().__init__()
        self.asker: CodeType | None = None
        self.asker_at = -1
        self.in_loops = False

    def remember(self, frame: FrameType, anywhere: bool) -> None:
        asker = frame.f_back
        # Who wants a constant's value only frames further out tell.
        constant = asker is not None and asker.f_code.co_filename.endswith(CONSTANTS)
        known = asker is not None and (frames.is_user(asker.f_code) or (anywhere and not constant))
        self.code, self.at = (frame.f_code, frame.f_lasti) if known else (None, -1)
        self.asker, self.asker_at = (asker.f_code, asker.f_lasti) if asker else (None, -1)
        self.in_loops = anywhere

    def again(self, frame: FrameType, anywhere: bool) -> bool:
        """Whether this is what was remembered, so that ``name`` holds."""
        asker = frame.f_back
        return (
            self.at == frame.f_lasti
            and self.code is frame.f_code
            and asker is not None
            and self.asker_at == asker.f_lasti
            and self.asker is asker.f_code
            and self.in_loops == anywhere
        )


class Flags(Site):
    """``busy``: above 0 while wrappers stand aside: in a tf.function's call or trace, or once recording has ended.

    ``traces``: functions traced so far in this thread. One small object, for it lies in cold memory after a step.
    As a :class:`Site` it is where an iterator was last asked for its next element.
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
        # Not current_thread(): for a thread of TensorFlow's that would add one to threading.enumerate().
        self.main = ident == threading.main_thread().ident
        self.busy = 0
        self.tracing = 0  # counted in busy as well
        self.traces = 0
        self.steps = 0  # Keras steps under way (a step inside a step is not counted)
        self.fed = 0  # on JAX, and in a session's run: when the newest batch was there
        self.loops = 0  # Keras fit, evaluate, predict under way
        self.training = False  # a gradient was taken during the trace under way
        self.last_trace: dict[str, Any] | None = None
        self.python = 0  # calls of Python inside an op under way
        self.graph = GraphSummary()  # of the trace under way
        self.left = 1  # calls until it is looked whether recording still goes on

    def look(self, active: bool) -> None:
        """Called once in :data:`EVERY` calls of a wrapper that is quick: they stand aside once recording has ended."""
        self.left = EVERY
        if not active:
            self.busy += ENDED


class ThreadState(threading.local):
    """``me``: the flags of the current thread; ``main``: those of the main thread, in whatever thread.

    To look up ``me`` costs as much as all that a wrapper does with it. What runs in each step asks for the thread's
    number, and has the flags of the main thread, where nearly all of it runs, at hand.
    """

    def __init__(self, main: Flags) -> None:  # called anew in each thread, with the same argument
        self.main = main
        ident = threading.get_ident()
        self.me = main if ident == main.ident else Flags(ident)


def thread_state() -> ThreadState:
    return ThreadState(Flags(threading.main_thread().ident or 0))


class Progress:
    """Steps seen so far; whoever waits for a step boundary (the windows) is told."""

    __slots__ = (
        "boundary",
        "compiling",
        "given",
        "kind",
        "last_scalars",
        "loop",
        "steps",
        "stronger",
        "trajectory",
        "wanted",
    )

    def __init__(self) -> None:
        self.steps = 0
        self.kind = 0  # the strongest kind of step seen: a Keras step counts over the functions in it
        self.boundary: Callable[[int], None] | None = None
        self.stronger: Callable[[], None] | None = None  # called when a stronger kind is seen: steps count anew
        self.compiling: Callable[[], None] | None = None  # called before something new is compiled, where that is heard
        self.given: Any = None  # of a Keras step that is about to begin: its arguments, while the boundary is called
        self.loop: dict[str, Any] | None = None  # what is told of the outermost loop under way, at its end
        self.wanted = False  # whether the next step's result is to be looked at
        self.last_scalars: list[tuple[str, Any]] = []
        self.trajectory: list[Told] | None = None  # a probe keeps its first

    def step(self, kind: int) -> None:
        """A step is about to begin.

        ``kind``: 1 inference function, 2 eager gradient, 3 training function, 4 Keras, 5 a training step of Keras.
        """
        if kind < self.kind:
            return
        if kind > self.kind:
            self._anew(kind, 0)
        self.steps += 1
        if self.boundary is not None:
            self.boundary(self.steps)

    def turned_out(self, kind: int) -> None:
        """The step that was just taken is of this kind: a function is known to train once its first call has traced."""
        if kind > self.kind:
            self._anew(kind, 1)

    def _anew(self, kind: int, steps: int) -> None:
        self.kind, self.steps = kind, steps
        if self.stronger is not None:
            self.stronger()

    def keep(self, result: Any, kind: int, origin: Origin | None = None) -> None:
        """Keeps the scalars of a step's result. Not the result: it may be large, and free memory for the next step.

        ``kind`` is that of :meth:`step`; only those of the strongest kind count: others evaluate now and then. A probe
        keeps a gradient that is taken eagerly beside a training function, too: of a loop's two steps one may be either.
        """
        beside = kind < self.kind
        if beside and (self.trajectory is None or not EAGER <= kind < self.kind <= TRAINING):
            return
        self.wanted = beside and self.wanted
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], dict):
            result = result[0]  # on JAX: beside the new state
        items = list(result.items()) if isinstance(result, dict) else [("result", result)]
        if isinstance(result, (list, tuple)):
            items = [(f"result[{i}]", v) for i, v in enumerate(result[:8])]
        found = []
        for name, value in items[:16]:
            dtype = getattr(value, "dtype", None)
            if _floating(dtype) and getattr(value, "shape", None) == ():
                found.append((str(name), value))
        if not beside:
            self.last_scalars = found
        if self.trajectory is None:
            return
        self.wanted = True
        if len(self.trajectory) < MOST_KEPT:
            self.trajectory.append((kind, origin, found))


def losses(named: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Of a step's results by their names those that are the loss, where one is called so; else all.

    Keras gives its metrics beside the loss. These may be no numbers by what they are: a ratio of nothing.
    """
    found = list(named)
    return [one for one in found if "loss" in one[0]] or found


def _floating(dtype: Any) -> bool:
    known = getattr(dtype, "is_floating", None)  # TensorFlow's; JAX has NumPy's
    return bool(known) if known is not None else str(dtype).startswith(("float", "bfloat"))


def scalar(value: Any, *, wait: bool = False) -> float | None:
    """The number that a framework's scalar holds; None where its device has yet to compute it, unless we ``wait``."""
    read = getattr(value, "_numpy_internal", None)
    if read is not None:
        return float(read())
    return float(value) if wait or value.is_ready() else None

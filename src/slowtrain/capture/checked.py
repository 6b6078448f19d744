"""`slowtrain run --on-nonfinite`: keeps what it takes to run the first bad step again, and does so once it is seen.

Kept are the variables of the last two moments at which they were looked at, and what every training function was
given since. When the loss is no longer finite, the functions run again from there, to the step that went bad; that
one runs once more op by op (:mod:`slowtrain.capture.first_op`). Then every variable gets its value back.
"""

from __future__ import annotations

import atexit
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from slowtrain.capture import variables
from slowtrain.capture.checked_eager import EagerSteps
from slowtrain.capture.checked_jax import JaxSteps
from slowtrain.capture.first_op import Enough, FirstOp
from slowtrain.capture.patching import Wrapper, on_import, replace
from slowtrain.capture.recorder import Recorder, now
from slowtrain.capture.state import Progress, ThreadState
from slowtrain.capture.subnormals import Subnormals

VARIABLE = "SLOWTRAIN_ON_NONFINITE"
MODES = ("stop", "report")
MOST_BYTES = 256 << 20  # of variables, and of batches: of a card's memory it is taken, too
LEAST_S = 0.25  # between two states that are kept; the loss is looked at as often
BYTES_PER_S = 100_000_000  # copied for states: a hundredth of what one channel of a host's memory moves
MOST_CALLS = 20_000
MOST_S = 60.0  # to run steps again
CHECK_BYTES = 4 << 30  # of variables looked through while steps run again; else the last few steps only
FEW = 8


class Kept(NamedTuple):
    """What a traced function gives while the check is on: its result, and the batch that its iterator gave."""

    result: Any
    batch: Any


class Call(NamedTuple):
    """One call of a training function."""

    function: Any
    args: Any
    kwargs: Any
    batch: Any
    result: Any
    step: int


class Checking:
    """Installed with the flag only; all of it in the thread that trains, but for :meth:`suspect`."""

    def __init__(self, recorder: Recorder, state: ThreadState, progress: Progress, mode: str) -> None:
        self.recorder = recorder
        self.state = state
        self.progress = progress
        self.mode = mode
        self.variables = variables.Variables()
        self.subnormals = Subnormals(recorder, self.suspect, self.variables.names)
        self._original: Wrapper | None = None
        self._calls: list[Call] = []
        self._states: list[tuple[int, variables.State]] = []  # how many of the calls came before
        self._bytes = 0
        self._due_ns = 0
        self._suspected = False
        self._done = False
        self._lost = ""  # why nothing can be run again
        self._inside = 0
        self._begun = False
        self._heard = False  # whether the end of the process will be
        self.eager = EagerSteps(recorder, state, progress, self._told, self._hear)
        self.jax = JaxSteps(recorder, progress, self._told, self._hear)

    def install(self) -> None:
        on_import(
            self.recorder,
            "tensorflow.python.eager.polymorphic_function.polymorphic_function",
            lambda m: replace(m.Function, "_call", self._call),
        )
        self.eager.install()
        self.recorder.fact("on_nonfinite", self.mode)

    def _hear(self) -> None:
        """Of the end: asked for once steps are taken, so as to come before the libraries' ends, that of Keras too."""
        if not self._heard:
            self._heard = True
            atexit.register(self.recorder.guard, "checking", self._at_exit)

    def suspect(self) -> None:
        """Called by whoever saw a result that is not finite, in any thread."""
        self._suspected = True

    # -- a function's call

    def _call(self, original: Wrapper) -> Wrapper:
        self._original = original
        state, guard = self.state, self.recorder.guard

        def _call(function: Any, *args: Any, **kwargs: Any) -> Any:
            me = state.me
            outermost = me.busy == 1 and me.main and not me.tracing and not self._done
            if not outermost:
                return _bare(original(function, *args, **kwargs))
            if self._suspected:
                guard("checking", self._examine)
            self._inside += 1
            try:
                given = original(function, *args, **kwargs)
            finally:
                self._inside -= 1
            result, batch = given if type(given) is Kept else (given, None)
            guard("checking", self._called, function, args, kwargs, batch, result)
            return result

        return _call

    def traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of ``func_graph_from_py_func``, of a function that gives its iterator's batch as well."""
        if not self._inside or self._done:
            return args, kwargs
        if len(args) > 1:
            return (args[0], _with_batch(args[1]), *args[2:]), kwargs
        return args, {**kwargs, "python_func": _with_batch(kwargs["python_func"])}

    def captured(self, graph: Any) -> None:
        """A function has been traced, and has not run yet."""
        if self._inside and not self._done:
            self.variables.add(graph)
            if self.state.me.training:
                self._keep_state()

    def _called(self, function: Any, args: Any, kwargs: Any, batch: Any, result: Any) -> None:
        about = function.__dict__.get("_slowtrain") or {}
        trace = self.state.me.last_trace or {}
        if self._lost or not (about.get("training") or trace.get("training")):
            return
        if _iterators(args) and batch is None:
            self._give_up("what its iterator gave cannot be kept")
            return
        self._hear()
        # The first call is not yet known to train: it is counted as such once it has ended.
        step = self.progress.steps if self._begun else 1
        self._begun = True
        self._calls.append(Call(function, args, kwargs, batch, _scalars(result), step))
        self._bytes += sum(variables.nbytes(t) for t in (*args, *kwargs.values(), *(batch or ())))
        if now() >= self._due_ns:
            self._keep_state()
        elif self._bytes > MOST_BYTES or len(self._calls) > MOST_CALLS:
            self._forget(len(self._states) - 1)

    def _keep_state(self) -> None:
        """The variables as they are; a suspicion is looked into first, for it takes the states before."""
        if self._calls and not _finite(self._calls[-1].result):
            self._suspected = True
            return
        state = self.variables.state()
        if not self.variables.complete:
            return  # an optimizer's are made in the first trace, and have values before the second
        size = variables.size_bytes(state)
        if size > MOST_BYTES:
            self._give_up(f"variables take {size / 1e6:.0f} MB, and up to {MOST_BYTES / 1e6:.0f} MB are kept")
            return
        self._due_ns = now() + int(1e9 * max(LEAST_S, size / BYTES_PER_S))
        self._states.append((len(self._calls), state))
        self.subnormals.offer(state)
        if len(self._states) > 2:
            self._forget(1)

    def _forget(self, states: int) -> None:
        """Drops the oldest states and the calls before what is left then."""
        del self._states[:states]
        if not self._states or (self._bytes > MOST_BYTES and len(self._states) == 1):
            self._states, self._calls, self._bytes = [], [], 0
            self._due_ns = 0
            return
        first = self._states[0][0]
        del self._calls[:first]
        self._states = [(at - first, state) for at, state in self._states]
        self._bytes = sum(variables.nbytes(t) for c in self._calls for t in (*c.args, *(c.batch or ())))

    def _give_up(self, why: str) -> None:
        self._lost = why
        self._states, self._calls = [], []

    # -- the check

    def _at_exit(self) -> None:
        if not self.recorder.active:
            return
        if not all(_finite(c.result) for c in self._calls):
            self._suspected = True
        if not self._done:
            self.eager.at_exit()
            self.jax.at_exit()
        if self._suspected and not self._done:
            self._examine(ending=True)
        with self._aside():
            self.recorder.guard("subnormals", self.subnormals.measure)

    def _examine(self, ending: bool = False) -> None:
        self._told(self._found, ending)

    def _told(self, find: Callable[[], dict[str, Any]], ending: bool) -> None:
        """Finds the origin, once a run, and says so; in a script that goes on it is stopped then, if that is asked."""
        if self._done:
            return
        self._done = self.eager.over = self.jax.over = True
        begun = now()
        try:
            with self._aside():
                found = find()
        except Exception as error:
            self.recorder.fault("checked step")
            found = {"unknown": f"the step could not be run again ({type(error).__name__})"}
        self._calls, self._states = [], []
        stopped = self.mode == "stop" and not ending
        self.recorder.event("checked", "step", begun, now(), mode=self.mode, stopped=stopped, **found)
        if stopped:
            signal.raise_signal(signal.SIGINT)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """What is called and traced meanwhile is not the script's."""
        me = self.state.me
        before = me.traces, me.training, me.last_trace
        me.tracing += 1
        me.busy += 1
        try:
            yield
        finally:
            me.traces, me.training, me.last_trace = before
            me.tracing -= 1
            me.busy -= 1

    def _found(self) -> dict[str, Any]:
        if self._lost or not self._calls or not self._states:
            return {"unknown": self._lost or "no training function was called again and again"}
        deadline = time.monotonic() + MOST_S
        as_it_was = self.variables.state()
        try:
            bad, good, replayed = self._bad_step(deadline)
            if bad is None:
                return {"unknown": f"{replayed} steps run again stayed finite", "replayed": replayed}
            variables.written(good)
            return {"step": bad.step, "replayed": replayed, **self._op_by_op(bad)}
        finally:
            variables.written(as_it_was)

    def _bad_step(self, deadline: float) -> tuple[Call | None, variables.State, int]:
        """The first call that goes bad when all run again from the oldest state, and the state before it."""
        at, state = self._states[0]
        calls = self._calls[at:]
        seen = next((i for i, c in enumerate(calls) if not _finite(c.result)), len(calls) - 1)
        meant = {key for key in state if not _all_finite({key: state[key]})}  # a best loss so far
        each = len(calls) * variables.size_bytes(state) <= CHECK_BYTES
        variables.written(state)
        for i, call in enumerate(calls[: seen + 1]):
            if time.monotonic() > deadline:
                break
            state = self.variables.state()
            given = _bare(self._original(call.function, *_again(call), **call.kwargs))  # type: ignore[misc]
            look = each or i > seen - FEW
            after = {k: v for k, v in self.variables.state().items() if look and k not in meant}
            if not _finite(_scalars(given)) or not _all_finite(after):
                return call, state, i
        return None, state, seen + 1

    def _op_by_op(self, call: Call) -> dict[str, Any]:
        import numpy as np

        numbered = {k: self.variables.names.get(k, "a variable") for k in self.variables.handles}
        args = _again(call)
        data = [*_flat("argument", call.args), *_flat("batch", call.batch)]
        first = FirstOp(numbered, data, np)
        result: Any = None
        try:
            with _eagerly():
                result = first.run(lambda: call.function._python_function(*args, **call.kwargs))
        except Enough:
            return {"unknown": f"op by op it took too long ({first.ops} ops were looked at)"}
        except Exception as error:
            origin = first.first([])
            if origin is None:
                return {"unknown": f"op by op it failed: {type(error).__name__}: {str(error)[:200]}"}
        origin = first.first([t for _, t in _flat("", _plain(result))])
        if origin is None:
            return {"unknown": f"op by op the step stayed finite ({first.ops} ops)", "ops": first.ops}
        return {"origin": origin, "ops": first.ops}


def _with_batch(python_func: Callable[..., Any]) -> Callable[..., Any]:
    def traced(*args: Any, **kwargs: Any) -> Any:
        result = python_func(*args, **kwargs)
        graph = sys.modules["tensorflow"].compat.v1.get_default_graph()
        batches = [op for op in graph.get_operations() if op.type == "IteratorGetNext"]
        return Kept(result, tuple(batches[0].outputs)) if len(batches) == 1 else result

    traced.__wrapped__ = python_func  # type: ignore[attr-defined]
    return traced


def _bare(given: Any) -> Any:
    return given.result if type(given) is Kept else given


def _iterators(args: Sequence[Any]) -> list[int]:
    return [i for i, a in enumerate(args) if hasattr(a, "get_next") and hasattr(a, "element_spec")]


def _again(call: Call) -> tuple[Any, ...]:
    """The arguments of a call, its iterator replaced by one that gives the same batch again."""
    at = _iterators(call.args)
    if not at:
        return tuple(call.args)
    from tensorflow.python.data.ops import dataset_ops
    from tensorflow.python.data.util import structure

    element = structure.from_tensor_list(call.args[at[0]].element_spec, list(call.batch))
    fresh = iter(dataset_ops.DatasetV2.from_tensors(element))
    return tuple(fresh if i == at[0] else a for i, a in enumerate(call.args))


def _scalars(result: Any) -> Any:
    """The scalars of a step's result, or the optional that holds it: not the result, which may be large."""
    if hasattr(result, "get_value") and hasattr(result, "has_value"):
        return result
    return [
        t
        for _, t in _flat("", result)[:16]
        if getattr(getattr(t, "dtype", None), "is_floating", False) and getattr(t, "shape", None) == ()
    ]


def _plain(result: Any) -> Any:
    """What an optional holds."""
    if hasattr(result, "get_value") and hasattr(result, "has_value"):
        return result.get_value()
    return result


def _finite(result: Any) -> bool:
    return all(math.isfinite(float(t._numpy())) for t in _scalars(_plain(result)))


def _all_finite(state: variables.State) -> bool:
    import numpy as np

    return all(
        bool(np.isfinite(np.asarray(value._numpy())).all()) for _, value in state.values() if value.dtype.is_floating
    )


def _flat(name: str, given: Any) -> list[tuple[str, Any]]:
    """Tensors of a nest, with what they are called."""
    if isinstance(given, dict):
        return [t for key, value in given.items() for t in _flat(f"{name}[{key!r}]", value)]
    if isinstance(given, (list, tuple)):
        return [t for i, value in enumerate(given) for t in _flat(f"{name}[{i}]", value)]
    return [(name, given)] if hasattr(given, "_id") and hasattr(given, "dtype") else []


@contextmanager
def _eagerly() -> Iterator[None]:
    """Functions run as Python meanwhile, and as it is written: AutoGraph's copies of it have other lines."""
    from tensorflow.python.autograph.core import ag_ctx

    config = sys.modules["tensorflow"].config
    before = config.functions_run_eagerly()
    config.run_functions_eagerly(True)
    try:
        with ag_ctx.ControlStatusCtx(status=ag_ctx.Status.DISABLED):
            yield
    finally:
        config.run_functions_eagerly(before)

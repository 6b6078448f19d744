"""`slowtrain run --on-nonfinite`: keeps what is needed to run the first bad step again, and does so once it is found.

Kept are the variables at the last two times at which they were read, and the arguments of every training function
since. When the loss is no longer finite, the functions run again from there to the step that went bad. That step runs
once more op by op (:mod:`slowtrain.capture.nonfinite.first_bad_op`). Then every variable gets its value back.
"""

from __future__ import annotations

import atexit
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from slowtrain.capture.core.patching import Wrapper, patch_on_import, replace_function
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Progress, ThreadState
from slowtrain.capture.nonfinite import training_calls, variable_values
from slowtrain.capture.nonfinite.eager_replay import EagerReplay
from slowtrain.capture.nonfinite.first_bad_op import FirstBadOp, ReplayTimeout
from slowtrain.capture.nonfinite.jax_replay import JaxReplay
from slowtrain.capture.nonfinite.subnormal_values import OfferedVariables, SubnormalWatch
from slowtrain.capture.nonfinite.variable_values import MemoryBudget, is_on_card

MODE_VARIABLE = "SLOWTRAIN_ON_NONFINITE"
MODES = ("stop", "report")
MIN_STATE_PERIOD_S = 0.25  # between two states that are kept; the loss is examined as often
MAX_STATE_BYTES_PER_S = 100_000_000  # copied for states: a hundredth of the bandwidth of one memory channel of a host
MAX_CALLS = 20_000
MAX_REPLAY_S = 60.0  # to run steps again
MAX_CHECKED_BYTES = 4 << 30  # of variables that are checked while steps run again; above it only in the last few steps
CHECKED_LAST_STEPS = 8


class NonfiniteCheck:
    """Installed only with the option. Runs in the thread that trains, except :meth:`suspect`."""

    def __init__(self, recorder: Recorder, state: ThreadState, progress: Progress, mode: str) -> None:
        self.recorder = recorder
        self.state = state
        self.progress = progress
        self.mode = mode
        self.variables = variable_values.CapturedVariables()
        self.subnormals = SubnormalWatch(recorder)
        self._original: Wrapper | None = None
        self._calls: list[training_calls.TrainingCall] = []
        self._states: list[
            tuple[int, variable_values.VariableState]
        ] = []  # number of calls before the state, and the state
        self._bytes = 0
        self._reserve_rows, self._room_for_calls = MemoryBudget(), MemoryBudget()
        self._due_ns = 0
        self._suspected = False
        self._done = False
        self._lost = ""  # why nothing can be run again
        self._newest: Any = None  # result of the newest call that cannot run again
        self._instead = ""  # what the user can do about that
        self._inside = 0
        self._begun = False
        self._heard = False  # whether the check is called at the end of the process
        self._ended = False
        self._altered: dict[int, Any] = {}  # functions with a trace that also returns its batch
        of_metrics = self.variables.of_metrics
        self.eager = EagerReplay(
            recorder, state, progress, self._record_origin, self._hear, self.subnormals.offer, of_metrics
        )
        self.jax = JaxReplay(recorder, progress, self._record_origin, self._hear, self.subnormals.offer)

    def install(self) -> None:
        patch_on_import(
            self.recorder,
            "tensorflow.python.eager.polymorphic_function.polymorphic_function",
            lambda m: replace_function(m.Function, "_call", self._call),
        )
        self.eager.install()
        self.recorder.at_exit.append(self._at_exit)  # a recording may end before the process does
        self.recorder.fact("on_nonfinite", self.mode)

    def _hear(self) -> None:
        """Registers for the end of the process.

        It is registered after steps were taken, so that it runs before the exit functions of the libraries, including
        Keras.
        """
        if not self._heard:
            self._heard = True
            atexit.register(self.recorder.guard, "checking", self._at_exit)

    def suspect(self) -> None:
        """Notes that a loss is not finite. Can be called in any thread."""
        self._suspected = True

    def _suspect_for(self, key: int) -> None:
        """Does the same for a variable that was finite, unless it belongs to a metric."""
        if key not in self.variables.of_metrics():
            self.suspect()

    # -- a function's call

    def _call(self, original: Wrapper) -> Wrapper:
        self._original = original
        state, guard = self.state, self.recorder.guard

        def _call(function: Any, *args: Any, **kwargs: Any) -> Any:
            me = state.me
            outermost = me.busy == 1 and me.main and not me.tracing and not self._done
            if not outermost:
                return self._split_batch(function, original(function, *args, **kwargs))[0]
            if self._suspected:
                guard("checking", self._examine)
            self._inside += 1
            try:
                returned = original(function, *args, **kwargs)
            finally:
                self._inside -= 1
            result, batch = self._split_batch(function, returned)
            guard("checking", self._note_call, function, args, kwargs, batch, result)
            return result

        return _call

    def _split_batch(self, function: Any, returned: Any) -> tuple[Any, Any]:
        if type(returned) is not training_calls.ResultWithBatch:
            return returned, None
        self._altered[id(function)] = function
        return returned

    def with_batch_returned(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments of ``func_graph_from_py_func``, changed so that the function also returns its batch."""
        if not self._inside or self._done:
            return args, kwargs
        if len(args) > 1:
            return (args[0], training_calls.return_batch_too(args[1]), *args[2:]), kwargs
        return args, {**kwargs, "python_func": training_calls.return_batch_too(kwargs["python_func"])}

    def add_traced_graph(self, graph: Any) -> None:
        """Adds the variables of a function that has been traced, and has not run yet."""
        if self._inside and not self._done:
            self.variables.add(graph)
            if self.state.me.training:
                self._keep_state()

    def _note_call(self, function: Any, args: Any, kwargs: Any, batch: Any, result: Any) -> None:
        about = function.__dict__.get("_slowtrain") or {}
        trace = self.state.me.last_trace or {}
        if not (about.get("training") or trace.get("training")):
            return
        if self._lost:
            self._watch_loss(training_calls.loss_tensors(result))
            return
        if training_calls.iterator_positions(args) and batch is None:
            self._hear()
            self._give_up(*_missing_batch_reason(args))
            return
        self._hear()
        # The first call is not yet known to train; it is counted as a step once it has ended.
        step = self.progress.steps if self._begun else 1
        self._begun = True
        self._calls.append(
            training_calls.TrainingCall(function, args, kwargs, batch, training_calls.loss_tensors(result), step)
        )
        self._bytes += training_calls.call_input_bytes(self._calls[-1])
        if now() >= self._due_ns:
            self._keep_state()
        elif self._too_many:
            self._forget(len(self._states) - 1)

    def _keep_state(self) -> None:
        """Keeps the current variables.

        If the last loss is bad, sets the suspicion instead, which needs the older states.
        """
        if self._calls and not training_calls.is_result_finite(self._calls[-1].result):
            self._suspected = True
            return
        state = self.variables.state()
        if not self.variables.complete:
            return  # an optimizer's variables are created in the first trace, and have values before the second
        size = variable_values.state_bytes(state)
        if not self._reserve_rows.holds(size, len(self._states) * size + self._bytes):
            self._give_up(f"variables take {self._reserve_rows.refusal_reason(size)}")
            return
        self._due_ns = now() + int(1e9 * max(MIN_STATE_PERIOD_S, size / MAX_STATE_BYTES_PER_S))
        self._states.append((len(self._calls), state))
        self.subnormals.offer(OfferedVariables(state, self.variables.names, "function", self._suspect_for))
        if len(self._states) > 2:
            self._forget(1)

    @property
    def _too_many(self) -> bool:
        """Whether the arguments of the kept calls need too much memory.

        The newest call shows in which memory they are.
        """
        there = any(map(is_on_card, training_calls.call_inputs(self._calls[-1])))
        return not self._room_for_calls.holds(self._bytes, self._bytes, on_card=there) or len(self._calls) > MAX_CALLS

    def _forget(self, states: int) -> None:
        """Drops the oldest ``states``, and the calls before the oldest remaining one."""
        del self._states[:states]
        first = self._states[0][0] if self._states else len(self._calls)
        del self._calls[:first]
        self._states = [(at - first, state) for at, state in self._states]
        self._bytes = sum(map(training_calls.call_input_bytes, self._calls))
        if not self._states or (len(self._states) == 1 and self._calls and self._too_many):
            self._states, self._calls, self._bytes = [], [], 0
            self._due_ns = 0

    def _watch_loss(self, result: Any) -> None:
        """Examines the loss of steps that cannot run again, to report that it went bad and why no op is named."""
        self._newest = result
        if now() >= self._due_ns:
            self._due_ns = now() + int(1e9 * MIN_STATE_PERIOD_S)
            self._suspected |= not _is_finite_or_empty(result)

    def _give_up(self, why: str, instead: str = "") -> None:
        self._lost, self._instead = why, instead
        self._states, self._calls = [], []

    # -- the check

    def _at_exit(self) -> None:
        if not self.recorder.active or self._ended:
            return
        self._ended = True
        if not (
            all(training_calls.is_result_finite(c.result) for c in self._calls) and _is_finite_or_empty(self._newest)
        ):
            self._suspected = True
        if not self._done:
            self.eager.at_exit()
            self.jax.at_exit()
        if self._suspected and not self._done:
            self._examine(ending=True)
        with self._recording_paused():
            self.recorder.guard("subnormals", self.subnormals.measure)
        self._done = self.eager.over = self.jax.over = True
        for function in self._altered.values():
            training_calls.remove_result_patch(function)

    def _examine(self, ending: bool = False) -> None:
        self._record_origin(self._find_origin, ending)

    def _record_origin(self, find: Callable[[], dict[str, Any]], ending: bool) -> None:
        """Finds the origin, once in a run, and records it.

        Then stops the script if that was requested and it is not ending.
        """
        if self._done:
            return
        self._done = self.eager.over = self.jax.over = True
        begun = now()
        try:
            with self._recording_paused():
                found = find()
        except Exception as error:
            self.recorder.fault("checked step")
            found = {"unknown": f"the step could not be run again ({type(error).__name__})"}
        self._calls, self._states = [], []
        stopped = self.mode == "stop" and not ending
        self.recorder.event("checked", "step", begun, now(), mode=self.mode, stopped=stopped, **found)
        if stopped:
            if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell's background jobs start with this setting
                signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.raise_signal(signal.SIGINT)

    @contextmanager
    def _recording_paused(self) -> Iterator[None]:
        """Marks the thread, so that calls and traces meanwhile do not count as the script's."""
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

    def _find_origin(self) -> dict[str, Any]:
        if self._lost or not self._calls or not self._states:
            instead = {"instead": self._instead} if self._instead else {}
            return {"unknown": self._lost or "no training function was called again and again", **instead}
        deadline = time.monotonic() + MAX_REPLAY_S
        as_it_was = self.variables.state()
        try:
            bad, good, replayed = self._bad_step(deadline)
            if bad is None:
                return {"unknown": f"{replayed} steps run again stayed finite", "replayed": replayed}
            variable_values.restore_variables(good)
            return {"step": bad.step, "replayed": replayed, **self._op_by_op(bad)}
        finally:
            variable_values.restore_variables(as_it_was)

    def _oldest_values(self) -> variable_values.VariableState:
        """Returns the oldest kept value of each variable.

        The oldest state lacks the variables of a model that was made after it. No call until then changes them.
        """
        found: variable_values.VariableState = {}
        for _, state in reversed(self._states):
            found |= state
        return found

    def _bad_step(
        self, deadline: float
    ) -> tuple[training_calls.TrainingCall | None, variable_values.VariableState, int]:
        """Runs all calls again from the oldest state.

        Returns the first bad one, the state before it, and steps replayed.
        """
        at, state = self._states[0][0], self._oldest_values()
        since = self._calls[at:]
        seen = next((i for i, c in enumerate(since) if not training_calls.is_result_finite(c.result)), len(since) - 1)
        meant = self.variables.of_metrics()
        meant |= {
            key for key in state if not training_calls.is_state_finite({key: state[key]})
        }  # for example a best loss so far
        each = len(since) * variable_values.state_bytes(state) <= MAX_CHECKED_BYTES
        start = frozenset(state)
        variable_values.restore_variables(state)
        for i, call in enumerate(since[: seen + 1]):
            if time.monotonic() > deadline:
                break
            state = self.variables.state()
            args = training_calls.replay_arguments(call)
            result = training_calls.own_result(self._original(call.function, *args, **call.kwargs))  # type: ignore[misc]
            look = each or i > seen - CHECKED_LAST_STEPS
            after = {k: v for k, v in self.variables.state().items() if look and k in start and k not in meant}
            if not training_calls.is_result_finite(
                training_calls.loss_tensors(result)
            ) or not training_calls.is_state_finite(after):
                return call, state, i
        return None, state, seen + 1

    def _op_by_op(self, call: training_calls.TrainingCall) -> dict[str, Any]:
        import numpy as np

        numbered = {k: self.variables.names.get(k, "a variable") for k in self.variables.handles}
        args = training_calls.replay_arguments(call)
        data = [
            *training_calls.flatten_tensors("argument", call.args),
            *training_calls.flatten_tensors("batch", call.batch),
        ]
        first = FirstBadOp(numbered, data, np)
        result: Any = None
        try:
            with _run_functions_eagerly():
                result = first.run(lambda: call.function._python_function(*args, **call.kwargs))
        except ReplayTimeout:
            return {"unknown": f"op by op it took too long ({first.ops} ops were looked at)"}
        except Exception as error:
            origin = first.first([])
            if origin is None:
                return {"unknown": f"op by op it failed: {type(error).__name__}: {str(error)[:200]}"}
        origin = first.first([t for _, t in training_calls.flatten_tensors("", training_calls.optional_value(result))])
        if origin is None:
            return {"unknown": f"op by op the step stayed finite ({first.ops} ops)", "ops": first.ops}
        return {"origin": origin, "ops": first.ops}


def _is_finite_or_empty(result: Any) -> bool:
    """Returns whether a result is finite, or an empty optional, which a function returns at the end of its data."""
    if hasattr(result, "has_value") and not bool(result.has_value()):
        return True
    return training_calls.is_result_finite(result)


def _missing_batch_reason(args: Sequence[Any]) -> tuple[str, str]:
    """Returns why a function's batch was not kept, and what can be done.

    A batch requested within a loop of a graph is not visible outside. Keeping each batch would need another step than
    the script's.
    """
    if all(type(args[i]).__name__ == "OwnedIterator" for i in training_calls.iterator_positions(args)):
        several = "one call takes several batches inside its graph (steps_per_execution), of which none can be kept"
        return several, "run it once with steps_per_execution=1: then each batch is"
    return "what its iterator gave cannot be kept", ""


@contextmanager
def _run_functions_eagerly() -> Iterator[None]:
    """Runs functions as the Python that was written. The copies that AutoGraph makes have other lines."""
    from tensorflow.python.autograph.core import ag_ctx

    config = sys.modules["tensorflow"].config
    before = config.functions_run_eagerly()
    config.run_functions_eagerly(True)
    try:
        with ag_ctx.ControlStatusCtx(status=ag_ctx.Status.DISABLED):
            yield
    finally:
        config.run_functions_eagerly(before)

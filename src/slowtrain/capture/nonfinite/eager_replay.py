"""`slowtrain run --on-nonfinite` for steps that run op by op: custom loops, and Keras with ``run_eagerly``.

There is no function to call again. So the statements around the tape run again
(:mod:`slowtrain.capture.nonfinite.tape_block`), with the values that their names had when the tape was opened. The
loss is examined in each step, before its gradients are applied. For each variable that is written, the previous value
is kept, for this step and for the one before it. If a loss is bad because the weights are, the step before has made
them so.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import CodeType, FrameType
from typing import Any

from slowtrain.capture.core.patching import Wrapper, patch_on_import, replace_function
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Progress, ThreadState
from slowtrain.capture.nonfinite import tape_block, variable_values
from slowtrain.capture.nonfinite.first_bad_op import FirstBadOp, ReplayTimeout, number_range
from slowtrain.capture.nonfinite.subnormal_values import OfferedVariables
from slowtrain.capture.nonfinite.variable_values import MemoryBudget, is_on_card

WRITE_FUNCTIONS = (
    "assign_variable_op assign_add_variable_op assign_sub_variable_op resource_scatter_add resource_scatter_sub "
    "resource_scatter_update resource_scatter_mul resource_scatter_div resource_scatter_max resource_scatter_min"
).split()
MAX_CHECKED_NUMBERS = 50_000_000  # numbers of a tensor; larger ones are not examined
MAX_LIST_ELEMENTS = 500  # elements of a list
REPLAY_ADVICE = "put the step into a function with @tf.function, or call tf.debugging.enable_check_numerics() first"


class ReplayDone(BaseException):
    """The gradients have been taken again. Not an ``Exception``, because the user's code may catch those."""


class EagerStep:
    """The names and variables with which one step began, and where it requested gradients."""

    def __init__(self, number: int, frame: FrameType) -> None:
        self.number = number
        self.code: CodeType = frame.f_code
        self.line = frame.f_lineno
        self.names: dict[str, Any] = {}
        self.globals = frame.f_globals
        self.tapes: list[Any] = []
        self.before: variable_values.VariableState = {}
        self.bytes = 0
        self.gradients = 0  # calls so far, on any tape
        self.asked = False  # whether one of its own tapes was used
        self.gradient_line: int | None = None


class EagerReplay:
    """Installed only with the option. Runs in the main thread."""

    def __init__(
        self,
        recorder: Recorder,
        state: ThreadState,
        progress: Progress,
        examined: Callable[[Callable[[], dict[str, Any]], bool], None],
        ending: Callable[[], None],
        offer: Callable[[OfferedVariables], None],
        of_metrics: Callable[[], set[int]] = set,
    ) -> None:
        self.recorder = recorder
        self.state = state
        self.progress = progress
        self.examined = examined  # takes a function that finds the origin, calls it aside and records the result
        self.ending = ending  # registers for the end of the process
        self.offer = offer  # takes values of variables that are to be searched
        self.of_metrics = of_metrics  # returns variables that may be NaN
        self.over = False
        self.noting: variable_values.VariableState | None = (
            None  # where values of variables are stored before they are written
        )
        self.again: list[Any] | None = None  # the losses and gradients of a step that runs again
        self._taken: list[Any] = []  # only the gradients
        self._left = 0  # gradient calls until the step has run again
        self._depth = 0  # number of open tapes
        self._step: EagerStep | None = None
        self._last: EagerStep | None = None
        self._counts: dict[tuple[CodeType, int], int] = {}
        self._names: dict[tuple[CodeType, int], frozenset[str]] = {}  # names that the statements read
        self._called: dict[int, str] = {}  # names of variables by their handles
        self._dtypes: dict[int, Any] = {}
        self._heard = False  # whether the check is called at the end of the process
        self._reserve_rows = MemoryBudget()  # for the values of one step's variables; those of two are kept
        self._large = False  # the values need too much memory

    def install(self) -> None:
        patch_on_import(self.recorder, "tensorflow.python.eager.backprop", self._patch_tape)
        patch_on_import(self.recorder, "tensorflow.python.ops.gen_resource_variable_ops", self._patch_writes)

    def _patch_tape(self, module: Any) -> None:
        state, recorder, guard = self.state, self.recorder, self.recorder.guard

        def wrap_enter(original: Wrapper) -> Wrapper:
            def __enter__(tape: Any) -> Any:
                me = state.me
                if me.main and not me.tracing and not self.over and recorder.active:
                    guard("checking", self._note_tape, tape, sys._getframe(1))
                return original(tape)

            return __enter__

        def wrap_exit(original: Wrapper) -> Wrapper:
            def __exit__(tape: Any, *about: Any) -> Any:
                me = state.me
                if me.main and not me.tracing and self._depth:
                    self._depth -= 1
                return original(tape, *about)

            return __exit__

        replace_function(module.GradientTape, "__enter__", wrap_enter)
        replace_function(module.GradientTape, "__exit__", wrap_exit)

    def _patch_writes(self, module: Any) -> None:
        state = self.state

        def make(original: Wrapper) -> Wrapper:
            def write(resource: Any, *args: Any, **kwargs: Any) -> Any:
                if self.noting is not None and state.me.main and hasattr(resource, "_id"):
                    self._note(resource)
                return original(resource, *args, **kwargs)

            return write

        for name in WRITE_FUNCTIONS:
            if hasattr(module, name):
                replace_function(module, name, make)

    # -- as the script runs

    def _note_tape(self, tape: Any, frame: FrameType) -> None:
        if self._depth == 0:
            self._begin(frame)
        step = self._step
        if step is not None and step.code is frame.f_code and not step.asked:
            step.tapes.append(tape)
        self._depth += 1

    def _begin(self, frame: FrameType) -> None:
        if not self._heard:
            self._heard = True
            self.ending()
        place = frame.f_code, frame.f_lineno
        count = self._counts[place] = self._counts.get(place, 0) + 1
        step = EagerStep(self.progress.steps if self.state.me.loops else count, frame)
        known, wanted = frame.f_locals, self._names.get(place)
        step.names = dict(known) if wanted is None else {n: known[n] for n in wanted if n in known}
        if known is not frame.f_globals and sys.version_info < (3, 13):
            known.clear()  # a copy, which would keep this step's tensors alive until the function ends
        self._last, self._step = self._step, step
        if self._last is not None and self._last.before:
            self.offer(OfferedVariables(self._last.before, self._called, "eager"))
        self.noting = None if self._large else step.before

    def check_gradient(self, tape: Any, args: Any, kwargs: Any, frame: FrameType) -> None:
        """Examines the loss after gradients have been taken, before they are applied."""
        arguments = [*args, *(kwargs[name] for name in ("target", "sources") if name in kwargs)]
        target, sources = arguments[0], arguments[1]
        step = self._step
        if step is None or self.over:
            return
        step.gradients += 1
        if not any(t is tape for t in step.tapes):
            return  # opened inside a call: not the tape of the loss
        step.asked = True
        if step.code is frame.f_code:
            step.gradient_line = frame.f_lineno
        if self.progress.kind > 2 and not self.state.me.loops:
            return  # the training steps are functions: this tape has another purpose
        place = step.code, step.line
        if place not in self._names:
            self._names[place] = self._reads(step)
        for source in flatten_arrays(sources):
            handle = getattr(source, "handle", None)
            if handle is not None and hasattr(handle, "_id") and not self._large:
                if handle._id not in self._called:
                    self._called[handle._id] = str(getattr(source, "path", None) or getattr(source, "name", ""))
                self._note(handle)
        if not all(is_tensor_finite(t) for t in flatten_arrays(target)):
            self.recorder.event("nonfinite", "loss", now(), step=step.number, value=_first_bad_number(target))
            self.examined(self._find_origin, False)

    def _reads(self, step: EagerStep) -> frozenset[str]:
        try:
            return tape_block.find_tape_block(step.code, step.line).upto(step.gradient_line)[1]
        except tape_block.CannotReplay:
            return frozenset()

    def _note(self, handle: Any) -> None:
        """Keeps a variable's value before it is written."""
        noting = self.noting
        if noting is None or handle._id in noting:
            return
        self.noting = None  # reading does not write, but TensorFlow may write meanwhile
        try:
            dtype = self._dtypes.get(handle._id)
            if dtype is None:
                dtype = self._dtypes[handle._id] = variable_values.variable_dtype(handle)
            value = variable_values.read_variable(handle, dtype) if dtype is not None else None
        finally:
            self.noting = noting
        if value is None:
            return
        noting[handle._id] = handle, value
        step = self._step
        if step is not None and noting is step.before:
            step.bytes += variable_values.tensor_bytes(value)
            if not self._reserve_rows.holds(step.bytes, 2 * step.bytes, on_card=is_on_card(value)):
                self._large, self.noting = True, None
                step.before.clear()

    def at_exit(self) -> None:
        """Examines the last update, which no later loss would show."""
        step = self._step
        if not self.over and step is not None and step.gradients and self._bad_variable(step) is not None:
            self.examined(self._find_origin, True)

    # -- once a loss is bad

    def store_replayed_gradients(self, target: Any, gradients: Any) -> None:
        """Stores gradients that are taken while a step runs again. Raises ``ReplayDone`` after the last one."""
        if self.again is not None:
            self._taken += flatten_arrays(gradients)
            self.again += [*flatten_arrays(target), *flatten_arrays(gradients)]
            self._left -= 1
            if self._left <= 0:
                raise ReplayDone

    def _find_origin(self) -> dict[str, Any]:
        step, last = self._step, self._last
        self._step = self._last = None
        if step is None:
            return {"unknown": "no step was under way"}
        undo: variable_values.VariableState = {}
        bad = self._bad_variable(step)
        try:
            found = self._replay_step(step, undo)
            origin = found.get("origin")
            if origin is None:
                return _update_origin(step, found, bad) if bad is not None and "largest" in found else found
            if last is None:
                return found
            if origin["kind"] == "data" and self._weight_of(step) is not None:
                # Its inputs may be computed from weights that the step before made bad, such as a target of its own.
                broke = self._replay_step(last, undo)
                return broke if "origin" in broke else found
            if origin["kind"] != "weights":
                return found
            broke = self._replay_step(last, undo)
            return broke if "origin" in broke else _update_origin(last, broke, origin) if "largest" in broke else found
        except tape_block.CannotReplay as error:
            return {"unknown": f"the step cannot run again: {error}", "instead": REPLAY_ADVICE}
        finally:
            self.noting = None
            variable_values.restore_variables(undo)

    def _replay_step(self, step: EagerStep, undo: variable_values.VariableState) -> dict[str, Any]:
        """Runs a step again, op by op, from the variables before it. ``undo`` gets their current values."""
        import numpy as np

        code, reads = tape_block.find_tape_block(step.code, step.line).upto(step.gradient_line)
        inputs = [(n, t) for n, v in step.names.items() if n in reads for t in flatten_arrays(v) if hasattr(t, "_id")]
        self.noting = undo
        for handle, _ in step.before.values():
            self._note(handle)
        self.noting = None
        variable_values.restore_variables(step.before)
        first = FirstBadOp(self._called, inputs, np)
        self.again, self._taken, self._left, self.noting = [], [], max(step.gradients, 1), undo
        try:
            with _autograph_disabled():
                first.run(lambda: self._statements(code, step))
        except ReplayDone:
            pass
        except ReplayTimeout:
            return {"unknown": f"op by op it took too long ({first.ops} ops were looked at)", "instead": REPLAY_ADVICE}
        except Exception as error:
            if first.first(self.again) is None:
                why = f"run again by themselves, the statements around its tape fail ({type(error).__name__}: {error})"
                return {"unknown": why[:300], "instead": REPLAY_ADVICE}
        finally:
            results, self.again, self.noting = self.again, None, None
        origin = first.first(results)
        if origin is None:
            why = f"run again, the step stayed finite ({first.ops} ops): its data or its random numbers were others"
            return {
                "unknown": why,
                "instead": REPLAY_ADVICE,
                "step": step.number,
                "largest": _largest_gradient_range(self._taken, np),
            }
        if origin["kind"] == "outside":
            origin = self._weight_of(step) or _bad_array_origin(step.names, origin, np)
        return {"step": step.number, "replayed": 0, "origin": origin, "ops": first.ops}

    def _weight_of(self, step: EagerStep) -> dict[str, Any] | None:
        """Returns a variable that was bad before a step. TensorFlow 2.15 reads one for an op without reporting it."""
        import numpy as np

        metric_keys = self.of_metrics()
        for key, (_, value) in step.before.items():
            if key not in metric_keys and not is_tensor_finite(value):
                name = self._called.get(key, "a variable")
                return {"kind": "weights", "name": name, "output": number_range(np.asarray(value._numpy()), np)}
        return None

    def _statements(self, code: CodeType, step: EagerStep) -> None:
        names = {**step.globals, **step.names}
        exec(code, names)  # noqa: S102  the script's own statements
        if self.again:
            return
        # Gradients are requested elsewhere: take those of the statements' results.
        new_values = [v for n, v in names.items() if step.names.get(n) is not v and step.globals.get(n) is not v]
        losses = [v for v in new_values if hasattr(v, "_id") and v.dtype.is_floating and v.shape.num_elements() == 1]
        tape = next((v for v in new_values if hasattr(v, "watched_variables") and hasattr(v, "gradient")), None)
        if tape is not None and losses:
            tape.gradient(losses, tape.watched_variables())

    def _bad_variable(self, step: EagerStep) -> dict[str, Any] | None:
        """Returns a variable that the step wrote and that is not finite now, or None."""
        import numpy as np

        metric_keys = self.of_metrics()
        for key, (handle, _) in step.before.items():
            value = variable_values.read_variable(handle) if key not in metric_keys else None
            if value is not None and not is_tensor_finite(value):
                return {
                    "name": self._called.get(key, "a variable"),
                    "output": number_range(np.asarray(value._numpy()), np),
                }
        return None


def _autograph_disabled() -> AbstractContextManager[None]:
    """Disables AutoGraph. Keras 2 lets it copy loss functions, in eager steps too, and copies have other lines."""
    from tensorflow.python.autograph.core import ag_ctx

    context: AbstractContextManager[None] = ag_ctx.ControlStatusCtx(status=ag_ctx.Status.DISABLED)
    return context


def flatten_arrays(value: Any, depth: int = 3) -> list[Any]:
    """Returns tensors, variables and arrays of a nested structure; for a sparse gradient its values."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [t for one in value[:MAX_LIST_ELEMENTS] for t in flatten_arrays(one, depth - 1)] if depth else []
    if hasattr(value, "dense_shape") and hasattr(value, "values"):
        value = value.values
    return [value] if hasattr(value, "dtype") and hasattr(value, "shape") else []


def is_tensor_finite(tensor: Any) -> bool:
    """Returns whether all numbers of a tensor are finite; True if it is too large to be examined in each step."""
    import numpy as np

    try:
        if not tensor.dtype.is_floating:
            return True
        array = tensor._numpy()
    except Exception:
        return True
    return array.size > MAX_CHECKED_NUMBERS or bool(np.isfinite(array).all())


def _first_bad_number(target: Any) -> str:
    bad = next((t for t in flatten_arrays(target) if not is_tensor_finite(t)), None)
    numbers = bad._numpy().ravel() if bad is not None else ()
    return repr(next((float(n) for n in numbers if not math.isfinite(n)), math.nan))


def _largest_gradient_range(gradients: Sequence[Any], numpy: Any) -> dict[str, Any] | None:
    """Returns the range of the gradient with the largest number."""
    ranges = [number_range(numpy.asarray(t._numpy()), numpy) for t in gradients if hasattr(t, "_numpy")]
    return max(ranges, key=lambda r: max(abs(r["least"] or 0.0), abs(r["most"] or 0.0)), default=None)


def _update_origin(step: EagerStep, found: dict[str, Any], bad: dict[str, Any]) -> dict[str, Any]:
    """Returns the optimizer's update as the origin: loss and gradients were finite, and a variable after it is not."""
    inputs = [found["largest"]] if found.get("largest") else []
    origin = {"kind": "op", "type": "", "variable": bad["name"], "inputs": inputs, "output": bad["output"]}
    return {"step": step.number, "replayed": 0, "origin": {**origin, "site": None, "gradient": False}}


def _bad_array_origin(names: dict[str, Any], origin: dict[str, Any], numpy: Any) -> dict[str, Any]:
    """Returns the script's array that is not finite and was the input of an op, as the origin."""
    for name, value in names.items():
        for one in flatten_arrays(value):
            if isinstance(one, numpy.ndarray) and one.dtype.kind == "f" and not numpy.isfinite(one).all():
                return {"kind": "data", "name": name, "output": number_range(one, numpy), "site": origin.get("site")}
    return origin

"""`slowtrain run --on-nonfinite` for Keras on the JAX backend, whose step is a pure function of its state and a batch.

Kept are copies of the last two states, because the step deletes its own, and the batches since. Once a loss is bad,
the step's functions run again from there. The first bad one runs once more equation by equation of its jaxpr. Each
equation has its layer's scope and its line.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Progress, loss_scalars
from slowtrain.capture.jax.jit_arguments import tree_leaves
from slowtrain.capture.nonfinite.first_bad_equation import TENSORFLOW_OPS, EquationReplay, float_array, is_array_finite
from slowtrain.capture.nonfinite.subnormal_values import OfferedVariables
from slowtrain.capture.nonfinite.variable_values import MemoryBudget

MIN_STATE_PERIOD_S = 0.25  # between two states that are kept; the loss is examined as often
MAX_STATE_BYTES_PER_S = 100_000_000
MAX_REPLAY_S = 60.0
MAX_CALLS = 20_000
METRICS_POSITION = 3  # position of the metrics in the state of a step
REPLAY_ADVICE = 'call jax.config.update("jax_debug_nans", True) at the start of the script: it raises at the first NaN'


class RecordingIterator(Iterator[Any]):
    """The iterator of a step function. Stores the batches that it gives."""

    def __init__(self, iterator: Any, batches: list[Any]) -> None:
        self.given = iterator
        self.batches = batches

    def __next__(self) -> Any:
        batch = next(self.given)
        self.batches.append(batch)
        return batch


class JaxReplay:
    """Installed only with the option."""

    def __init__(
        self,
        recorder: Recorder,
        progress: Progress,
        examined: Callable[[Callable[[], dict[str, Any]], bool], None],
        ending: Callable[[], None],
        offer: Callable[[OfferedVariables], None],
    ) -> None:
        self.recorder = recorder
        self.progress = progress
        self.examined = examined
        self.ending = ending
        self.offer = offer
        self.over = False
        self._model: Any = None
        self._states: list[tuple[int, Any]] = []  # number of calls before the state, and the state
        self._calls: list[tuple[int, list[Any]]] = []  # the step's number and its batches
        self._logs: Any = None  # results of the newest call
        self._bytes = 0
        self._reserve_rows, self._room_for_batches = MemoryBudget(), MemoryBudget()
        self._due_ns = 0
        self._lost = ""

    def wrap_step(self, model: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the training function with the check around it."""

        def step(state: Any, iterator: Any) -> Any:
            if self.over or self._lost:
                return function(state, iterator)
            self.recorder.guard("checking", self._handle_step_begin, model, state)
            batches: list[Any] = []
            logs, state = function(state, RecordingIterator(iterator, batches))
            self.recorder.guard("checking", self._handle_step_end, batches, _loss_logs(logs))
            return logs, state

        return step

    def _handle_step_begin(self, model: Any, state: Any) -> None:
        if model is not self._model:
            self._model, self._states, self._calls, self._logs, self._bytes = model, [], [], None, 0
            self._due_ns = 0
            self.ending()
        if now() < self._due_ns:
            return
        if self._logs is not None and not is_tree_finite(self._logs):
            self._tell(ending=False)
            return
        jax = sys.modules["jax"]
        size = sum(int(getattr(a, "nbytes", 0)) for a in jax.tree_util.tree_leaves(state))
        if not self._reserve_rows.holds(size, len(self._states) * size + self._bytes):
            self._lost = f"its state takes {self._reserve_rows.refusal_reason(size)}"
            return
        self._due_ns = now() + int(1e9 * max(MIN_STATE_PERIOD_S, size / MAX_STATE_BYTES_PER_S))
        host_state = _copy_to_host(state)
        self._states.append((len(self._calls), host_state))
        if len(self._states) > 2 or self._too_large:
            self._forget()
        named = dict(enumerate(_named_weights(model, host_state)))
        way = "eager" if model.run_eagerly else "function"
        self.offer(OfferedVariables(named, {i: name for i, (name, _) in named.items()}, way))

    def _handle_step_end(self, batches: list[Any], logs: Any) -> None:
        self._logs = logs
        self._calls.append((self.progress.steps, batches))
        self._bytes += sum(int(getattr(a, "nbytes", 0)) for b in batches for a in tree_leaves(b))
        if self._too_large or len(self._calls) > MAX_CALLS:
            self._due_ns = 0  # requests a new state, and older data is dropped

    @property
    def _too_large(self) -> bool:
        """Whether the batches need too much memory. With a card they are in its memory."""
        there = sys.modules["jax"].default_backend() != "cpu"
        return not self._room_for_batches.holds(self._bytes, self._bytes, on_card=there)

    def _forget(self) -> None:
        """Drops everything before the last two states; before the newest, if batches need too much memory."""
        del self._states[: -1 if self._too_large else -2]
        first = self._states[0][0]
        del self._calls[:first]
        self._states = [(at - first, state) for at, state in self._states]
        self._bytes = sum(
            int(getattr(a, "nbytes", 0)) for _, batches in self._calls for b in batches for a in tree_leaves(b)
        )

    def at_exit(self) -> None:
        if not self.over and self._logs is not None and not is_tree_finite(self._logs):
            self._tell(ending=True)

    def _tell(self, ending: bool) -> None:
        bad_value = next((v for v in map(float, tree_leaves(self._logs)) if not math.isfinite(v)), math.nan)
        self.recorder.event("nonfinite", "loss", now(), step=self.progress.steps, value=repr(bad_value))
        self.examined(self._find_origin, ending)
        self._states, self._calls, self._logs, self._model = [], [], None, None

    # -- once a loss is bad

    def _find_origin(self) -> dict[str, Any]:
        if self._lost or not self._states:
            return {"unknown": self._lost or "no state was kept", "instead": REPLAY_ADVICE}
        step, deadline, replayed = _step_function(self._model), time.monotonic() + MAX_REPLAY_S, 0
        at, host_state = self._states[0]
        state: Any = sys.modules["jax"].device_put(host_state)
        bad: Any = None
        for at_step, batches in self._calls[at:]:
            for batch in batches:
                if time.monotonic() > deadline:
                    return {"unknown": f"it took too long ({replayed} steps ran again)", "instead": REPLAY_ADVICE}
                logs, after = step(state, batch)
                if not is_tree_finite(_loss_logs(logs)) or not is_tree_finite(after[:METRICS_POSITION]):
                    bad = at_step, batch
                    break
                state, replayed = after, replayed + 1
            if bad is not None:
                break
        if bad is None:
            return {
                "unknown": f"{replayed} steps run again stayed finite",
                "replayed": replayed,
                "instead": REPLAY_ADVICE,
            }
        return {"step": bad[0], "replayed": replayed, **first_equation(self._model, state, bad[1])}


def _step_function(model: Any) -> Callable[..., Any]:
    """Returns the model's step, compiled if possible. It keeps its state."""
    jax = sys.modules["jax"]
    compiled = jax.jit(model.train_step)

    def step(state: Any, batch: Any) -> Any:
        try:
            return compiled(state, batch)
        except jax.errors.JAXTypeError:  # its Python reads numbers, which is allowed with run_eagerly
            return model.train_step(state, batch)

    return step


def _copy_to_host(state: Any) -> Any:
    """Copies a state to the host's memory, because the free memory of a card belongs to the script."""
    import numpy as np

    return sys.modules["jax"].tree_util.tree_map(np.array, state)


def _loss_logs(logs: Any) -> Any:
    """Returns the loss among a step's results, if one is named so. Metrics may legitimately be NaN."""
    return dict(loss_scalars(logs.items())) if isinstance(logs, dict) else logs


def is_tree_finite(tree: Any) -> bool:
    return all((array := float_array(value)) is None or is_array_finite(array) for value in tree_leaves(tree))


def first_equation(model: Any, state: Any, batch: Any) -> dict[str, Any]:
    """Returns where the first non-finite number in a step comes from, if it reaches the step's results."""
    jax = sys.modules["jax"]
    try:
        closed = jax.make_jaxpr(model.train_step)(state, batch)
    except jax.errors.JAXTypeError as error:
        return {
            "unknown": f"the step cannot be written down as equations ({type(error).__name__})",
            "instead": REPLAY_ADVICE,
        }
    layers = {str(layer.name) for layer in model._flatten_layers()} - {str(model.name)}
    look, weights = EquationReplay(layers), _named_weights(model, state)
    results = look.run(closed, [*weights, *_named_leaves("batch", batch)], len(weights))
    reached = min((o for o in results if o), default=0)
    if not reached:
        return {"unknown": f"equation by equation the step stayed finite ({look.count})", "instead": REPLAY_ADVICE}
    origin, losses = look.origins[reached - 1], results[: max(len(results) - len(weights), 0)]
    if origin["kind"] == "op" and reached not in losses:
        origin = {**origin, "gradient": True}  # it reaches the weights and not the loss
    if origin["kind"] == "op":
        kind = origin["of"] if origin["gradient"] else origin["type"]
        origin = {**origin, "of": kind, "like": TENSORFLOW_OPS.get(kind, kind)}
    return {"origin": origin, "ops": look.count}


def _named_weights(model: Any, state: Any) -> list[tuple[str, Any]]:
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    names = [str(v.path) for group in groups for v in group]
    values = tree_leaves(state)
    return list(zip(names, values, strict=True)) if len(names) == len(values) else [("a weight", v) for v in values]


def _named_leaves(name: str, tree: Any) -> list[tuple[str, Any]]:
    """Returns the leaves of a batch in JAX's order, with their names."""
    paths = sys.modules["jax"].tree_util.tree_flatten_with_path(tree)[0]
    return [(name + sys.modules["jax"].tree_util.keystr(path), value) for path, value in paths]

"""Patches of Keras 3 on JAX: waits of a step for its batch, for its compiler, and for the device.

On this backend a step function requests its batch from a Python iterator and starts the compiled step. This call
returns before the device is done. The host runs ahead, by some dozens of steps at most, and waits when a value is read
or an epoch ends. So more is recorded than the step itself: the time when its batch is ready, after which the rest of
the step function starts the compiled step (lane ``function``), and the time when all started work is done (lane
``sync``). From the latter the reader computes how long the device's own steps take.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from slowtrain.capture.core.patching import Wrapper, patch_on_import, replace_function, replace_property
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.tensor_readbacks import readback_timer
from slowtrain.capture.core.thread_state import Progress, ReadbackSite, ThreadState
from slowtrain.capture.inspection import call_signatures

TRAINER_MODULE = "keras.src.backend.jax.trainer"
COMPILE_EVENTS = "/jax/core/compile/"  # prefix of JAX's own events: tracing, lowering, the backend's compiler
TRACED_EVENT, COMPILED_EVENT = "jaxpr_trace_duration", "backend_compile_duration"
# Environment variables for the share of a card that JAX's allocator takes, the newer name first; and the default.
SHARE_VARIABLES, DEFAULT_SHARE = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"), 0.75
STEP_NAMES = ("train_step", "test_step", "predict_step")  # names of the compiled functions of Keras' steps


class TimedBatches(Iterator[Any]):
    """The iterator that Keras gives its step function. Records how long each batch was waited for."""

    __slots__ = ("_emit", "_name", "_next", "_patches", "_seen", "_state")

    def __init__(self, batches: Iterator[Any], patches: JaxPatches) -> None:
        self._next = batches.__next__
        self._patches = patches
        self._state, self._emit, self._name = patches.state, patches.recorder.emit, patches.asked
        self._seen = False

    def __next__(self) -> Any:
        me = self._state.me
        if me.busy:
            return self._next()
        start = now()
        try:
            batch = self._next()
        finally:
            me.fed = end = now()
            me.left -= 1
            if not me.left:
                me.look(self._patches.recorder.active)
            self._emit((self._name, start, end, me.ident, 0))
        if not self._seen:
            self._seen = True
            self._patches.recorder.guard("batch", self._patches.set_batch_size, batch, me.loops)
        return batch


class JaxPatches:
    """Installs itself through import hooks."""

    def __init__(self, recorder: Recorder, state: ThreadState, progress: Progress) -> None:
        self.recorder = recorder
        self.state = state
        self.progress = progress
        self.asked = 0
        # by a step's function: how often it was compiled, start of the last trace
        self._traced: dict[str, tuple[int, int]] = {}
        self._hear: Any = self._heard  # one object, so that it can be found again in JAX's list

    def install(self) -> None:
        patch_on_import(self.recorder, TRAINER_MODULE, self._patch_trainer)
        patch_on_import(self.recorder, "jax._src.array", self._patch_readback)
        patch_on_import(self.recorder, "jax._src.monitoring", self._listen)
        self.recorder.at_exit.append(self._deafen)

    # -- batches

    def _patch_trainer(self, module: Any) -> None:
        self.asked = self.recorder.name("next", "next", "next", site=None)
        epochs = getattr(module, "JAXEpochIterator", None)
        if epochs is not None and "_get_iterator" in epochs.__dict__:
            replace_function(epochs, "_get_iterator", self._batches)
        if hasattr(module, "_distribute_data"):
            replace_function(module, "_distribute_data", self._feed)

    def _batches(self, original: Wrapper) -> Wrapper:
        recorder = self.recorder

        def _get_iterator(*args: Any, **kwargs: Any) -> Any:
            iterator = original(*args, **kwargs)
            return TimedBatches(iter(iterator), self) if recorder.active else iterator

        return _get_iterator

    def set_batch_size(self, batch: Any, loops: int) -> None:
        """Sets the loop's batch size from its first batch, if its arguments do not show it, as with a PyDataset."""
        about = self.progress.loop
        if about is None or loops > 2 or about.get("batch_size") or "shape" in (about.get("data") or {}):
            return
        size = call_signatures.batch_size(tuple(batch) if isinstance(batch, (tuple, list)) else (batch,))
        if size:
            about["batch_size"] = size

    def _feed(self, original: Wrapper) -> Wrapper:
        """Times batches that are put on the device. Work that JAX does in threads of its own is not included."""
        recorder, state = self.recorder, self.state
        name = recorder.name("feed", "device_put", "device_put", site=None)

        def _distribute_data(*args: Any, **kwargs: Any) -> Any:
            me = state.me
            if me.busy or not me.main or not recorder.active:
                return original(*args, **kwargs)
            start = now()
            try:
                return original(*args, **kwargs)
            finally:
                recorder.emit((name, start, now(), me.ident, 0))

        return _distribute_data

    # -- values that are looked at

    def _patch_readback(self, module: Any) -> None:
        """Patches the property from which Python's numbers, and copies as NumPy arrays, are read."""
        make = readback_timer(self.recorder, self.state, lambda _: "value", (ReadbackSite(),))
        replace_property(module.ArrayImpl, "_value", make)

    # -- the device

    def epoch_ends(self, callbacks: Any) -> None:
        """Waits until the device has done the epoch's steps, just before Keras waits itself to read its metrics."""
        self.settle(callbacks.__dict__.get("_model"))

    def settle(self, model: Any) -> None:
        """Does the same for the steps that a model has started, if Keras keeps their state."""
        state = getattr(model, "__dict__", {}).get("_jax_state")
        if state:
            self._wait(list(state.values())[::-1])

    def settle_step(self) -> None:
        """Waits for all steps before the one that is about to begin. They created the state that it is given."""
        if self.progress.given and TRAINER_MODULE in sys.modules:
            self._wait(self.progress.given[0])

    def _wait(self, results: Any) -> None:
        array = _first_live_array(results)
        if array is None or not self.state.me.main:
            return
        start = now()
        array.block_until_ready()  # one is enough, because a program's results are ready at the same time
        self.recorder.span(self.recorder.name("sync", "device"), start, now())

    # -- compiling

    def _listen(self, module: Any) -> None:
        """Registers for JAX's events, which report what was traced and compiled, and how long it took."""
        module.register_event_duration_secs_listener(self._hear)

    def _deafen(self) -> None:
        module = sys.modules.get("jax._src.monitoring")
        listeners = getattr(module, "_event_duration_secs_listeners", [])
        if self._hear in listeners:
            listeners.remove(self._hear)

    def _heard(self, event: str, duration_s: float, **about: Any) -> None:
        if self.recorder.active and event.startswith(COMPILE_EVENTS):
            if self.progress.compiling is not None:  # this event is of the tracing, which comes first
                self.recorder.guard("compiling", self.progress.compiling)
            self.recorder.guard("compiling", self._note, event[len(COMPILE_EVENTS) :], duration_s, about)

    def _note(self, what: str, duration_s: float, about: dict[str, Any]) -> None:
        recorder, me, end = self.recorder, self.state.me, now()
        start = end - int(duration_s * 1e9)
        recorder.span(recorder.name("trace", "jit"), start, end)
        text = str(about.get("fun_name") or "").removeprefix("jit(").removesuffix(")").removeprefix("compiled_")
        if not me.steps or text not in STEP_NAMES:
            return
        count, since = self._traced.get(text, (0, start))
        if what == TRACED_EVENT:
            self._traced[text] = count, start
        elif what == COMPILED_EVENT:
            self._traced[text] = count + 1, start
            trains = text == STEP_NAMES[0]
            more = {"number": f"jit {text}", "nth": count + 1, "training": trains, "keras": True, "jit": True}
            recorder.event("trace", text, max(since, 0), end, **more)


def _first_live_array(results: Any) -> Any:
    """Returns one JAX array from nested lists that was not deleted."""
    stack = [results]
    while stack:
        one = stack.pop()
        if isinstance(one, (list, tuple)):
            stack.extend(reversed(one))
        elif hasattr(one, "block_until_ready") and not one.is_deleted():
            return one
    return None


# -- facts

has_custom_loops: list[
    bool
] = []  # contains True once the script takes gradients with JAX itself, whatever else it has imported


def active_jax() -> Any:
    """Returns JAX if it trains, or TensorFlow is absent, and the script has opened JAX's devices; else None.

    Slowtrain never opens the devices. That takes memory, and settings that the script makes later would come too late.
    """
    jax, bridge = sys.modules.get("jax"), sys.modules.get("jax._src.xla_bridge")
    if jax is None or ("tensorflow" in sys.modules and TRAINER_MODULE not in sys.modules and not has_custom_loops):
        return None
    return jax if getattr(bridge, "_backends", None) else None


def jax_devices() -> list[dict[str, Any]]:
    return [{"kind": device_kind(d), "name": str(d), "model": str(d.device_kind)} for d in active_jax().local_devices()]


def gpu_memory_readers() -> list[Callable[[], dict[str, int]]]:
    """Returns for each GPU a reader of the bytes of JAX's allocator: in use, peak, and free in its pool."""

    def reader(device: Any) -> Callable[[], dict[str, int]]:
        def read_stats() -> dict[str, int]:
            stats = device.memory_stats() or {}
            used, peak, pool = (stats.get(key) for key in ("bytes_in_use", "peak_bytes_in_use", "pool_bytes"))
            found = {"": used, "peak ": peak, "free ": pool - used if pool and used is not None else None}
            return {what: int(count) for what, count in found.items() if count is not None}

        return read_stats

    return [reader(d) for d in active_jax().local_devices() if device_kind(d) == "GPU"]


def allocator_limit() -> dict[str, Any] | None:
    """Returns for the first GPU the maximum bytes of JAX's allocator, and the share of the card that they are.

    Returns None if there is no GPU, or the limit is not known. The share:
    https://docs.jax.dev/en/latest/gpu_memory_allocation.html
    """
    first = next((d for d in active_jax().local_devices() if device_kind(d) == "GPU"), None)
    limit = (first.memory_stats() or {}).get("bytes_limit") if first is not None else None
    shares = [os.environ[name] for name in SHARE_VARIABLES if os.environ.get(name)]
    return {"limit_bytes": int(limit), "share": float(shares[0]) if shares else DEFAULT_SHARE} if limit else None


def device_kind(device: Any) -> str:
    """Returns the kind as TensorFlow names it: CPU, GPU, TPU."""
    platform = str(device.platform)
    return "GPU" if platform in ("gpu", "cuda", "rocm") else platform.upper()


def jax_build() -> dict[str, Any]:
    from slowtrain.capture.inspection import framework_builds  # imported late, to keep the script's start fast

    return framework_builds.BUILD_READERS["jax"]()

"""Patches of Keras 3 on JAX: where a step waits for its batch, for its compiler, and for the device.

On this backend a step function asks a Python iterator for its batch and starts the compiled step, which returns before
the device is done: the host runs ahead, by some dozens of steps at most, and waits once a value is looked at or an
epoch ends. So three moments are noted beside the step itself: when its batch was there, after which the rest of the
step function starts the compiled step (lane ``function``); and when all that was started is done (lane ``sync``), by
which the reader can tell how long the device's own steps take.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from slowtrain.capture import signatures
from slowtrain.capture.patching import Wrapper, on_import, replace, replace_property
from slowtrain.capture.recorder import Recorder, now
from slowtrain.capture.state import Progress, Read, ThreadState
from slowtrain.capture.tensors import readback

TRAINER = "keras.src.backend.jax.trainer"
COMPILING = "/jax/core/compile/"  # JAX's own events: tracing, lowering, the backend's compiler
TRACED, COMPILED = "jaxpr_trace_duration", "backend_compile_duration"
# What share of a card JAX's allocator takes, the newer name first; and where neither is set.
SHARES, SHARE = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"), 0.75
STEPS = ("train_step", "test_step", "predict_step")  # what the compiled functions of Keras' steps are called


class Batches(Iterator[Any]):
    """The iterator that Keras gives its step function; notes how long each batch was waited for."""

    __slots__ = ("_emit", "_name", "_next", "_patches", "_seen", "_state")

    def __init__(self, given: Iterator[Any], patches: JaxPatches) -> None:
        self._next = given.__next__
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
            self._patches.recorder.guard("batch", self._patches.sized, batch, me.loops)
        return batch


class JaxPatches:
    """Installs itself through import hooks."""

    def __init__(self, recorder: Recorder, state: ThreadState, progress: Progress) -> None:
        self.recorder = recorder
        self.state = state
        self.progress = progress
        self.asked = 0
        self._traced: dict[str, tuple[int, int]] = {}  # of a step's function: how often it was compiled, traced since
        self._hear: Any = self._heard  # one object, to be found again in JAX's list

    def install(self) -> None:
        on_import(self.recorder, TRAINER, self._patch_trainer)
        on_import(self.recorder, "jax._src.array", self._patch_readback)
        on_import(self.recorder, "jax._src.monitoring", self._listen)
        self.recorder.at_exit.append(self._deafen)

    # -- batches

    def _patch_trainer(self, module: Any) -> None:
        self.asked = self.recorder.name("next", "next", "next", site=None)
        epochs = getattr(module, "JAXEpochIterator", None)
        if epochs is not None and "_get_iterator" in epochs.__dict__:
            replace(epochs, "_get_iterator", self._batches)
        if hasattr(module, "_distribute_data"):
            replace(module, "_distribute_data", self._feed)

    def _batches(self, original: Wrapper) -> Wrapper:
        recorder = self.recorder

        def _get_iterator(*args: Any, **kwargs: Any) -> Any:
            given = original(*args, **kwargs)
            return Batches(iter(given), self) if recorder.active else given

        return _get_iterator

    def sized(self, batch: Any, loops: int) -> None:
        """How many samples a batch of the loop's holds, where nothing that it was given tells: a PyDataset's, say."""
        about = self.progress.loop
        if about is None or loops > 2 or about.get("batch_size") or "shape" in (about.get("data") or {}):
            return
        size = signatures.batch_size(tuple(batch) if isinstance(batch, (tuple, list)) else (batch,))
        if size:
            about["batch_size"] = size

    def _feed(self, original: Wrapper) -> Wrapper:
        """Batches that are put on the device; what JAX leaves to threads of its own is not in it."""
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
        """Python's numbers, and NumPy's arrays where they are copies, come out of an array by one property."""
        make = readback(self.recorder, self.state, lambda _: "value", (Read(),))
        replace_property(module.ArrayImpl, "_value", make)

    # -- the device

    def epoch_ends(self, callbacks: Any) -> None:
        """Waits until the device has done the epoch's steps, just before Keras does so itself to read its metrics."""
        self.settle(callbacks.__dict__.get("_model"))

    def settle(self, model: Any) -> None:
        """The same for what a model's steps have started, if Keras keeps it."""
        state = getattr(model, "__dict__", {}).get("_jax_state")
        if state:
            self._wait(list(state.values())[::-1])

    def settle_step(self) -> None:
        """Waits for all the steps before the one that is about to begin: they made the state that it is given."""
        if self.progress.given and TRAINER in sys.modules:
            self._wait(self.progress.given[0])

    def _wait(self, made: Any) -> None:
        array = _first_array(made)
        if array is None or not self.state.me.main:
            return
        start = now()
        array.block_until_ready()  # one is enough: a program's results are there all at once
        self.recorder.span(self.recorder.name("sync", "device"), start, now())

    # -- compiling

    def _listen(self, module: Any) -> None:
        """JAX tells whoever asks what it traced and compiled, and how long that took."""
        module.register_event_duration_secs_listener(self._hear)

    def _deafen(self) -> None:
        module = sys.modules.get("jax._src.monitoring")
        listeners = getattr(module, "_event_duration_secs_listeners", [])
        if self._hear in listeners:
            listeners.remove(self._hear)

    def _heard(self, event: str, duration_s: float, **about: Any) -> None:
        if self.recorder.active and event.startswith(COMPILING):
            if self.progress.compiling is not None:  # this event is of the tracing, which comes first
                self.recorder.guard("compiling", self.progress.compiling)
            self.recorder.guard("compiling", self._note, event[len(COMPILING) :], duration_s, about)

    def _note(self, what: str, duration_s: float, about: dict[str, Any]) -> None:
        recorder, me, end = self.recorder, self.state.me, now()
        start = end - int(duration_s * 1e9)
        recorder.span(recorder.name("trace", "jit"), start, end)
        text = str(about.get("fun_name") or "").removeprefix("jit(").removesuffix(")").removeprefix("compiled_")
        if not me.steps or text not in STEPS:
            return
        count, since = self._traced.get(text, (0, start))
        if what == TRACED:
            self._traced[text] = count, start
        elif what == COMPILED:
            self._traced[text] = count + 1, start
            trains = text == STEPS[0]
            more = {"number": f"jit {text}", "nth": count + 1, "training": trains, "keras": True, "jit": True}
            recorder.event("trace", text, max(since, 0), end, **more)


def _first_array(made: Any) -> Any:
    """One array of JAX's out of lists of lists of them, which was not given away."""
    stack = [made]
    while stack:
        one = stack.pop()
        if isinstance(one, (list, tuple)):
            stack.extend(reversed(one))
        elif hasattr(one, "block_until_ready") and not one.is_deleted():
            return one
    return None


# -- facts

by_hand: list[bool] = []  # filled once the script takes gradients with JAX itself, whatever else it has imported


def at_work() -> Any:
    """JAX, where it trains or TensorFlow is not there, and the script has opened its devices; else None.

    It is never us who open them: that takes memory, and settings that the script makes later would come too late.
    """
    jax, bridge = sys.modules.get("jax"), sys.modules.get("jax._src.xla_bridge")
    if jax is None or ("tensorflow" in sys.modules and TRAINER not in sys.modules and not by_hand):
        return None
    return jax if getattr(bridge, "_backends", None) else None


def devices() -> list[dict[str, Any]]:
    return [{"kind": kind(d), "name": str(d), "model": str(d.device_kind)} for d in at_work().local_devices()]


def memory() -> list[Callable[[], dict[str, int]]]:
    """For each GPU a reader of what JAX's allocator says: given out, at most so far, free in its pool."""

    def reader(device: Any) -> Callable[[], dict[str, int]]:
        def told() -> dict[str, int]:
            stats = device.memory_stats() or {}
            used, peak, pool = (stats.get(key) for key in ("bytes_in_use", "peak_bytes_in_use", "pool_bytes"))
            found = {"": used, "peak ": peak, "free ": pool - used if pool and used is not None else None}
            return {what: int(count) for what, count in found.items() if count is not None}

        return told

    return [reader(d) for d in at_work().local_devices() if kind(d) == "GPU"]


def allocator() -> dict[str, Any] | None:
    """Of the first GPU: the bytes that JAX's allocator may take, and the share of the card that they are.

    None where there is none, or it does not tell. The share: https://docs.jax.dev/en/latest/gpu_memory_allocation.html
    """
    first = next((d for d in at_work().local_devices() if kind(d) == "GPU"), None)
    limit = (first.memory_stats() or {}).get("bytes_limit") if first is not None else None
    given = [os.environ[name] for name in SHARES if os.environ.get(name)]
    return {"limit_bytes": int(limit), "share": float(given[0]) if given else SHARE} if limit else None


def kind(device: Any) -> str:
    """As TensorFlow says it: CPU, GPU, TPU."""
    platform = str(device.platform)
    return "GPU" if platform in ("gpu", "cuda", "rocm") else platform.upper()


def build() -> dict[str, Any]:
    from slowtrain.capture import builds  # not while the script starts

    return builds.BUILDS["jax"]()

"""Begins and ends a recording inside the user's process."""

from __future__ import annotations

import atexit
import gc
import hashlib
import linecache
import os
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import wrapt

from slowtrain.capture.core import patching
from slowtrain.capture.core.line_tracer import LineClock
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.span_rows import PlainRows
from slowtrain.capture.core.tensor_readbacks import TensorPatches
from slowtrain.capture.core.thread_state import Progress, ThreadState, new_thread_state
from slowtrain.capture.growth.growth_watch import GrowthWatch
from slowtrain.capture.growth.object_growth import ObjectGrowthWatch
from slowtrain.capture.inspection import user_code
from slowtrain.capture.jax import custom_loops, keras_backend
from slowtrain.capture.keras.callback_patches import CallbackPatches, SavePatches
from slowtrain.capture.keras.loop_patches import KerasPatches
from slowtrain.capture.keras.pydataset_patches import ItemPatches
from slowtrain.capture.nonfinite.function_replay import MODE_VARIABLE, MODES, NonfiniteCheck
from slowtrain.capture.nonfinite.subnormal_values import ArithmeticWatch
from slowtrain.capture.process import clean_tracebacks, failure_hooks
from slowtrain.capture.process.periodic_samples import LossWatch, MachineSampler, StackSampler
from slowtrain.capture.sandbox import probe
from slowtrain.capture.tensorflow.dataset_patches import DatasetPatches
from slowtrain.capture.tensorflow.function_patches import TensorFlowPatches
from slowtrain.capture.tensorflow.session_patches import SessionPatches
from slowtrain.capture.windows.deep_windows import DeepWindows
from slowtrain.machine.host import host_facts
from slowtrain.recording.thinning import DEFAULT_MAX_BYTES

MAX_SOURCE_CHARACTERS = 300_000  # characters of the script that are stored
MAX_MODULES = 1_000
STACK_PERIOD_S = 0.05  # between two samples of the main thread's stack
TIMED_IMPORTS = frozenset(
    "tensorflow keras tf_keras jax torch numpy scipy pandas sklearn matplotlib cv2 PIL h5py transformers "
    "tensorflow_datasets tensorflow_hub tensorflow_addons skimage".split()
)

current_recorder: Recorder | None = None  # set while `slowtrain run` records this process


def begin_recording(folder: str, begun_ns: int) -> None:
    """Starts recording into ``folder``. ``sitecustomize`` calls it before the script; it started at ``begun_ns``."""
    recorder = Recorder(Path(folder), int(os.environ.pop("SLOWTRAIN_MAX_DISK", DEFAULT_MAX_BYTES)))
    try:
        recorder.start()
        mode = os.environ.pop(MODE_VARIABLE, None)
        install_recorder(recorder, windows=os.environ.pop("SLOWTRAIN_WINDOWS", "1") != "0", on_nonfinite=mode)
        global current_recorder  # noqa: PLW0603  one process, one recording
        current_recorder = recorder
        recorder.fact("own_ms", (now() - begun_ns) / 1e6)
    except Exception as error:
        # The parent reports a recording that cannot be made. The script continues.
        recorder.active = False
        try:
            Path(folder, "failed.txt").write_text(f"{type(error).__name__}: {error}\n")
        except OSError:
            return


def install_recorder(
    recorder: Recorder, *, windows: bool, guest: bool = False, on_nonfinite: str | None = None
) -> tuple[ThreadState, NonfiniteCheck | None]:
    """Installs all patches and watches.

    ``guest`` means that the process was not started for us. Its hooks for errors are left unchanged then. Returns the
    state of the threads, and the check for non-finite values if ``on_nonfinite`` names a mode.
    """
    state, progress = new_thread_state(), Progress()
    recorder.trains = lambda: bool(progress.steps)
    checking = NonfiniteCheck(recorder, state, progress, on_nonfinite) if on_nonfinite in MODES else None
    about = {"pid": os.getpid(), "born": host_facts.process_birth(os.getpid()), "begun_ns": now()}
    about["compiled"] = not isinstance(recorder.rows, PlainRows)
    recorder.fact("child", about | {"python": sys.version.split()[0]})
    recorder.fact("windows", windows)
    lines = LineClock(recorder)
    datasets = DatasetPatches(recorder, state, lines)
    datasets.install()
    TensorFlowPatches(recorder, state, progress, checking).install()
    SessionPatches(recorder, state, progress).install()
    TensorPatches(recorder, state).install()
    on_jax = keras_backend.JaxPatches(recorder, state, progress)
    on_jax.install()
    by_hand = custom_loops.JaxLoops(recorder, state, progress)
    by_hand.install()
    watch = ItemPatches(recorder, state, lines).watch
    KerasPatches(recorder, state, progress, watch, checking, on_jax.settle).install()
    CallbackPatches(recorder, datasets, progress, on_jax.epoch_ends).install()
    SavePatches(recorder).install()

    def settle() -> None:
        on_jax.settle_step()
        by_hand.settle_step()

    DeepWindows(recorder, progress, enabled=windows, settle=settle)
    if checking is not None:
        checking.install()
        recorder.every(0.25, checking.subnormals)
    probe.begin_probe(recorder, progress)
    clock = ImportClock(recorder)
    sys.meta_path.insert(0, clock)
    recorder.at_exit.append(lambda: sys.meta_path.remove(clock))
    recorder.guard("gc", _record_collections, recorder)
    _install_watches(recorder, progress, checking, ObjectGrowthWatch(recorder, progress) if windows else None)
    if not guest:
        recorder.guard("tracebacks", clean_tracebacks.install_clean_tracebacks)
        recorder.guard("failing", failure_hooks.install_failure_hooks, recorder)
        atexit.register(finish_recording, recorder)
    return state, checking


def _install_watches(
    recorder: Recorder, progress: Progress, checking: NonfiniteCheck | None, objects: ObjectGrowthWatch | None
) -> None:
    recorder.every(STACK_PERIOD_S, StackSampler(recorder))
    losses = LossWatch(recorder, progress, checking)
    recorder.every(0.25, losses)
    recorder.every(STACK_PERIOD_S, losses.look_early)
    recorder.at_exit += [losses, losses.seen.write]  # looks at what was kept since the last look
    recorder.every(0.1, ArithmeticWatch(recorder))
    framework = FrameworkFacts(recorder, progress)
    recorder.every(0.5, framework)
    recorder.at_exit.append(framework)  # for steps that ended before the watch ran
    recorder.every(0.35, MachineSampler(recorder))
    recorder.every(0.1, GrowthWatch(recorder, progress, objects))


def finish_recording(recorder: Recorder) -> None:
    """Ends a recording: writes what is left, and restores every patched function."""
    recorder.fact("end_ns", now())
    recorder.stop()
    recorder.guard("undo", patching.restore_originals)


def _record_collections(recorder: Recorder) -> None:
    watch = recorder.rows.collector(*(recorder.name("gc", f"generation {g}") for g in range(3)))
    gc.callbacks.append(watch)
    # At the end, because the last collections find half a module. In the other cases nobody reads the rows any more.
    for ends in (recorder.at_exit, recorder.at_fork, recorder.at_end):
        ends.append(lambda: gc.callbacks.remove(watch))


class ImportClock:
    """A finder that finds nothing. It notes when the first module of a known package is imported."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._main = threading.main_thread().ident
        self._started: dict[str, int] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name in TIMED_IMPORTS and threading.get_ident() == self._main:
            self.recorder.guard("import", self._note_search, name)
        return None

    def _note_search(self, name: str) -> None:
        known = name in self._started
        # the last time counts, because an earlier search may only have tested whether the package exists
        self._started[name] = now()
        if not known:
            wrapt.register_post_import_hook(self._note_import, name)

    def _note_import(self, module: Any) -> None:
        self.recorder.guard("import", self._note, module.__name__)

    def _note(self, name: str) -> None:
        self.recorder.span(self.recorder.name("import", name), self._started.get(name, now()), now())


class FrameworkFacts:
    """Versions, devices and settings. Read once after the first step, so that reading them does not initialise
    anything.
    """

    def __init__(self, recorder: Recorder, progress: Progress) -> None:
        self.recorder = recorder
        self.progress = progress
        self._read: set[str] = set()

    def __call__(self) -> None:
        for name in ("tensorflow", "keras", "jax"):
            module = sys.modules.get(name)
            if module is not None and name not in self._read and hasattr(module, "__version__"):
                self._read.add(name)
                self.recorder.fact(f"version.{name}", str(module.__version__))
        if self.progress.steps:
            self.recorder.fact("steps_so_far", self.progress.steps)
        if self.progress.steps and "settings" not in self._read:
            self._read.add("settings")
            for key, read in _SETTINGS.items():
                if key in _TENSORFLOW_SETTINGS and keras_backend.active_jax() is not None:
                    read = _JAX_SETTINGS.get(key, _no_setting)
                elif key in _TENSORFLOW_SETTINGS and "tensorflow" not in sys.modules:
                    continue  # Keras on another backend
                value = self.recorder.guard(key, read)
                if value is not None:
                    self.recorder.fact(key, value)


def _no_setting() -> None:
    return None


def _read_devices() -> list[dict[str, Any]]:
    config = sys.modules["tensorflow"].config
    return [{"kind": d.device_type, "name": d.name} for d in config.list_physical_devices()]


def _read_build() -> dict[str, Any]:
    from slowtrain.capture.inspection import framework_builds  # imported late, to keep the script's start fast

    return framework_builds.tensorflow_build(sys.modules["tensorflow"])


def _read_threads() -> dict[str, Any]:
    threading_config = sys.modules["tensorflow"].config.threading
    return {
        "intra_op": threading_config.get_intra_op_parallelism_threads(),
        "inter_op": threading_config.get_inter_op_parallelism_threads(),
    }


def _affinity_cores() -> int:
    """Returns the cores that the script may use now. It may have pinned its own thread after the recorder's had
    started.
    """
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    return len(os.sched_getaffinity(threading.main_thread().native_id or 0))


def _functions_eager() -> bool:
    return bool(sys.modules["tensorflow"].config.functions_run_eagerly())


def _read_keras() -> dict[str, Any]:
    keras = sys.modules.get("keras")
    if keras is None:
        return {}
    about: dict[str, Any] = {}
    config = getattr(keras, "config", None) or keras.backend
    for name in ("floatx", "backend"):
        read = getattr(config, name, None)
        if callable(read):
            about[name] = str(read())
    return about


def _script_sources() -> dict[str, str]:
    """Returns the script's text as it ran. The file may have changed when the recording is read."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if not file:
        return {}
    candidate_texts = probe.candidate_texts()
    main = candidate_texts.get(os.path.abspath(file)) or Path(file).read_text(encoding="utf-8", errors="replace")
    return {name: text[:MAX_SOURCE_CHARACTERS] for name, text in {**candidate_texts, file: main}.items()}


def _notebook_cells() -> dict[str, str] | None:
    """Returns the newest cells of a notebook by the file name in their code, or None if a script runs."""
    if getattr(sys.modules.get("__main__"), "__file__", None):
        return None
    cells = [(name, row[2]) for name, row in list(linecache.cache.items()) if len(row) == 4 and row[1] is None]
    return {
        name: "".join(text)[:MAX_SOURCE_CHARACTERS] for name, text in cells if user_code.is_user_source(name)
    } or None


def _module_digests() -> dict[str, str]:
    """Returns the project's own files that the script has imported, each with a digest.

    Own files are those below the working folder that do not belong to a package.
    """
    here = os.path.join(os.path.realpath(os.getcwd()), "")
    installed = tuple(os.path.join(os.path.realpath(p), "") for p in {sys.prefix, sys.base_prefix})
    files = {
        os.path.realpath(f) for m in list(sys.modules.values()) if isinstance(f := getattr(m, "__file__", None), str)
    }
    below = (f for f in files if f.startswith(here) and f.endswith(".py") and not f.startswith(installed))
    own = sorted(filter(user_code.is_user_file, below))
    return {file: hashlib.sha256(Path(file).read_bytes()).hexdigest()[:32] for file in own[:MAX_MODULES]}


_TENSORFLOW_SETTINGS = frozenset({"devices", "build", "threads", "functions_eager"})
_JAX_SETTINGS: dict[str, Callable[[], Any]] = {"devices": keras_backend.jax_devices, "build": keras_backend.jax_build}
_SETTINGS: dict[str, Callable[[], Any]] = {
    "affinity_cores": _affinity_cores,
    "devices": _read_devices,
    "build": _read_build,
    "threads": _read_threads,
    "functions_eager": _functions_eager,
    "keras": _read_keras,
    "sources": _script_sources,
    "cells": _notebook_cells,
    "modules": _module_digests,
}

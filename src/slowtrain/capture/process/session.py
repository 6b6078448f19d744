"""A recording that code begins and ends inside its own process: `slowtrain.record`, `slowtrain.Monitor`."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from slowtrain.capture.core import patching
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import ThreadState
from slowtrain.capture.inspection import user_code
from slowtrain.capture.keras import loop_patches
from slowtrain.capture.process import launch, recorder_setup
from slowtrain.capture.tensorflow import preexisting_functions
from slowtrain.errors import InputError
from slowtrain.recording.thinning import DEFAULT_MAX_BYTES

ADVICE = "give slowtrain.record or slowtrain.Monitor another folder"

_now_recording: Session | None = None


class Session:
    """One recording, from ``begin_session`` to :meth:`end`. Fork, crash and full disk end it as in `slowtrain run`."""

    def __init__(self, recorder: Recorder, state: ThreadState, about: dict[str, Any]) -> None:
        self.recorder = recorder
        self.state = state
        self.about = about
        self.folder = recorder.folder
        self.at_end: list[Callable[[], None]] = []
        self._own_loop: tuple[int, dict[str, Any]] | None = None
        self._fit: tuple[int, CodeType] | None = None  # thread and code of the fit that this session was started for
        recorder.at_fork.append(self._stop_in_child)

    @property
    def active(self) -> bool:
        return _now_recording is self

    def end(self, code: int = 0) -> None:
        """Writes what is left, and restores every patched function. Can be called twice."""
        global _now_recording  # noqa: PLW0603  one process, one recording
        if not self.active:
            return
        self.end_loop()
        atexit.unregister(self.end)
        with contextlib.suppress(Exception):
            recorder_setup.finish_recording(self.recorder)
        patching.restore_originals()
        _now_recording = None
        launch.note_end(self.folder, self.about, code, time.perf_counter_ns())
        for call in self.at_end:
            with contextlib.suppress(Exception):
                call()

    def _stop_in_child(self) -> None:
        """Runs in the child of a fork, which is not recorded. How the child ends says nothing about this recording."""
        global _now_recording  # noqa: PLW0603  one process, one recording
        _now_recording = None
        atexit.unregister(self.end)
        patching.restore_originals()

    # -- fit, reported by a callback

    def begin_loop(self, model: Any, params: dict[str, Any]) -> None:
        """Records a fit that was called before its function was patched: ``fit(…, callbacks=[Monitor()])``."""
        recorder = self.recorder
        code = next((f.f_code for f in _frame_and_callers(sys._getframe(1)) if f.f_code.co_name == "fit"), None)
        self._fit = (threading.get_ident(), code) if code is not None else None
        if self._own_loop is not None:
            self.end_loop()  # the previous fit failed
        if any(lane == "loop" for _, lane, _ in list(recorder._unfinished)):
            return
        arguments = {"epochs": params.get("epochs") or 1, "steps_per_epoch": params.get("steps")}
        about = recorder.guard("fit", loop_patches._loop_arguments, "fit", model, (), arguments) or dict(arguments)
        about |= {"site": user_code.user_place(sys._getframe(1)), "nested": 0}
        begun_ns = now()
        self.state.me.loops += 1
        self._own_loop = begun_ns, about
        recorder.note_begin("loop", "fit", begun_ns, **about)
        if getattr(model, "train_function", None) is not None:
            # Created before the recording began. Keras returns the function it has, and our patch wraps that.
            recorder.guard("step function", model.make_train_function)

    def end_loop(self) -> None:
        """Writes the span and the event of a fit that ends. Its own wrapper would write them after the recording's
        end.
        """
        recorder, at = self.recorder, now()
        for start, lane, name in list(recorder._unfinished):
            if lane == "loop":
                data = dict(recorder._unfinished.get((start, lane, name)) or {})
                recorder.span(recorder.name("loop", name, ("loop", name, 0), nested=0), start, at)
                recorder.event("loop", name, start, at, **data)
        if self._own_loop is not None:
            self._own_loop = None
            self.state.me.loops = max(self.state.me.loops - 1, 0)

    def has_failed(self) -> bool:
        """Returns whether the fit that the session was started for has ended with an error.

        That is so if it was called in this thread and its code is no longer on the stack.
        """
        if self._fit is None or self._fit[0] != threading.get_ident():
            return False
        return all(frame.f_code is not self._fit[1] for frame in _frame_and_callers(sys._getframe(1)))


def _frame_and_callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Yields a frame and its callers, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def outside_recording_folder() -> Path | None:
    """Returns the folder of the recording that `slowtrain run` makes of this process, or None."""
    return (
        recorder_setup.current_recorder.folder
        if recorder_setup.current_recorder is not None and recorder_setup.current_recorder.active
        else None
    )


def current_session() -> Session | None:
    """Returns the session in progress. Ends a session whose fit has failed, because nothing else would end it.

    In a notebook the cell runs again, for example after Ctrl-C, and makes a new callback.
    """
    if _now_recording is not None and _now_recording.has_failed():
        _now_recording.end(1)
    return _now_recording


def _recorded_command(stem: str) -> list[str]:
    """Returns the command that started the process, or ``stem`` in a notebook, whose kernel command is of no use."""
    kernel = Path(sys.argv[0]).name == "ipykernel_launcher.py"
    return [stem] if kernel else list(sys.argv)


def begin_session(
    parent: Path, stem: str, *, windows: bool, max_bytes: int = DEFAULT_MAX_BYTES, on_nonfinite: str | None = None
) -> Session:
    """Starts recording this process into a new folder. Raises ``InputError`` if the folder cannot be written.

    There is one recording at a time; the caller asks ``current_session`` first.
    """
    global _now_recording  # noqa: PLW0603  one process, one recording
    start_ns = time.perf_counter_ns()
    folder = launch.new_folder(parent, stem, advice=ADVICE).resolve()
    about = launch.note_start(folder, [sys.executable, *_recorded_command(stem)], start_ns)
    recorder = Recorder(folder, max_bytes)
    try:
        recorder.start()
    except (OSError, sqlite3.Error) as error:  # for example a full disk, or one without locks
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"cannot write a recording to {parent} ({error}); {ADVICE}") from error
    state, checking = recorder_setup.install_recorder(recorder, windows=windows, guest=True, on_nonfinite=on_nonfinite)
    recorder.guard("functions made before", preexisting_functions.adopt_functions, checking)
    session = Session(recorder, state, about)
    _now_recording = session
    atexit.register(session.end)
    return session

"""A recording that code begins and ends itself, inside its own process: `slowtrain.record`, `slowtrain.Monitor`."""

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

from slowtrain.capture import already, child, frames, keras, launch, patching
from slowtrain.capture.recorder import Recorder, now
from slowtrain.capture.state import ThreadState
from slowtrain.capture.thinning import MAX_BYTES
from slowtrain.errors import InputError

ADVICE = "give slowtrain.record or slowtrain.Monitor another folder"

_now_recording: Session | None = None


class Session:
    """One recording, from :func:`begin` to :meth:`end`. Fork, crash and a full disk end it as they do elsewhere."""

    def __init__(self, recorder: Recorder, state: ThreadState, about: dict[str, Any]) -> None:
        self.recorder = recorder
        self.state = state
        self.about = about
        self.folder = recorder.folder
        self.at_end: list[Callable[[], None]] = []
        self._own_loop: tuple[int, dict[str, Any]] | None = None
        self._fit: tuple[int, CodeType] | None = None  # the thread and the code of the fit that it was made for
        recorder.at_fork.append(self._forked)

    @property
    def active(self) -> bool:
        return _now_recording is self

    def end(self, code: int = 0) -> None:
        """Writes what is left, and puts every patched function back. Safe to call twice."""
        global _now_recording  # noqa: PLW0603  one process, one recording
        if not self.active:
            return
        self.loop_ended()
        atexit.unregister(self.end)
        with contextlib.suppress(Exception):
            child.finish(self.recorder)
        patching.undo()
        _now_recording = None
        launch.ended(self.folder, self.about, code, time.perf_counter_ns())
        for call in self.at_end:
            with contextlib.suppress(Exception):
                call()

    def _forked(self) -> None:
        """In the child of a fork, which is not recorded: how that ends says nothing of this recording."""
        global _now_recording  # noqa: PLW0603  one process, one recording
        _now_recording = None
        atexit.unregister(self.end)
        patching.undo()

    # -- fit, told of by a callback

    def loop_begun(self, model: Any, params: dict[str, Any]) -> None:
        """A fit whose call was on its way before its function was patched: ``fit(…, callbacks=[Monitor()])``."""
        recorder = self.recorder
        code = next((f.f_code for f in _above(sys._getframe(1)) if f.f_code.co_name == "fit"), None)
        self._fit = (threading.get_ident(), code) if code is not None else None
        if self._own_loop is not None:
            self.loop_ended()  # of a fit that failed
        if any(lane == "loop" for _, lane, _ in list(recorder._unfinished)):
            return
        given = {"epochs": params.get("epochs") or 1, "steps_per_epoch": params.get("steps")}
        about = recorder.guard("fit", keras._arguments, "fit", model, (), given) or dict(given)
        about |= {"site": frames.place(sys._getframe(1)), "nested": 0}
        begun_ns = now()
        self.state.me.loops += 1
        self._own_loop = begun_ns, about
        recorder.begun("loop", "fit", begun_ns, **about)
        if getattr(model, "train_function", None) is not None:
            # Made before a recording that begins here; Keras gives back what it has, and our patch wraps that.
            recorder.guard("step function", model.make_train_function)

    def loop_ended(self) -> None:
        """A fit that ends: its span and its event, which its own wrapper would write after the recording's end."""
        recorder, at = self.recorder, now()
        for start, lane, name in list(recorder._unfinished):
            if lane == "loop":
                data = dict(recorder._unfinished.get((start, lane, name)) or {})
                recorder.span(recorder.name("loop", name, ("loop", name, 0), nested=0), start, at)
                recorder.event("loop", name, start, at, **data)
        if self._own_loop is not None:
            self._own_loop = None
            self.state.me.loops = max(self.state.me.loops - 1, 0)

    def failed(self) -> bool:
        """Whether the fit that it was made for has begun in this thread and is not under way: it ended by an error."""
        if self._fit is None or self._fit[0] != threading.get_ident():
            return False
        return all(frame.f_code is not self._fit[1] for frame in _above(sys._getframe(1)))


def _above(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and those that called it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def recorded_from_outside() -> Path | None:
    """The folder of the recording that `slowtrain run` makes of this process, if it does."""
    return child.current.folder if child.current is not None and child.current.active else None


def in_progress() -> Session | None:
    """The recording under way. One that was made for a fit that has failed ends here: nothing else would end it.

    In a notebook the cell is run again, after Ctrl-C say, and a new callback with it.
    """
    if _now_recording is not None and _now_recording.failed():
        _now_recording.end(1)
    return _now_recording


def _command(stem: str) -> list[str]:
    """What the process was started with; of a notebook's kernel that says nothing to anybody."""
    kernel = Path(sys.argv[0]).name == "ipykernel_launcher.py"
    return [stem] if kernel else list(sys.argv)


def begin(
    parent: Path, stem: str, *, windows: bool, max_bytes: int = MAX_BYTES, on_nonfinite: str | None = None
) -> Session:
    """Starts recording this process into a new folder. Raises ``InputError`` where that cannot be written.

    There is one recording at a time; the caller asks :func:`in_progress` first.
    """
    global _now_recording  # noqa: PLW0603  one process, one recording
    start_ns = time.perf_counter_ns()
    folder = launch.new_folder(parent, stem, advice=ADVICE).resolve()
    about = launch.begun(folder, [sys.executable, *_command(stem)], start_ns)
    recorder = Recorder(folder, max_bytes)
    try:
        recorder.start()
    except (OSError, sqlite3.Error) as error:  # a full disk, one without locks
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"cannot write a recording to {parent} ({error}); {ADVICE}") from error
    state, checking = child.install(recorder, windows=windows, guest=True, on_nonfinite=on_nonfinite)
    recorder.guard("functions made before", already.adopt, checking)
    session = Session(recorder, state, about)
    _now_recording = session
    atexit.register(session.end)
    return session

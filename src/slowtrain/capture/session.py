"""A recording that code begins and ends itself, inside its own process: `slowtrain.record`, `slowtrain.Monitor`."""

from __future__ import annotations

import atexit
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slowtrain.capture import already, child, frames, keras, launch, patching
from slowtrain.capture.recorder import Recorder, now
from slowtrain.capture.state import ThreadState
from slowtrain.capture.thinning import MAX_BYTES

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

    # -- fit, told of by a callback

    def loop_begun(self, model: Any, params: dict[str, Any]) -> None:
        """A fit whose call was on its way before its function was patched: ``fit(…, callbacks=[Monitor()])``."""
        recorder = self.recorder
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


def recorded_from_outside() -> Path | None:
    """The folder of the recording that `slowtrain run` makes of this process, if it does."""
    return child.current.folder if child.current is not None and child.current.active else None


def in_progress() -> Session | None:
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
    folder = launch.new_folder(parent, stem).resolve()
    about = launch.begun(folder, [sys.executable, *_command(stem)], start_ns)
    recorder = Recorder(folder, max_bytes)
    recorder.start()
    state, checking = child.install(recorder, windows=windows, guest=True, on_nonfinite=on_nonfinite)
    recorder.guard("functions made before", already.adopt, checking)
    session = Session(recorder, state, about)
    _now_recording = session
    atexit.register(session.end)
    return session

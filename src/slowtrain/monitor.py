"""A Keras callback, and a ``with`` block for loops and notebooks, to record from inside a script.

    model.fit(…, callbacks=[slowtrain.Monitor()])

    with slowtrain.record() as run:
        …
    run.checkup()

Both make the same recording as ``slowtrain run``, inside the running process. If ``slowtrain run`` already records the
process, they record nothing and say so; alerts and metrics work nevertheless.
"""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowtrain.errors import InputError
from slowtrain.recording.recording_folder import RUNS_FOLDER
from slowtrain.shared.live_frame import Alert, Frame

if TYPE_CHECKING:
    from slowtrain.capture.process.session import Session
    from slowtrain.checkup.notebook import ShownCheckup

EVERY_S = 2.0

log = logging.getLogger("slowtrain")


class Run:
    """A recording that was started here. ``folder`` is its path, for `slowtrain report` and `slowtrain watch`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def checkup(self) -> ShownCheckup:
        """The diagnosis of the recording, complete or so far. Raises ``InputError``."""
        from slowtrain.checkup import notebook

        return notebook.shown_checkup(self.folder)

    def report(self, *, width: int = 80) -> str:
        """The report as text."""
        from slowtrain.report import text

        return text.checkup_text(self.checkup(), width=width)

    def frame(self) -> Frame:
        """The present state, as ``slowtrain watch`` shows it."""
        from slowtrain.watch.run_watch import Watch

        watch = Watch(self.folder, examine=False)
        try:
            return watch.look()
        finally:
            watch.close()

    def _repr_html_(self) -> str:
        return self.checkup()._repr_html_()

    def __repr__(self) -> str:
        return f"<slowtrain recording {self.folder}>"


@dataclasses.dataclass
class Outputs:
    """Optional outputs while a recording is made."""

    on_alert: Callable[[Alert], object] | None = None
    alert_command: str | None = None
    prometheus_port: int | None = None
    tensorboard: str | Path | None = None
    every_s: float = EVERY_S

    def begin(self, folder: Path) -> Callable[[], None]:
        """Starts them and returns a function that ends them. Raises ``InputError`` and ``EnvironmentMissing``."""
        from slowtrain.watch import frame_outputs, frame_stream

        wanted = (self.on_alert, self.alert_command, self.prometheus_port, self.tensorboard)
        if not any(x is not None for x in wanted):
            return lambda: None
        alert_outputs = (
            frame_outputs.parse_alert_command(self.alert_command)
            if self.alert_command
            else frame_outputs.AlertDelivery()
        )
        if self.on_alert is not None:
            alert_outputs.calls = (_ignore_frame(self.on_alert),)
        seen: list[Callable[[Frame], None]] = [alert_outputs.look]
        ends: list[Callable[[], None]] = [alert_outputs.close]

        def look(frame: Frame) -> None:
            for one in seen:
                one(frame)

        try:
            if self.prometheus_port is not None:
                from slowtrain.watch.frame_outputs import MetricsServer

                metrics = MetricsServer(self.prometheus_port)
                seen.append(metrics)
                ends.append(metrics.close)
            if self.tensorboard is not None:
                from slowtrain.capture.keras.callback_patches import TensorBoardScalars

                scalars = TensorBoardScalars(Path(self.tensorboard))
                seen.append(lambda frame: scalars.write(frame.progress.steps or 0, figures(frame)))
                ends.append(scalars.close)
            process = frame_stream.FrameStream(folder, self.every_s, look)
        except BaseException:
            for one in ends:
                one()
            raise

        def end() -> None:
            process.close()
            for one in ends:
                one()
            for fault in (*process.faults, *([alert_outputs.note] if alert_outputs.note else [])):
                log.warning("%s", fault)

        return end


def _ignore_frame(call: Callable[[Alert], object]) -> Callable[[Alert, Frame], None]:
    def tell(alert: Alert, _frame: Frame) -> None:
        call(alert)

    return tell


def figures(frame: Frame) -> dict[str, float]:
    """The figures of a frame that are drawn as curves; what was not measured is omitted."""
    found = {
        "step_ms": frame.step.now_ms,
        "samples_per_s": frame.step.samples_per_s,
        "memory_mb": frame.machine.rss_bytes / 1e6 if frame.machine.rss_bytes is not None else None,
        "cores": frame.machine.cores,
        "alerts": float(sum(a.over_ms is None for a in frame.alerts)),
    }
    found |= {f"share/{part.name}": part.share for part in frame.parts}
    for i, gpu in enumerate(frame.machine.gpus):
        found |= {f"gpu{i}/util_share": gpu.util_share, f"gpu{i}/memory_bytes": gpu.used_bytes}
    return {name: float(value) for name, value in found.items() if value is not None}


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to record. Raises ``InputError`` for values that ``slowtrain run`` rejects as well."""

    folder: Path
    name: str | None
    windows: bool
    max_disk: str | int | None
    on_nonfinite: str | None

    def begin(self) -> Session:
        from slowtrain.capture.nonfinite import function_replay
        from slowtrain.capture.process import session
        from slowtrain.recording import recording_folder, thinning

        if self.on_nonfinite is not None and self.on_nonfinite not in function_replay.MODES:
            raise InputError(f"on_nonfinite={self.on_nonfinite!r} is not {' or '.join(function_replay.MODES)}")
        most = thinning.DEFAULT_MAX_BYTES
        if self.max_disk is not None:
            most = recording_folder.parse_size("max_disk", str(self.max_disk), least=thinning.MIN_MAX_BYTES)
        return session.begin_session(
            self.folder,
            self.name or _script_name(),
            windows=self.windows,
            max_bytes=most,
            on_nonfinite=self.on_nonfinite,
        )


@contextmanager
def record(
    folder: str | Path = RUNS_FOLDER,
    *,
    name: str | None = None,
    windows: bool = True,
    max_disk: str | int | None = None,
    on_nonfinite: str | None = None,
    on_alert: Callable[[Alert], object] | None = None,
    alert_command: str | None = None,
    prometheus_port: int | None = None,
    tensorboard: str | Path | None = None,
) -> Iterator[Run]:
    """Records what runs inside the block into a new folder below ``folder``, and restores everything at its end.

    ``name``: the beginning of that folder's name. ``windows=False``: no short windows of the profiler and of the line
    tracer. ``max_disk`` ("1GB") and ``on_nonfinite`` ("stop", "report") are those of ``slowtrain run``. Raises
    ``InputError`` if nothing can be written, or if a recording is already in progress here.
    """
    from slowtrain.capture.process import session

    outputs = Outputs(on_alert, alert_command, prometheus_port, tensorboard)
    outside = session.outside_recording_folder()
    if outside is not None:
        log.warning("slowtrain run already records into %s: slowtrain.record() adds no second recording", outside)
        end = outputs.begin(outside)
        try:
            yield Run(outside)
        finally:
            end()
        return
    if (running := session.current_session()) is not None:
        raise InputError(f"this process is already being recorded into {running.folder}; end that recording first")
    begun = Settings(Path(folder), name, windows, max_disk, on_nonfinite).begin()
    code = 1
    try:
        begun.at_end.append(outputs.begin(begun.folder))
        yield Run(begun.folder)
        code = 0
    finally:
        begun.end(code)


def _script_name() -> str:
    """The script's name; "notebook" if there is none."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file).stem if file else "notebook"


class Monitoring:
    """A Keras callback that records training, from its creation to the end of ``fit``.

    A second ``fit`` makes another recording. ``run`` is the newest.
    """

    def __init__(
        self,
        folder: str | Path = RUNS_FOLDER,
        *,
        name: str | None = None,
        windows: bool = True,
        max_disk: str | int | None = None,
        on_nonfinite: str | None = None,
        on_alert: Callable[[Alert], object] | None = None,
        alert_command: str | None = None,
        prometheus_port: int | None = None,
        tensorboard: str | Path | None = None,
    ) -> None:
        super().__init__()
        self._settings = Settings(Path(folder), name, windows, max_disk, on_nonfinite)
        self._outputs = Outputs(on_alert, alert_command, prometheus_port, tensorboard)
        self._session: Any = None
        self._end: Callable[[], None] | None = None
        self.run: Run | None = None
        self._begin()

    def _begin(self) -> None:
        from slowtrain.capture.process import session

        outside = session.outside_recording_folder()
        running = session.current_session()
        if outside is None and running is None:
            self._session = self._settings.begin()
            self.run = Run(self._session.folder)
            try:
                self._session.at_end.append(self._outputs.begin(self._session.folder))
            except BaseException:
                self._session.end(1)
                raise
            return
        where = outside if outside is not None or running is None else running.folder
        assert where is not None
        log.warning("this process is already being recorded into %s: slowtrain.Monitor adds no second recording", where)
        self.run = Run(where)
        self._end = self._outputs.begin(where)

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002  Keras' signature
        if self._session is not None and not self._session.active:
            self._session = None
            self._begin()
        if self._session is not None:
            self._session.begin_loop(getattr(self, "model", None), dict(getattr(self, "params", None) or {}))

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002  Keras' signature
        self.close()

    def close(self) -> None:
        """Ends the recording. ``fit`` does that when it ends, but not when it fails."""
        if self._session is not None:
            self._session.end()
        if self._end is not None:
            self._end()
            self._end = None

    def checkup(self) -> ShownCheckup:
        """The diagnosis of the newest recording."""
        assert self.run is not None
        return self.run.checkup()

    def report(self, *, width: int = 80) -> str:
        """The newest recording's report as text."""
        assert self.run is not None
        return self.run.report(width=width)

    def _repr_html_(self) -> str:
        return self.checkup()._repr_html_()


def __getattr__(name: str) -> Any:
    """Creates ``Monitor`` at its first use, because only then Keras is needed."""
    if name != "Monitor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from slowtrain.capture.keras import callback_patches

    monitor_class = type(
        "Monitor",
        (Monitoring, callback_patches.keras_callback_class()),
        {"__doc__": Monitoring.__doc__, "__module__": "slowtrain"},
    )
    globals()[name] = monitor_class
    return monitor_class

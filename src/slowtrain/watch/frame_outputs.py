"""Where frames and their alerts go: Python callables, a command, Prometheus.

Each alert is delivered once. A command gets the alert as JSON on standard input and in environment variables. It is
started without a shell, one at a time, with a minimum interval. A failure is noted and never ends the run. Metrics are
served through Prometheus' own client library, on the loopback interface only.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from slowtrain.errors import EnvironmentMissing, InputError
from slowtrain.report import frames
from slowtrain.shared.live_frame import Alert, Frame, RunState

MIN_START_INTERVAL_S = 10.0  # between two starts of the command
MAX_COMMAND_S = 60.0  # then it is ended
MAX_WAITING_ALERTS = 20
MAX_LAST_COMMAND_S = 5.0  # for a running command at the end

AlertCallable = Callable[[Alert, Frame], None]


class AlertDelivery:
    """``note``: the last failure; empty if there was none."""

    def __init__(self, calls: tuple[AlertCallable, ...] = (), command: AlertCommand | None = None) -> None:
        self.calls = calls
        self.command = command
        self._note = ""
        self._sent_at_ms: dict[str, float] = {}

    @property
    def note(self) -> str:
        return self._note or (self.command.note if self.command is not None else "")

    def look(self, frame: Frame) -> None:
        """Delivers current alerts that were not delivered. An alert that ended and begins again is delivered again."""
        for alert in frame.alerts:
            if alert.over_ms is not None or self._sent_at_ms.get(alert.id) == alert.at_ms:
                continue
            self._sent_at_ms[alert.id] = alert.at_ms
            for call in self.calls:
                try:
                    call(alert, frame)
                except Exception as error:  # noqa: BLE001  somebody's function
                    self._note = f"the alert function failed ({type(error).__name__}: {error})"
            if self.command is not None:
                self.command.add(alert, frame)
        if self.command is not None:
            self.command.turn()

    def close(self) -> None:
        if self.command is not None:
            self.command.close()


def parse_alert_command(text: str) -> AlertDelivery:
    """Parses a command line of the user. Raises ``InputError`` if it is not valid."""
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise InputError(f"--alert-command {text!r} cannot be split into words ({error})") from error
    if not argv:
        raise InputError("--alert-command needs a command")
    if shutil.which(argv[0]) is None:
        raise InputError(f"--alert-command: there is no program {argv[0]!r}; give its path")
    return AlertDelivery(command=AlertCommand(argv))


class AlertCommand:
    """Runs ``argv`` for each alert. Meanwhile the newest alert of each id waits."""

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv
        self.note = ""
        self.runs = 0
        self._waiting: OrderedDict[str, tuple[Alert, Frame]] = OrderedDict()
        self._process: subprocess.Popen[bytes] | None = None
        self._begun_s = float("-inf")

    def add(self, alert: Alert, frame: Frame) -> None:
        self._waiting[alert.id] = alert, frame
        while len(self._waiting) > MAX_WAITING_ALERTS:
            self._waiting.popitem(last=False)

    def turn(self) -> None:
        """Called at each look: collects the running command, or starts the next."""
        at = time.monotonic()
        if self._process is not None:
            self._check_exit(at)
        if self._process is None and self._waiting and at - self._begun_s >= MIN_START_INTERVAL_S:
            self._begun_s = at
            self._start_command(*self._waiting.popitem(last=False)[1])

    def _check_exit(self, at: float) -> None:
        process = self._process
        if process is None:
            return
        code = process.poll()
        if code is None and at - self._begun_s > MAX_COMMAND_S:
            _kill_session(process)
            code = process.wait()
            self.note = f"the alert command was stopped after {MAX_COMMAND_S:.0f} s"
        elif code:
            self.note = f"the alert command failed (exit code {code})"
        if code is not None:
            self._process = None

    def _start_command(self, alert: Alert, frame: Frame) -> None:
        document = {"schema": "slowtrain.alert/1", "folder": frame.folder, "command": frame.command}
        document |= {"alert": next(a for a in frames.frame_document(frame)["alerts"] if a["id"] == alert.id)}
        self.runs += 1
        try:
            with tempfile.TemporaryFile() as input_file:
                input_file.write(json.dumps(document).encode())
                input_file.seek(0)
                self._process = subprocess.Popen(
                    self.argv,
                    stdin=input_file,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=_alert_environment(alert, frame),
                    start_new_session=True,
                )
        except OSError as error:
            self.note = f"the alert command could not be started ({error.strerror})"

    def close(self) -> None:
        """Delivers the last alerts as well, if that is quick."""
        until = time.monotonic() + MAX_LAST_COMMAND_S
        while (self._process is not None or self._waiting) and time.monotonic() < until:
            if self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(max(until - time.monotonic(), 0.1))
            self._begun_s = (
                float("-inf") if self._process is None or self._process.poll() is not None else self._begun_s
            )
            self.turn()
        if self._process is not None:
            _kill_session(self._process)
            self._process.wait()
            self._process = None


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    """Ends the command and all that it started: it is the leader of its own session."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def _alert_environment(alert: Alert, frame: Frame) -> dict[str, str]:
    place = alert.where[0] if alert.where else None
    values = {
        "ID": alert.id,
        "SAYS": alert.says,
        "URGENT": "1" if alert.urgent else "0",
        "AT_SECONDS": f"{alert.at_ms / 1e3:.1f}",
        "FOLDER": frame.folder,
        "COMMAND": frame.command,
        "FILE": place.file if place else "",
        "LINE": str(place.line) if place else "",
    }
    # Text in a recording may come from anywhere, and an environment variable cannot contain NUL.
    named = {f"SLOWTRAIN_ALERT_{key}": value.replace("\0", "") for key, value in values.items()}
    ours = {k: v for k, v in os.environ.items() if not k.startswith("SLOWTRAIN_")}
    return {**ours, **named}


LOOPBACK_ADDRESS = "127.0.0.1"


class MetricsServer:
    """Serves the newest frame at ``http://127.0.0.1:PORT/metrics``. Call it with each frame.

    Raises ``EnvironmentMissing`` without the library, and ``InputError`` if the port is not available.
    """

    def __init__(self, port: int) -> None:
        try:
            import prometheus_client
        except ImportError as error:
            raise EnvironmentMissing(
                "metrics for Prometheus need its client library: pip install 'slowtrain[prometheus]'"
            ) from error
        if not 0 <= port <= 65_535:
            raise InputError(f"{port} is not a port; use one from 1024 to 65535")
        self.frame: Frame | None = None
        registry = prometheus_client.CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = prometheus_client.start_http_server(
                port, addr=LOOPBACK_ADDRESS, registry=registry
            )
        except OSError as error:
            raise InputError(
                f"cannot listen at {LOOPBACK_ADDRESS}:{port} ({error.strerror}); choose another port"
            ) from error
        self.port = int(self._server.server_port)
        if hasattr(os, "register_at_fork"):
            # Else a forked process would keep the port without answering.
            os.register_at_fork(after_in_child=self._server.socket.close)

    def __call__(self, frame: Frame) -> None:
        self.frame = frame

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def describe(self) -> Iterator[Any]:
        """Yields nothing, because the metrics depend on what was measured."""
        return iter(())

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        frame = self.frame
        if frame is None:
            return
        steps = frame.progress.steps
        if steps is not None:
            yield CounterMetricFamily("slowtrain_steps", "Steps taken", value=steps)
        for name, text, value in _single_metrics(frame):
            if value is not None:
                yield GaugeMetricFamily(f"slowtrain_{name}", text, value=value)
        if frame.parts:
            shares = GaugeMetricFamily(
                "slowtrain_step_share", "Parts of a step in the last seconds, as shares of 1", labels=["part"]
            )
            for part in frame.parts:
                shares.add_metric([part.name], part.share)
            yield shares
        busy = GaugeMetricFamily(
            "slowtrain_gpu_util_share", "Share of the time the GPU is busy", labels=["gpu", "name"]
        )
        used = GaugeMetricFamily("slowtrain_gpu_memory_bytes", "Memory in use", labels=["gpu", "name"])
        for i, gpu in enumerate(frame.machine.gpus):
            for family, value in ((busy, gpu.util_share), (used, gpu.used_bytes)):
                if value is not None:
                    family.add_metric([str(i), gpu.name], value)
        yield from (family for family in (busy, used) if family.samples)
        alerts = GaugeMetricFamily("slowtrain_alert", "1 for each active alert", labels=["id", "urgent"])
        for alert in frame.alerts:
            if alert.over_ms is None:
                alerts.add_metric([alert.id, str(alert.urgent).lower()], 1)
        yield alerts


def _single_metrics(frame: Frame) -> Iterator[tuple[str, str, float | None]]:
    """Name, help and value; what was not measured is omitted, never zero."""
    step, done, machine = frame.step, frame.progress, frame.machine
    yield (
        "running",
        "1 while the run's process exists",
        float(frame.state in (RunState.RUNNING, RunState.STARTING, RunState.CUT)),
    )
    yield "run_seconds", "Time since the run began", frame.run_ms / 1e3
    yield "step_seconds", "Median step of the last seconds", _ms_to_s(step.now_ms)
    yield "step_run_seconds", "Median step of the whole run", _ms_to_s(step.run_ms)
    yield "samples_per_second", "Samples per second in the last seconds", step.samples_per_s
    yield "epoch", "The epoch in progress, from 1", done.epoch
    yield "left_seconds", "Time left of the loop in progress, if its length is known", _ms_to_s(done.left_ms)
    yield "memory_rss_bytes", "Memory of the run's process", machine.rss_bytes
    yield "memory_available_bytes", "Memory that is still available", machine.available_bytes
    yield "cores", "Processors that the run's process uses", machine.cores
    yield "disk_free_bytes", "Free space on the fuller of the run's disks", machine.disk_free_bytes


def _ms_to_s(ms: float | None) -> float | None:
    return ms / 1e3 if ms is not None else None

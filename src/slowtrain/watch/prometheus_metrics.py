"""Frames as Prometheus metrics, through Prometheus' own client library, on the loopback interface only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from slowtrain.errors import EnvironmentMissing, InputError
from slowtrain.model.answers.live_frame import Frame, RunState

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

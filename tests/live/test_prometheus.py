"""Frames as Prometheus metrics, read back over HTTP with Prometheus' own parser."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.request

import pytest

from slowtrain.errors import InputError

from .test_picture import BUSY, EMPTY

pytest.importorskip("prometheus_client", reason="slowtrain[prometheus] is not installed here")


def test_the_metrics() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    from slowtrain.watch.frame_outputs import LOOPBACK_ADDRESS, MetricsServer

    metrics = MetricsServer(0)
    try:
        metrics(BUSY)
        with urllib.request.urlopen(f"http://{LOOPBACK_ADDRESS}:{metrics.port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found = {(s.name, *s.labels.values()): s.value for f in text_string_to_metric_families(text) for s in f.samples}
        assert found["slowtrain_steps_total",] == 123_456
        assert found["slowtrain_step_seconds",] == pytest.approx(0.0421)
        assert found["slowtrain_step_share", "input"] == 0.71
        assert found["slowtrain_gpu_util_share", "0", "NVIDIA A100"] == 0.31
        assert found["slowtrain_alert", "stall", "true"] == 1
        assert ("slowtrain_alert", "gpu-idle", "false") not in found  # it is over
        metrics(EMPTY)
        with urllib.request.urlopen(f"http://{LOOPBACK_ADDRESS}:{metrics.port}/metrics", timeout=10) as answer:
            assert "slowtrain_step_seconds" not in answer.read().decode()  # not measured is not zero
        listening = metrics._server.socket.getsockname()[0]
        assert listening == "127.0.0.1"
    finally:
        metrics.close()


def test_a_port_that_is_taken() -> None:
    from slowtrain.watch.frame_outputs import MetricsServer

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="choose another port"):
            MetricsServer(taken.getsockname()[1])
    with pytest.raises(InputError, match="not a port"):
        MetricsServer(99_999)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_keep_the_port() -> None:
    """A worker that outlives the run would hold it, and answer nobody."""
    code = """
import os, socket, sys
from slowtrain.watch.frame_outputs import MetricsServer
metrics = MetricsServer(0)
read, write = os.pipe()
if not os.fork():
    os.close(write)
    os.read(read, 1)
    os._exit(0)
metrics.close()
with socket.socket() as again:
    again.bind(("127.0.0.1", metrics.port))
    again.listen()
print("free")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "free\n", done.stderr

"""A small training, timed with and without TensorFlow's profiler: what the profile holds, and what it costs.

python clinic/gpu_bench/profiling.py buffers off|on [--small]     XLA's command buffers under the profiler
python clinic/gpu_bench/profiling.py sharing [--small]            alone, then beside another process on the card
python clinic/gpu_bench/profiling.py neighbour short|long         that other process; ends with its standard input
"""

from __future__ import annotations

import contextlib
import glob
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STEPS = 40
# From the end of a launch call to the kernel's start, with an empty queue: beyond that another process has the card.
LATE_US = 50.0


def models(small: bool) -> dict[str, Any]:
    import numpy as np
    import tensorflow as tf
    from cures import LoopConv

    layers, keras = tf.keras.layers, tf.keras
    side = 8 if small else 16
    pictures = np.random.default_rng(0).random((32, side, side, 3), dtype="float32")
    rows = np.random.default_rng(0).random((32, 32), dtype="float32")

    def residual() -> Any:
        i = x = keras.Input((side, side, 3))
        for width in (32, 64):
            y = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same")(x)))
            x = layers.ReLU()(layers.add([layers.Conv2D(width, 3, padding="same")(y), layers.Conv2D(width, 1)(x)]))
        return keras.Model(i, layers.Dense(1)(layers.GlobalAveragePooling2D()(x)))

    def loops() -> Any:
        head = [keras.Input((side, side, 3)), LoopConv()]
        return keras.Sequential([*head, layers.GlobalAveragePooling2D(), layers.Dense(1)])

    def dense() -> Any:
        hidden = [layers.Dense(64, activation="relu") for _ in range(6)]
        return keras.Sequential([keras.Input((32,)), *hidden, layers.Dense(1)])

    return {"loops": (loops, pictures), "small dense": (dense, rows), "residual": (residual, pictures)}


def trained(make: Any, batch: Any) -> Any:
    """What trains ``STEPS`` steps; it has been called once."""
    import numpy as np
    import tensorflow as tf

    model = make()
    model.compile("adam", "mse")
    labels = np.zeros((len(batch), 1), "float32")
    data = tf.data.Dataset.from_tensors((batch, labels)).cache().repeat().prefetch(2)

    def run() -> None:
        model.fit(data, steps_per_epoch=STEPS, epochs=1, verbose=0)

    run()
    return run


def time_steps(run: Any) -> float:
    """Milliseconds a step, the median of five times."""
    spent = []
    for _ in range(5):
        begun = time.perf_counter()
        run()
        spent.append(1e3 * (time.perf_counter() - begun) / STEPS)
    return statistics.median(spent)


def profile(run: Any) -> dict[str, Any]:
    """Milliseconds a profiled step, and what the profile tells of kernels and their launches."""
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        begun = time.perf_counter()
        run()
        spent = time.perf_counter() - begun
        tf.profiler.experimental.stop()
        files = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        found = read_profile(Path(files[0])) if files else {"error": "no profile was written"}
    return {"profiled_ms": 1e3 * spent / STEPS, **found}


def read_profile(file: Path) -> dict[str, Any]:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    space.ParseFromString(file.read_bytes())
    kernels: list[tuple[float, float]] = []
    work, launches, graphs = [], {}, 0  # work: copies, too
    for plane in space.planes:
        on_device = plane.name.startswith("/device:GPU")
        for line in plane.lines:
            if on_device and "Stream" not in line.name:
                continue
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                graphs += "GraphLaunch" in name or "CudaGraph" in name
                start = line.timestamp_ns + event.offset_ps / 1e3
                span = (start, start + event.duration_ps / 1e3)
                number = _correlation(plane, event)
                if on_device:
                    work.append((*span, number))
                    kernels += [span] if not name.startswith("Memcpy") else []
                elif number is not None:
                    launches[number] = span[1]
    late_ns = _late(sorted(work), launches)
    return {
        "kernels": len(kernels) / STEPS,
        "with_launch_share": sum(w[2] in launches for w in work) / len(work) if work else None,
        "graph_launches": graphs / STEPS,
        "device_ms": _union_ns(kernels) / 1e6 / STEPS if kernels else None,
        "late_ms": late_ns / 1e6 / STEPS if launches and work else None,
    }


def _correlation(plane: Any, event: Any) -> int | None:
    for stat in event.stats:
        if plane.stat_metadata[stat.metadata_id].name == "correlation_id":
            return int(stat.uint64_value or stat.int64_value)
    return None


def _union_ns(kernels: list[tuple[float, float]]) -> float:
    total, end = 0.0, float("-inf")
    for start, stop in sorted(kernels):
        total += max(stop - max(start, end), 0.0)
        end = max(end, stop)
    return total


def _late(work: list[tuple[float, float, int]], launches: dict[int, float]) -> float:
    """Time in which work was launched, nothing else of this process ran, and it did not start."""
    total, busy_until = 0.0, float("-inf")
    for start, stop, number in work:
        if number in launches:
            waited = start - max(launches[number], busy_until)
            total += waited if waited > LATE_US * 1e3 else 0.0
        busy_until = max(busy_until, stop)
    return total


def buffers(setting: str, small: bool) -> None:
    for name, (make, batch) in models(small).items():
        run = trained(make, batch)
        row = {"ms": time_steps(run), **profile(run)}
        print("RESULT", json.dumps({"item": f"buffers:{setting}:{name}", **row}), flush=True)


def sharing(small: bool) -> None:
    """The small dense net alone, and beside a process of short and one of long kernels."""
    make, batch = models(small)["small dense"]
    run = trained(make, batch)
    for beside in ("nobody", "short", "long"):
        with neighbour(beside, small):
            row = {"ms": time_steps(run), **profile(run), "processes": _utilisation()}
        print("RESULT", json.dumps({"item": f"sharing:{beside}", **row}), flush=True)


@contextlib.contextmanager
def neighbour(kind: str, small: bool) -> Iterator[None]:
    if kind == "nobody":
        yield
        return
    command = [sys.executable, __file__, "neighbour", kind, *(["--small"] if small else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()  # it computes from here on
            yield
        finally:
            process.kill()


def be_neighbour(kind: str, small: bool) -> None:
    import tensorflow as tf

    side = (64 if small else 1024) if kind == "short" else (256 if small else 12_288)
    a = tf.random.normal((side, side))
    a = tf.matmul(a, a) / side
    print("computing", float(a[0, 0]), flush=True)
    until = time.monotonic() + 60  # where whoever started it is gone
    while time.monotonic() < until:
        for _ in range(10):
            a = tf.matmul(a, a) / side
        float(a[0, 0])


def _utilisation() -> list[dict[str, int]] | None:
    """What the driver says of each process on the card; None where it does not."""
    try:
        import pynvml

        pynvml.nvmlInit()
        card = pynvml.nvmlDeviceGetHandleByIndex(0)
        return [{"pid": p.pid, "sm": p.smUtil} for p in pynvml.nvmlDeviceGetProcessUtilization(card, 0)]
    except Exception:  # noqa: BLE001  containers and drivers refuse in many ways
        return None


def main() -> None:
    small = "--small" in sys.argv
    what = sys.argv[1]
    if what == "buffers":
        buffers(sys.argv[2], small)
    elif what == "sharing":
        sharing(small)
    else:
        be_neighbour(sys.argv[2], small)


if __name__ == "__main__":
    main()

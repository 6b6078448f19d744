"""A short load on each GPU: copies to it, with some arithmetic between them, in a child process of its own.

    python -m slowtrain.capture.load tensorflow SECONDS

Writes a line for each second that was asked for (after :data:`MARK`): the best rate of copying so far, in bytes a
second and by device. While it runs, whoever started it reads the link and the clocks.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

MARK = "slowtrain.load:"
COPY_BYTES = 64 << 20  # long beside the time that starting a copy takes, little beside any card's memory
SIDE = 2048

Copy = Callable[[], None]


def _tensorflow(kind: str) -> Iterator[Copy]:
    """For each device a function that copies to it once and computes a little there, to the end."""
    tf = importlib.import_module("tensorflow")
    for device in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(device, True)
    data = _data()
    for device in tf.config.list_logical_devices(kind):

        def copy(name: str = device.name) -> None:
            with tf.device(name):
                # convert_to_tensor may share NumPy's memory on a CPU; identity to a GPU is the copy.
                float(tf.identity(tf.convert_to_tensor(data))[0])

        yield copy


def _torch(kind: str) -> Iterator[Copy]:
    torch = importlib.import_module("torch")
    data = torch.from_numpy(_data())
    for index in range(torch.cuda.device_count() if kind == "GPU" else 0):
        pinned = data.pin_memory()

        def copy(index: int = index, pinned: Any = pinned) -> None:
            pinned.to(f"cuda:{index}", non_blocking=True)
            torch.cuda.synchronize(index)

        yield copy


def _jax(kind: str) -> Iterator[Copy]:
    jax = importlib.import_module("jax")
    data = _data()
    for device in jax.devices():
        if (device.platform == "cpu") == (kind == "CPU"):

            def copy(device: Any = device) -> None:
                jax.device_put(data, device).block_until_ready()

            yield copy


def _data() -> Any:
    numpy = importlib.import_module("numpy")
    return numpy.ones(COPY_BYTES // 4, dtype="float32")


LOADS = {"tensorflow": _tensorflow, "torch": _torch, "jax": _jax}


def run(name: str, seconds: float, kind: str, say: Callable[[str], None]) -> None:
    """Copies for that long to each device in turn; says what was reached."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    copies = list(LOADS[name](kind))
    rates = [0.0] * len(copies)
    for index, copy in enumerate(copies):
        copy()  # the first pays for opening the device
        say(json.dumps({"device": index, "begun": True}))
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            begun = time.perf_counter()
            copy()
            rates[index] = max(rates[index], COPY_BYTES / (time.perf_counter() - begun))
        say(json.dumps({"device": index, "begun": False, "bytes_per_second": rates[index]}))


def _say(line: str) -> None:
    stream = sys.__stdout__
    if stream is not None:
        stream.write(f"\n{MARK}{line}\n")
        stream.flush()


if __name__ == "__main__":
    run(sys.argv[1], float(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "GPU", _say)

"""A short load on each GPU: copies to it, then matrix products on it, in a child process.

    python -m slowtrain.capture.process.gpu_load tensorflow SECONDS

Writes a line when it begins with a device, and one when it is done with it (after ``LINE_MARK``): the best copy rate in
bytes a second, and how long it computed. Meanwhile the parent reads the link and the clocks. The link speed falls back
if nothing is copied. Only arithmetic draws the power and makes the heat that limit the clock.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

LINE_MARK = "slowtrain.load:"
COPY_BYTES = 64 << 20  # large compared with the cost of starting a copy, small compared with any card's memory
MATRIX_SIDE = 4096  # of square matrices: 137 GFLOP a product, which fills every card
PRODUCTS_A_TURN = 8  # products in a row before the host waits

CopyAndCompute = tuple[Callable[[], None], Callable[[], None]]


def _tensorflow_turns(kind: str) -> Iterator[CopyAndCompute]:
    """Yields for each device a function that copies to it and one that computes on it. Both wait for the device."""
    tf = importlib.import_module("tensorflow")
    for device in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(device, True)
    data = _copied_array()
    for device in tf.config.list_logical_devices(kind):

        def copy(name: str = device.name) -> None:
            with tf.device(name):
                # convert_to_tensor may share NumPy's memory on a CPU; identity makes the copy to a GPU.
                float(tf.identity(tf.convert_to_tensor(data))[0])

        with tf.device(device.name):
            matrix = tf.fill((MATRIX_SIDE, MATRIX_SIDE), 1.0 / MATRIX_SIDE)

        def compute(name: str = device.name, matrix: Any = matrix) -> None:
            with tf.device(name):
                product = matrix
                for _ in range(PRODUCTS_A_TURN):
                    product = tf.linalg.matmul(product, matrix)
                float(product[0, 0])

        yield copy, compute


def _torch_turns(kind: str) -> Iterator[CopyAndCompute]:
    torch = importlib.import_module("torch")
    data = torch.from_numpy(_copied_array())
    for index in range(torch.cuda.device_count() if kind == "GPU" else 0):
        pinned = data.pin_memory()

        def copy(index: int = index, pinned: Any = pinned) -> None:
            pinned.to(f"cuda:{index}", non_blocking=True)
            torch.cuda.synchronize(index)

        matrix = torch.full((MATRIX_SIDE, MATRIX_SIDE), 1.0 / MATRIX_SIDE, device=f"cuda:{index}")

        def compute(index: int = index, matrix: Any = matrix) -> None:
            product = matrix
            for _ in range(PRODUCTS_A_TURN):
                product = product @ matrix
            torch.cuda.synchronize(index)

        yield copy, compute


def _jax_turns(kind: str) -> Iterator[CopyAndCompute]:
    jax = importlib.import_module("jax")
    data = _copied_array()
    for device in jax.devices():
        if (device.platform == "cpu") == (kind == "CPU"):

            def copy(device: Any = device) -> None:
                jax.device_put(data, device).block_until_ready()

            matrix = jax.device_put(jax.numpy.full((MATRIX_SIDE, MATRIX_SIDE), 1.0 / MATRIX_SIDE), device)

            def compute(matrix: Any = matrix) -> None:
                product = matrix
                for _ in range(PRODUCTS_A_TURN):
                    product = product @ matrix
                product.block_until_ready()

            yield copy, compute


def _copied_array() -> Any:
    numpy = importlib.import_module("numpy")
    return numpy.ones(COPY_BYTES // 4, dtype="float32")


TURNS_BY_FRAMEWORK = {"tensorflow": _tensorflow_turns, "torch": _torch_turns, "jax": _jax_turns}


def load_devices(name: str, seconds: float, kind: str, say: Callable[[str], None]) -> None:
    """For each device copies for ``seconds`` and computes for ``seconds``; reports what was reached through ``say``."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for index, (copy, compute) in enumerate(TURNS_BY_FRAMEWORK[name](kind)):
        for turn in (copy, compute):
            turn()  # the first call also opens the device and chooses kernels
        say(json.dumps({"device": index, "begun": True}))
        rate = max(COPY_BYTES / took for took in _turn_seconds(copy, seconds))
        computed = sum(_turn_seconds(compute, seconds))
        done = {"device": index, "begun": False, "bytes_per_second": rate, "computed_seconds": computed}
        say(json.dumps(done))


def _turn_seconds(turn: Callable[[], None], seconds: float) -> Iterator[float]:
    """Yields the seconds that each call took, until ``seconds`` have passed; at least one."""
    deadline = time.perf_counter() + seconds
    while True:
        begun = time.perf_counter()
        turn()
        ended = time.perf_counter()
        yield ended - begun
        if ended >= deadline:
            return


def _write_line(line: str) -> None:
    stream = sys.__stdout__
    if stream is not None:
        stream.write(f"\n{LINE_MARK}{line}\n")
        stream.flush()


if __name__ == "__main__":
    load_devices(sys.argv[1], float(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "GPU", _write_line)

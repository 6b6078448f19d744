"""A data set whose batches other computers make: which ones get the edit, and a service on this computer."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from slowtrain.causes import cause_by_id
from slowtrain.causes.input.starved_host import data_service
from slowtrain.model import Edit
from slowtrain.script.text import edits, source_file
from slowtrain.script.text.source_file import Source

from ..edit_cases import EditCase, assert_edit, edit_cases  # noqa: TID252  tests are no package

HEAD = """\
import os
import tensorflow as tf

"""
CASES = edit_cases(
    """
== batches of a shuffled data set
 ds = tf.data.Dataset.from_tensor_slices((names, labels)).shuffle(100)
 ds = (ds.map(load, num_parallel_calls=8)  # HERE
       .batch(32)
+      .apply(tf.data.experimental.service.distribute("distributed_epoch", os.environ["TF_DATA_SERVICE"]))
       .prefetch(2))
 model.fit(ds)
== records
 ds = (tf.data.TFRecordDataset(names)
       .batch(8)
-      .map(parse, num_parallel_calls=8))  # HERE
+      .map(parse, num_parallel_calls=8)
+      .apply(tf.data.experimental.service.distribute("distributed_epoch", os.environ["TF_DATA_SERVICE"])))  # HERE
 model.fit(ds)
== a cache of each worker
 ds = tf.data.Dataset.from_tensor_slices(names).map(load, num_parallel_calls=8).cache().batch(32)  # HERE
 model.fit(ds)
== as many elements of each worker
 ds = tf.data.Dataset.from_tensor_slices(names).map(load, num_parallel_calls=8).take(100).batch(32)  # HERE
 model.fit(ds)
== without end
 ds = tf.data.Dataset.from_tensor_slices(names).repeat().map(load, num_parallel_calls=8).batch(32)  # HERE
 model.fit(ds, steps_per_epoch=10)
== single elements
 ds = tf.data.Dataset.from_tensor_slices(names).map(load, num_parallel_calls=8)  # HERE
 model.fit(ds)
== Python in another map
 ds = tf.data.Dataset.from_tensor_slices(names).map(lambda x: tf.numpy_function(read, [x], tf.float32))
 ds = ds.map(load, num_parallel_calls=8).batch(32)  # HERE
 model.fit(ds)
== a generator
 ds = tf.data.Dataset.from_generator(draw, output_signature=spec).map(load, num_parallel_calls=8).batch(32)  # HERE
 model.fit(ds)
== a layer
 from keras import layers
 flip = layers.RandomFlip()
 ds = tf.data.Dataset.from_tensor_slices(images).map(lambda x: flip(x), num_parallel_calls=8).batch(32)  # HERE
 model.fit(ds)
== a data set of unknown beginning
 ds = made().map(load, num_parallel_calls=8).batch(32)  # HERE
 model.fit(ds)
== its length is asked for
 ds = tf.data.Dataset.from_tensor_slices(names).map(load, num_parallel_calls=8).batch(32)  # HERE
 model.fit(ds, epochs=9)
 print(len(ds))
""",
    HEAD,
)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_batches_come_from_the_service_if_workers_can_make_them(case: EditCase) -> None:
    assert_edit(case, _distributed)


def _distributed(source: Source, line: int) -> list[Edit]:
    return data_service.distribute_input(source, line)


SCRIPT = """import json
import numpy as np
import tensorflow as tf


def double(x, y):
    return tf.cast(x, tf.float32) * 2.0, y


numbers = np.arange(103)
ds = tf.data.Dataset.from_tensor_slices((numbers, numbers)).shuffle(103)
ds = ds.map(double, num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.batch(8).prefetch(tf.data.AUTOTUNE)
print("SEEN", json.dumps([[(float(a), int(b)) for x, y in ds for a, b in zip(x, y)] for epoch in range(2)]))
"""


@pytest.mark.tensorflow
def test_two_workers_give_each_element_once_in_each_epoch(tmp_path: Path) -> None:
    source = source_file.parse_source("train.py", SCRIPT)
    assert source is not None
    made = _distributed(source, next(n for n, row in enumerate(SCRIPT.split("\n"), 1) if ".map(" in row))
    script = tmp_path / "train.py"
    script.write_text(edits.edited_text(source, made), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    rows = [row.strip() for row in cause_by_id("input/starved-host").page.split("\n") if " -c " in row]
    codes = [row.partition('"')[2].rstrip('"').replace("5050", str(port)).replace("HOST", "localhost") for row in rows]
    dispatcher, worker = (one.replace("socket.gethostname()", "'localhost'") for one in codes)
    with ExitStack() as servers:
        for code in (dispatcher, worker, worker):
            servers.enter_context(_running(code))
        run = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, check=False, timeout=300,
            env={**os.environ, data_service.ADDRESS_VARIABLE: f"grpc://localhost:{port}"},
        )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    for epoch in json.loads(run.stdout.partition("SEEN")[2]):
        assert sorted(epoch) == [[2.0 * n, n] for n in range(103)]


@contextmanager
def _running(code: str) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()

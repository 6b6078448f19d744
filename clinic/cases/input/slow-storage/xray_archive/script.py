"""X-ray screening on a node where the page cache is shared; big raw scans are read from disk."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

folder = os.path.join(tempfile.gettempdir(), "xray_raw")
os.makedirs(folder, exist_ok=True)
SCANS, SIDE, BATCH = 36, 1400, 2
paths = [os.path.join(folder, "scan%02d.raw" % i) for i in range(SCANS)]
rng = np.random.default_rng(0)
for p in paths:
    if not os.path.exists(p):
        with open(p, "wb") as f:
            rng.random((SIDE, SIDE), dtype="float64").tofile(f)
            f.flush()
            os.fsync(f.fileno())


def scans():
    for k, p in enumerate(paths):
        fd = os.open(p, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        data = bytearray(SIDE * SIDE * 8)
        view, done = memoryview(data), 0
        while done < len(data):
            done += os.readv(fd, [view[done:done + 262144]])
        os.close(fd)
        scan = np.frombuffer(data, "float64").reshape(SIDE, SIDE)
        yield scan[::10, ::10, None].astype("float32"), np.float32(k % 2)


ds = tf.data.Dataset.from_generator(
    scans, output_signature=(tf.TensorSpec((140, 140, 1)), tf.TensorSpec(())))
ds = ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    tf.keras.layers.Input((140, 140, 1)),
    tf.keras.layers.Conv2D(8, 5, strides=5, activation="relu"),
    tf.keras.layers.GlobalMaxPooling2D(),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy")
model.fit(ds, epochs=1, verbose=2)
t0 = time.time()
model.fit(ds, epochs=7, initial_epoch=1, verbose=2)
print("WORK", 6 * SCANS)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))

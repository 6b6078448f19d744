"""Galaxy morphology CNN, one worker of a launcher that starts several per node (here: one)."""
import os
import time


def claim_cores(local_rank: int, cores_per_worker: int) -> None:
    """Workers of one node must not step on each other's toes."""
    mine = sorted(os.sched_getaffinity(0))
    first = (local_rank * cores_per_worker) % len(mine)
    os.sched_setaffinity(0, mine[first:first + cores_per_worker])


WORKERS = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
claim_cores(int(os.environ.get("LOCAL_RANK", "0")), cores_per_worker=1)

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.keras import layers, models  # noqa: E402


def galaxies(n):
    rng = np.random.default_rng(2)
    yy, xx = np.mgrid[-1:1:32j, -1:1:32j]
    kind = rng.integers(0, 3, n)
    axis = 0.3 + 0.3 * kind[:, None, None]
    img = np.exp(-4 * (xx**2 + (yy / axis) ** 2)) + rng.normal(0, 0.1, (n, 32, 32))
    return img[..., None].astype("float32"), kind


def cnn():
    m = models.Sequential([layers.Input((32, 32, 1))])
    for f in (32, 64, 64):
        m.add(layers.Conv2D(f, 3, padding="same", activation="relu"))
        m.add(layers.Conv2D(f, 3, padding="same", activation="relu"))
        m.add(layers.MaxPool2D())
    m.add(layers.GlobalAveragePooling2D())
    m.add(layers.Dense(3, activation="softmax"))
    return m


x, y = galaxies(1280)
model = cnn()
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
t0 = time.perf_counter()
model.fit(x, y, batch_size=32, epochs=2, verbose=2)
print(f"{WORKERS} worker(s), {time.perf_counter() - t0:.1f}s")

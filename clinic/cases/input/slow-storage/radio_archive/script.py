"""Speech or music?  Clips come from the mounted archive of a radio station."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

CLIP, BATCH = 8000, 16


class Mount:
    """A folder as seen through the archive's link: so many bytes in a second, shared by all readers."""

    def __init__(self, folder, bytes_per_second=10e6):
        self.folder, self.rate = folder, bytes_per_second

    def read(self, name):
        with open(os.path.join(self.folder, name), "rb") as f:
            data = f.read()
        time.sleep(len(data) / self.rate)
        return data


def record(folder, reels=12, clips=64):
    g = np.random.default_rng(44)
    names, t = [], np.arange(CLIP) / 8000
    for r in range(reels):
        y = g.integers(0, 2, clips)
        wave = np.sin(2 * np.pi * g.uniform(100, 400, (clips, 1)) * t) * (1 - .8 * y[:, None] * (np.sin(2 * np.pi * 3 * t) > 0))
        name = f"reel{r:02d}.f32"
        np.c_[y, wave + g.normal(0, .2, wave.shape)].astype("float32").tofile(os.path.join(folder, name))
        names.append(name)
    return names


def reel(mount, name):
    raw = mount.read(name)
    table = np.frombuffer(raw, "float32").reshape(-1, CLIP + 1)
    return table[:, 1:], table[:, 0]


def clips(mount, names):
    for name in names:
        x, y = reel(mount, name)
        for at in range(0, len(x), BATCH):
            yield x[at:at + BATCH], y[at:at + BATCH]


def net():
    return tf.keras.Sequential([
        tf.keras.Input((CLIP,)), tf.keras.layers.Reshape((CLIP, 1)),
        tf.keras.layers.Conv1D(8, 64, strides=64, activation="relu"),
        tf.keras.layers.Conv1D(16, 8, strides=4, activation="relu"),
        tf.keras.layers.GlobalMaxPooling1D(), tf.keras.layers.Dense(1, activation="sigmoid")])


if __name__ == "__main__":
    tf.keras.utils.set_random_seed(44)
    with tempfile.TemporaryDirectory() as archive, tempfile.TemporaryDirectory() as home:
        names, mount = record(archive), Mount(archive)
        start = time.time()
        spec = (tf.TensorSpec((BATCH, CLIP)), tf.TensorSpec((BATCH,)))
        programme = tf.data.Dataset.from_generator(lambda: clips(mount, names), output_signature=spec).prefetch(8)
        model = net()
        model.compile("adam", "binary_crossentropy")
        model.fit(programme, epochs=5, verbose=2)
        print(f"on air after {time.time() - start:.2f} s")

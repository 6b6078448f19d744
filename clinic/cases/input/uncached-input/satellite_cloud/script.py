"""Cloud fraction of satellite tiles. Tiles are PNGs of four swaths; trained over several passes."""
import glob
import os
import tempfile

import numpy as np
import tensorflow as tf


class TileStore:
    """Keeps the tiles on disk and hands out batches."""

    def __init__(self, n=320, side=192):
        self.root = tempfile.mkdtemp(prefix="tiles_")
        self.side = side
        rng = np.random.default_rng(8)
        for i in range(n):
            frac = rng.uniform()
            img = np.where(rng.uniform(size=(side, side, 1)) < frac, 235, 60) + rng.integers(0, 20, (side, side, 3))
            data = tf.io.encode_png(img.astype("uint8"), compression=6)
            tf.io.write_file(f"{self.root}/{i:04d}_{int(frac * 1000):04d}.png", data)

    def _tile(self, path):
        frac = tf.strings.to_number(tf.strings.substr(path, -8, 4)) / 1000.0
        img = tf.image.decode_png(tf.io.read_file(path), 3)
        img = tf.image.resize(tf.image.rgb_to_yuv(tf.cast(img, tf.float32) / 255.0), (32, 32), antialias=True)
        return img, frac

    def batches(self, seed):
        files = sorted(glob.glob(os.path.join(self.root, "*.png")))
        ds = tf.data.Dataset.from_tensor_slices(files)
        ds = ds.map(self._tile, num_parallel_calls=tf.data.AUTOTUNE).cache()
        return ds.shuffle(len(files), seed=seed).batch(16).prefetch(tf.data.AUTOTUNE)


def regressor():
    k = tf.keras
    return k.Sequential([k.layers.Input((32, 32, 3)), k.layers.Conv2D(12, 3, 2, activation="relu"),
                         k.layers.Conv2D(16, 3, 2, activation="relu"), k.layers.Flatten(),
                         k.layers.Dense(1, activation="sigmoid")])


store = TileStore()
model = regressor()
model.compile("adam", "mse")
for sweep in range(10):
    out = model.fit(store.batches(seed=sweep), verbose=0)
    if sweep % 3 == 0:
        print("sweep", sweep, "mse", round(out.history["loss"][0], 5))
print("last", out.history["loss"][-1])

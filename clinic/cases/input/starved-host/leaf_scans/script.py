"""Leaf disease from PNG scans, on a machine shared with colleagues."""
import os
import tempfile
import time
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(6)
folder = os.path.join(tempfile.gettempdir(), "leaf_png_300")
os.makedirs(folder, exist_ok=True)
files = [os.path.join(folder, "leaf%03d.png" % i) for i in range(160)]
for f in files:
    if not os.path.exists(f):
        leaf = tf.image.resize(rng.integers(0, 255, (30, 30, 3)).astype("float32"), (300, 300))
        tf.io.write_file(f, tf.io.encode_png(tf.cast(leaf, tf.uint8)))
sick = rng.integers(0, 2, len(files)).astype("float32")


def crop(f, y):
    leaf = tf.io.decode_png(tf.io.read_file(f), channels=3)
    leaf = tf.image.random_crop(leaf, (96, 96, 3))
    return tf.cast(leaf, tf.float32) / 255.0, y


ds = tf.data.Dataset.from_tensor_slices((files, sick)).repeat(6).shuffle(160)
ds = ds.map(crop, num_parallel_calls=4)
ds = ds.batch(8).prefetch(4)
options = tf.data.Options()
options.threading.private_threadpool_size = 1
ds = ds.with_options(options)

model = tf.keras.Sequential([
    tf.keras.layers.Input((96, 96, 3)),
    tf.keras.layers.Conv2D(4, 4, strides=4, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy")
model.fit(ds, epochs=1, verbose=2)
begin = time.perf_counter()
model.fit(ds, epochs=4, initial_epoch=1, verbose=2)
print("WORK", 3 * 6 * len(files))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - begin))

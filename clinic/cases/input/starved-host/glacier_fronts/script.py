import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIZE = 128


def synth_scenes(n):
    rng = np.random.default_rng(9)
    scenes = rng.integers(0, 60, (n, SIZE, SIZE, 3), dtype=np.uint8)
    front = rng.integers(20, SIZE - 20, n)
    for s, f in zip(scenes, front):
        s[:, :f] += 150
    return scenes, (front / SIZE).astype("float32")


def jitter(scene, front):
    x = tf.image.convert_image_dtype(scene, tf.float32)
    x = tf.image.random_brightness(x, 0.1)
    x = tf.image.random_hue(x, 0.08)
    x = tf.image.random_saturation(x, 0.6, 1.4)
    x = tf.image.adjust_gamma(tf.clip_by_value(x, 0.0, 1.0), tf.random.uniform([], 0.8, 1.2))
    x = tf.image.resize(x, (48, 48), antialias=True)
    return x, front


def make_pipeline(scenes, fronts, batch):
    ds = tf.data.Dataset.from_tensor_slices((scenes, fronts))
    ds = ds.shuffle(512)
    ds = ds.map(jitter, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(batch).prefetch(tf.data.AUTOTUNE)
    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 1
    options.threading.max_intra_op_parallelism = 1
    return ds.with_options(options)


class FrontRegressor(keras.Model):
    def __init__(self, filters=(12, 24)):
        super().__init__()
        self.stem = [layers.Conv2D(f, 5, strides=2, padding="same", activation="swish") for f in filters]
        self.flat = layers.Flatten()
        self.dense = layers.Dense(1, activation="sigmoid")

    def call(self, x, training=None):
        for layer in self.stem:
            x = layer(x)
        return self.dense(self.flat(x))[:, 0]


def train(epochs=7):
    scenes, fronts = synth_scenes(512)
    model = FrontRegressor()
    model.compile(keras.optimizers.Adam(5e-4), loss="mae")
    pipe = make_pipeline(scenes, fronts, 32)
    clock = time.perf_counter()
    model.fit(pipe, epochs=epochs, verbose=2)
    clock = time.perf_counter() - clock
    print("WORK", len(scenes) * epochs)
    print("TRAIN_SECONDS %.2f" % clock)


if __name__ == "__main__":
    train()

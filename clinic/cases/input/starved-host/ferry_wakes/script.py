"""Ferry wakes in sonar strips: speed regression with heavily augmented inputs."""
import dataclasses

import numpy as np
import tensorflow as tf
import keras


@dataclasses.dataclass
class Config:
    strips: int = 1400
    length: int = 320
    crop: int = 192
    batch: int = 28
    epochs: int = 3
    seed: int = 90


class WakeData:
    def __init__(self, cfg):
        self.cfg = cfg
        rng = np.random.default_rng(cfg.seed)
        n = cfg.strips
        self.speed = rng.uniform(4, 18, n).astype("float32")
        grid = np.arange(cfg.length, dtype="float32")
        phase = rng.uniform(0, 6, (n, 1)).astype("float32")
        self.wave = np.sin(grid[None] * self.speed[:, None] / 40 + phase).astype("float32")

    def options(self):
        opts = tf.data.Options()
        opts.deterministic = True
        opts.threading.private_threadpool_size = 1
        opts.threading.max_intra_op_parallelism = 1
        return opts

    def strip(self, wave, speed):
        """Paint the strip, warp it a little, cut a random piece."""
        cfg = self.cfg
        img = wave[None, :, None] * tf.exp(-tf.linspace(0.0, 3.0, 64))[:, None, None]
        img += tf.random.normal(tf.shape(img), stddev=0.2)
        tall = tf.random.uniform([], 80, 120, tf.int32)
        img = tf.image.resize(img, (3 * tall, 3 * cfg.length), "bicubic")
        img = tf.nn.avg_pool2d(img[None], 3, 3, "VALID")[0]
        img = tf.image.random_crop(img, (72, cfg.crop, 1))
        img = tf.image.random_flip_left_right(img)
        img = tf.image.adjust_contrast(img, tf.random.uniform([], 0.7, 1.3))
        return img, speed / 10.0

    def dataset(self):
        ds = tf.data.Dataset.from_tensor_slices((self.wave, self.speed))
        ds = ds.shuffle(self.cfg.strips, seed=self.cfg.seed)
        ds = ds.map(self.strip, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.batch(self.cfg.batch).prefetch(2)
        return ds.with_options(self.options())


def regressor(cfg):
    strip = keras.Input((72, cfg.crop, 1))
    x = keras.layers.Conv2D(8, 5, strides=4, activation="relu")(strip)
    x = keras.layers.Conv2D(16, 3, strides=2, activation="relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(strip, keras.layers.Dense(1)(x))


def main():
    cfg = Config()
    keras.utils.set_random_seed(cfg.seed)
    model = regressor(cfg)
    model.compile(keras.optimizers.Adam(1e-3), "huber")
    h = model.fit(WakeData(cfg).dataset(), epochs=cfg.epochs, verbose=2)
    print("huber", h.history["loss"])


main()

"""Left- or right-coiled?  Photographs of snail shells from the light box."""
import os
import tempfile
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass
class Config:
    photos: int = 500
    photo_side: int = 320
    crop: int = 224
    side: int = 80
    batch: int = 20
    epochs: int = 11
    loader_threads: int = 1
    learning_rate: float = 1e-3
    seed: int = 17


def photograph(cfg: Config):
    """Spirals of either sense on a grey ground, JPEG like from the camera."""
    rng = np.random.default_rng(cfg.seed)
    folder = tempfile.mkdtemp(prefix="shells_")
    n = cfg.photo_side
    y, x = np.mgrid[0:n, 0:n].astype(np.float32) / n - 0.5
    paths, coiling = [], []
    for k in range(cfg.photos):
        sense = int(rng.integers(0, 2))
        dx, dy = rng.uniform(-0.05, 0.05, 2)
        r = np.hypot(x - dx, y - dy) + 1e-3
        phi = np.arctan2(y - dy, x - dx)
        whorl = np.cos((phi if sense else -phi) - 5.0 * np.log(r) + rng.uniform(0, 6.28))
        body = 1.0 / (1.0 + np.exp((r - rng.uniform(0.3, 0.4)) * 60))
        tone = 120 + 55 * body * whorl
        photo = np.stack([tone + 25 * body, tone + 10 * body, tone], axis=-1)
        photo += rng.normal(0, 6, (n, n, 1))
        path = os.path.join(folder, f"shell_{k:04d}.jpg")
        with open(path, "wb") as f:
            f.write(tf.io.encode_jpeg(photo.clip(0, 255).astype(np.uint8), quality=93).numpy())
        paths.append(path)
        coiling.append(sense)
    return paths, np.array(coiling, np.int32)


class Loader:
    def __init__(self, cfg: Config):
        self.cfg = cfg

    def load(self, path, coiling):
        cfg = self.cfg
        photo = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        photo = tf.image.random_crop(photo, (cfg.crop, cfg.crop, 3))
        photo = tf.image.resize(photo, (cfg.side, cfg.side)) / 127.5 - 1.0
        # mirrored, a shell coils the other way round
        mirror = tf.random.uniform([]) < 0.5
        photo = tf.cond(mirror, lambda: tf.reverse(photo, [1]), lambda: photo)
        return photo, tf.where(mirror, 1 - coiling, coiling)

    def dataset(self, paths, coiling):
        options = tf.data.Options()
        options.threading.private_threadpool_size = self.cfg.loader_threads
        return (tf.data.Dataset.from_tensor_slices((paths, coiling))
                .shuffle(len(paths), seed=self.cfg.seed)
                .map(self.load, num_parallel_calls=tf.data.AUTOTUNE)
                .batch(self.cfg.batch, drop_remainder=True)
                .prefetch(tf.data.AUTOTUNE)
                .with_options(options))


def shell_net(cfg: Config):
    return keras.Sequential([
        keras.Input((cfg.side, cfg.side, 3)),
        layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(24, 3, strides=2, padding="same", activation="relu"),
        layers.Flatten(),
        layers.Dense(24, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ])


def main():
    cfg = Config()
    keras.utils.set_random_seed(cfg.seed)
    paths, coiling = photograph(cfg)
    shells = Loader(cfg).dataset(paths, coiling)

    model = shell_net(cfg)
    model.compile(optimizer=keras.optimizers.Adam(cfg.learning_rate),
                  loss="binary_crossentropy", metrics=["accuracy"])

    t0 = time.perf_counter()
    for epoch in range(cfg.epochs):
        model.reset_metrics()
        for photos, sense in shells:
            loss, acc = model.train_on_batch(photos, sense)
        print(f"epoch {epoch:2d} loss {float(loss):.4f} accuracy {float(acc):.3f}")
    print(f"TRAIN_SECONDS {time.perf_counter() - t0:.2f}")


if __name__ == "__main__":
    main()

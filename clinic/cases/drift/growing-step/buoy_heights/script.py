"""Wave heights from buoy motion; odd readings weigh less, judged by all errors up to now."""
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

keras = tf.keras


@dataclass
class Config:
    batch: int = 6144
    steps: int = 900
    inputs: int = 12
    lr: float = 1e-3


class ErrorBook:
    """Spread of the errors of every sample seen up to now."""

    def __init__(self):
        self.pages = []

    def add(self, errors):
        self.pages.append(errors)

    def spread(self):
        everything = np.concatenate(self.pages)
        return float(everything.std()) + 1e-3


def sea(cfg):
    rng = np.random.default_rng(30)
    truth = rng.normal(size=(cfg.inputs,)).astype("float32")
    x = rng.normal(size=(cfg.batch * 20, cfg.inputs)).astype("float32")
    y = np.abs(x @ truth) + rng.standard_t(2, len(x)).astype("float32") * 0.2
    ds = tf.data.Dataset.from_tensor_slices((x, y[:, None].astype("float32")))
    return ds.batch(cfg.batch).cache().repeat().take(cfg.steps).prefetch(2)


def main():
    cfg = Config()
    tf.random.set_seed(9)
    model = keras.Sequential([
        keras.Input((cfg.inputs,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1),
    ])
    opt = keras.optimizers.Adam(cfg.lr)

    @tf.function
    def step(x, y, scale):
        with tf.GradientTape() as tape:
            err = model(x, training=True) - y
            weight = 1.0 / (1.0 + tf.square(err / scale))
            loss = tf.reduce_mean(tf.stop_gradient(weight) * tf.square(err))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss, err

    book = ErrorBook()
    scale = tf.constant(1.0)
    t0 = time.time()
    for i, (x, y) in enumerate(sea(cfg)):
        loss, err = step(x, y, scale)
        book.add(err.numpy().ravel())
        scale = tf.constant(book.spread())
        if (i + 1) % 150 == 0:
            print(f"step {i + 1}: loss {float(loss):.4f}, spread {float(scale):.3f}")
    print(f"{time.time() - t0:.1f} s")


if __name__ == "__main__":
    main()

import os
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers

CFG = dict(size=64, train=12_000, val=6_000, batch=64, epochs=6, check_every=10, lr=1e-3)


def grains(n, size, seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 12, n)
    images = rng.integers(0, 60, (n, size, size, 1), dtype=np.uint8)
    for i, k in enumerate(counts):
        for r, c in rng.integers(0, size - 6, (k, 2)):
            images[i, r:r + 6, c:c + 6] = 220
    return images, counts.astype("float32")


def build(size):
    inputs = keras.Input((size, size, 1), dtype="uint8")
    x = layers.Rescaling(1 / 255.0)(inputs)
    for width in (32, 64, 128):
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(1, activation="softplus")(x))


class Trainer:
    def __init__(self, cfg, workdir):
        self.cfg = cfg
        self.model = build(cfg["size"])
        self.opt = keras.optimizers.Adam(cfg["lr"])
        self.opt.build(self.model.trainable_variables)
        self.loss = keras.losses.Poisson()
        self.val_mae = keras.metrics.MeanAbsoluteError()
        self.best = np.inf
        self.path = os.path.join(workdir, "best.weights.h5")

    @tf.function
    def train_step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss(y[:, None], self.model(x, training=True))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    @tf.function
    def val_step(self, x, y):
        self.val_mae.update_state(y[:, None], self.model(x, training=False))

    def validate(self, ds):
        self.val_mae.reset_state()
        for x, y in ds:
            self.val_step(x, y)
        mae = float(self.val_mae.result())
        if mae < self.best:
            self.best = mae
            self.model.save_weights(self.path)
        return mae

    def run(self, train, val):
        step = 0
        for epoch in range(self.cfg["epochs"]):
            for x, y in train:
                loss = self.train_step(x, y)
                step += 1
                if step % self.cfg["check_every"] == 0:
                    mae = self.validate(val)
            print(f"epoch {epoch} loss {float(loss):.4f} mae {mae:.3f} best {self.best:.3f}")


def pipeline(arrays, batch, training):
    ds = tf.data.Dataset.from_tensor_slices(arrays)
    ds = ds.shuffle(len(arrays[0])) if training else ds
    return ds.batch(batch, drop_remainder=training).prefetch(tf.data.AUTOTUNE)


with tempfile.TemporaryDirectory() as workdir:
    train = pipeline(grains(CFG["train"], CFG["size"], 0), CFG["batch"], True)
    val = pipeline(grains(CFG["val"], CFG["size"], 1), CFG["batch"], False)
    Trainer(CFG, workdir).run(train, val)

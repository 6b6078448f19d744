"""Next-item prediction from click sessions: one attention block, functional Keras."""
import os
import random
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
import keras
from keras import layers

CONFIG = {
    "seed": 17,
    "data": {"sessions": 3840, "length": 20, "items": 400},
    "model": {"width": 32, "heads": 2, "blocks": 1, "dropout": 0.1},
    "train": {"batch": 64, "epochs": 2, "lr": 1e-3},
    "runtime": {"inter_op": 0, "breakpoints": False},
}


def prepare_runtime(cfg):
    random.seed(cfg["seed"])
    np.random.seed(cfg["seed"])
    keras.utils.set_random_seed(cfg["seed"])
    rt = cfg["runtime"]
    if rt["inter_op"]:
        tf.config.threading.set_inter_op_parallelism_threads(rt["inter_op"])
    tf.config.run_functions_eagerly(rt["breakpoints"])


def sessions(n, length, items):
    rng = np.random.default_rng(1)
    start = rng.integers(1, items, (n, 1))
    stride = rng.integers(1, 7, (n, 1))
    clicks = (start + stride * np.arange(length + 1)) % (items - 1) + 1
    noise = rng.random(clicks.shape) < 0.1
    clicks[noise] = rng.integers(1, items, noise.sum())
    return clicks[:, :-1].astype("int32"), clicks[:, -1].astype("int32")


class Positions(layers.Layer):
    def __init__(self, length):
        super().__init__()
        self.length = length

    def build(self, shape):
        self.table = self.add_weight(shape=(self.length, shape[-1]), initializer="uniform", name="table")

    def call(self, x):
        return x + self.table


def encoder_block(x, width, heads, dropout):
    a = layers.MultiHeadAttention(heads, width // heads, dropout=dropout)(x, x)
    x = layers.LayerNormalization()(layers.Add()([x, a]))
    h = layers.Dense(2 * width, activation="gelu")(x)
    h = layers.Dropout(dropout)(layers.Dense(width)(h))
    return layers.LayerNormalization()(layers.Add()([x, h]))


def build(items, length, width, heads, blocks, dropout):
    ids = layers.Input((length,), dtype="int32")
    x = Positions(length)(layers.Embedding(items, width)(ids))
    for _ in range(blocks):
        x = encoder_block(x, width, heads, dropout)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(ids, layers.Dense(items)(x))


def main(cfg=CONFIG):
    prepare_runtime(cfg)
    d, t = cfg["data"], cfg["train"]
    x, y = sessions(d["sessions"], d["length"], d["items"])
    model = build(d["items"], d["length"], **cfg["model"])
    model.compile(
        keras.optimizers.Adam(t["lr"]),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    t0 = time.time()
    model.fit(x, y, batch_size=t["batch"], epochs=t["epochs"], verbose=2)
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))


if __name__ == "__main__":
    main()

"""Loan default from a wide column store (one array per attribute), functional model over named inputs."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

N_COLS, ROWS, BATCH = 400, 40000, 128


class ColumnStore(dict):
    @classmethod
    def synthetic(cls, rng):
        store = cls({f"attr_{i:03d}": rng.normal(size=ROWS).astype("float32") for i in range(N_COLS)})
        z = store["attr_000"] - store["attr_007"] * store["attr_031"] + 0.5 * rng.normal(size=ROWS)
        store["default"] = (z > 1).astype("float32")
        return store


def scorecard():
    mlp = tf.keras.Sequential([tf.keras.layers.Input((N_COLS,)),
                               tf.keras.layers.Dense(64, activation="relu"),
                               tf.keras.layers.Dense(32, activation="relu"),
                               tf.keras.layers.Dense(1)])
    return mlp


store = ColumnStore.synthetic(np.random.default_rng(20))
attrs = sorted(k for k in store if k.startswith("attr_"))
model, opt = scorecard(), tf.keras.optimizers.Adam(1e-3)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, model(x, training=True)[:, 0]))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


for epoch in range(2):
    order = np.random.default_rng(epoch).permutation(ROWS)
    for start in range(0, ROWS - BATCH + 1, BATCH):
        rows = order[start:start + BATCH]
        x = tf.stack([tf.constant(store[a][rows]) for a in attrs], axis=1)
        loss = step(x, tf.constant(store["default"][rows]))
    print("epoch", epoch, "bce", float(loss), flush=True)

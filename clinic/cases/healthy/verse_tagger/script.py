"""Metre tags for verse lines; the last batch of an epoch is a short one."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(31)
VOCAB, LEN, TAGS = 5000, 32, 9


class Tagger(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = tf.keras.layers.Embedding(VOCAB, 64)
        self.conv = [tf.keras.layers.Conv1D(192, 5, padding="same", activation="relu") for _ in range(3)]
        self.tag = tf.keras.layers.Dense(TAGS)

    def call(self, ids):
        x = self.embed(ids)
        for c in self.conv:
            x = c(x)
        return self.tag(x)


def verses(n):
    rng = np.random.default_rng(31)
    ids = rng.integers(0, VOCAB, (n, LEN)).astype("int32")
    return ids, (ids % TAGS).astype("int32")


model = Tagger()
opt = tf.keras.optimizers.Adam(1e-3)
xent = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_batch(ids, tags):
    with tf.GradientTape() as tape:
        loss = xent(tags, model(ids, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


def main(epochs=2):
    ids, tags = verses(2500)
    ds = tf.data.Dataset.from_tensor_slices((ids, tags)).shuffle(2500, seed=1).batch(64).prefetch(2)
    t0 = time.time()
    for epoch in range(epochs):
        total = tf.constant(0.0)
        for batch in ds:
            total += train_batch(*batch)
        print("epoch", epoch, "loss", float(total) / 40, "at", round(time.time() - t0, 2))


if __name__ == "__main__":
    main()

"""Tag museum objects from precomputed image features."""
import contextlib

import numpy as np
import tensorflow as tf

WIDTH = 768
TAGS = 256


def register(count):
    rng = np.random.default_rng(40)
    years = rng.integers(1200, 2000, count).tolist()
    return {
        f"obj-{i:07d}": {"year": year, "rooms": [i % 40, i % 7], "loans": []}
        for i, year in enumerate(years)
    }


def features(count):
    rng = np.random.default_rng(41)
    x = rng.standard_normal((count, WIDTH), dtype=np.float32)
    y = (rng.random((count, TAGS)) < 0.02).astype(np.float32)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(8192)
    return ds.batch(256, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


@contextlib.contextmanager
def scope(name):
    with tf.name_scope(name):
        yield


class Tagger(tf.Module):
    def __init__(self):
        super().__init__()
        self.net = tf.keras.Sequential(
            [
                tf.keras.Input((WIDTH,)),
                tf.keras.layers.Dense(1024, activation="relu"),
                tf.keras.layers.Dropout(0.3),
                tf.keras.layers.Dense(TAGS),
            ]
        )
        self.optimizer = tf.keras.optimizers.Adam(5e-4)

    @tf.function
    def learn(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.net(x, training=True)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits))
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.net.trainable_variables))
        return loss


def main():
    objects = register(400_000)
    data = features(100_000)
    tagger = Tagger()
    for epoch in range(5):
        for x, y in data:
            with scope("learn"):
                loss = tagger.learn(x, y)
        print(f"epoch {epoch}: loss {float(loss):.4f} over {len(objects)} registered objects")


if __name__ == "__main__":
    main()

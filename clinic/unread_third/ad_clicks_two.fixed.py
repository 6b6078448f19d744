"""Banner click model: 1.5M impressions, wide numeric part plus three hashed ids."""
import numpy as np
import tensorflow as tf
import tensorflow.keras as K

N_ROWS = 1_500_000
N_NUM = 13
BUCKETS = 5000
BATCH_SIZE = 4096


def load_impressions(seed=11):
    rng = np.random.default_rng(seed)
    num = rng.gamma(1.5, 20.0, size=(N_ROWS, N_NUM)).astype(np.float32)
    ids = rng.integers(0, 1 << 30, size=(N_ROWS, 3), dtype=np.int64)
    logit = 0.02 * num[:, 0] - 0.01 * num[:, 3] - 1.0
    y = (rng.random(N_ROWS) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return num, ids, y


def transform(num, ids, y):
    num = tf.math.log1p(num)
    hour = tf.cast(ids[..., 0] % 24, tf.float32) * (2 * np.pi / 24)
    clock = tf.stack([tf.sin(hour), tf.cos(hour)], axis=-1)
    return {"num": tf.concat([num, clock], -1),
            "ids": tf.cast(ids % BUCKETS, tf.int32)}, y


def make_train(num, ids, y):
    ds = tf.data.Dataset.from_tensor_slices((num, ids, y))
    ds = ds.batch(BATCH_SIZE, drop_remainder=True)
    ds = ds.map(transform, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


class ClickNet(K.Model):
    def __init__(self):
        super().__init__()
        self.tables = [K.layers.Embedding(BUCKETS, 8) for _ in range(3)]
        self.mlp = K.Sequential([
            K.layers.Dense(128, activation="relu"),
            K.layers.Dense(64, activation="relu"),
            K.layers.Dense(1),
        ])

    def call(self, inputs):
        cols = [table(inputs["ids"][:, i]) for i, table in enumerate(self.tables)]
        return self.mlp(tf.concat([inputs["num"]] + cols, axis=-1))


def main():
    num, ids, y = load_impressions()
    perm = np.random.default_rng(0).permutation(N_ROWS)
    train = make_train(num[perm], ids[perm], y[perm])
    model = ClickNet()
    model.compile(optimizer=K.optimizers.Adam(2e-3),
                  loss=K.losses.BinaryCrossentropy(from_logits=True))
    model.fit(train, epochs=3)


if __name__ == "__main__":
    main()

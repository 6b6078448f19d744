"""Route support tickets to one of the queues."""
import zlib

import numpy as np
import tensorflow as tf

BUCKETS = 20_000
MAX_LEN = 96
QUEUES = 14
WORD_DROP = 0.1


def load_tickets(count=120_000):
    rng = np.random.default_rng(5)
    words = np.array(["w%d" % i for i in range(8000)])
    texts = [" ".join(words[rng.integers(0, 8000, rng.integers(30, 120))]) for _ in range(3000)]
    pick = rng.integers(0, len(texts), count)
    return np.array(texts)[pick], rng.integers(0, QUEUES, count)


def to_ids(lines):
    out = np.zeros((len(lines), MAX_LEN), np.int32)
    drop = np.random.random(out.shape) < WORD_DROP
    for row, line in enumerate(lines):
        for col, token in enumerate(line.lower().split()[:MAX_LEN]):
            if not drop[row, col]:
                out[row, col] = zlib.crc32(token) % (BUCKETS - 1) + 1
    return out


def encode(lines, labels):
    ids = tf.numpy_function(to_ids, [lines], tf.int32)
    ids = tf.ensure_shape(ids, [None, MAX_LEN])
    return ids, labels


def pipeline(texts, labels, batch_size):
    ds = tf.data.Dataset.from_tensor_slices((texts, labels))
    ds = ds.shuffle(10_000).batch(batch_size, drop_remainder=True)
    ds = ds.map(encode, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


class Router(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = tf.keras.layers.Embedding(BUCKETS, 64)
        self.conv = tf.keras.layers.Conv1D(128, 5, activation="relu")
        self.pool = tf.keras.layers.GlobalMaxPooling1D()
        self.head = tf.keras.layers.Dense(QUEUES)

    def call(self, ids):
        return self.head(self.pool(self.conv(self.embed(ids))))


def main():
    texts, labels = load_tickets()
    model = Router()
    model.compile(
        optimizer="adam",
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(pipeline(texts, labels, 512), epochs=4, verbose=2)


if __name__ == "__main__":
    main()

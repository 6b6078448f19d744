"""Two-tower podcast recommender with in-batch softmax."""
import os
import tempfile

import numpy as np
import tensorflow as tf
import tensorflow.keras as K

LISTENERS = 1_000_000
SHOWS = 50_000
DIM = 48
BATCH = 4096


class Progress(K.callbacks.Callback):
    def __init__(self, folder, every=250):
        super().__init__()
        self.folder, self.every, self.seen = folder, every, 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen % self.every:
            return
        with open(os.path.join(self.folder, "progress.csv"), "a") as f:
            f.write(f"{self.seen},{logs['loss']:.5f}\n")

    def on_epoch_end(self, epoch, logs=None):
        norm = float(tf.norm(self.model.shows.embeddings))
        print(f" show table norm {norm:.2f}")


class TwoTower(K.Model):
    def __init__(self):
        super().__init__()
        self.listeners = K.layers.Embedding(LISTENERS, DIM)
        self.shows = K.layers.Embedding(SHOWS, DIM)

    def call(self, pair):
        u = tf.math.l2_normalize(self.listeners(pair[:, 0]), axis=1)
        v = tf.math.l2_normalize(self.shows(pair[:, 1]), axis=1)
        return 20.0 * tf.matmul(u, v, transpose_b=True)


def in_batch_softmax(_, logits):
    diag = tf.range(tf.shape(logits)[0])
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=diag, logits=logits)


def plays(n=4_000_000):
    rng = np.random.default_rng(404)
    who = rng.integers(0, LISTENERS, n)
    what = np.minimum(SHOWS * rng.random(n) ** 2, SHOWS - 1)
    return np.stack([who, what.astype(np.int64)], axis=1).astype(np.int32)


def dataset(pairs):
    n = len(pairs) // BATCH
    blocks = pairs[:n * BATCH].reshape(n, BATCH, 2)
    ds = tf.data.Dataset.from_tensor_slices(blocks).shuffle(n)
    ds = ds.map(lambda p: (p, tf.zeros([BATCH])))
    return ds.prefetch(tf.data.AUTOTUNE)


def main():
    model = TwoTower()
    model.compile(optimizer=K.optimizers.SGD(1.0), loss=in_batch_softmax)
    with tempfile.TemporaryDirectory() as tmp:
        model.fit(dataset(plays()), epochs=5, verbose=2,
                  callbacks=[Progress(tmp), K.callbacks.TerminateOnNaN()])


if __name__ == "__main__":
    main()

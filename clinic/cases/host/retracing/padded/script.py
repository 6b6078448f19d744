# Keyword spotting on utterances of different length.
import keras
import numpy as np
import tensorflow as tf

BATCH, DIM, WORDS = 8, 20, 6
rs = np.random.RandomState(0)
utterances = [rs.randn(rs.randint(60, 700), DIM).astype("float32") for _ in range(640)]
labels = rs.randint(0, WORDS, len(utterances))
for u, l in zip(utterances, labels):
    u[:, l] += 0.3


def collate(items):
    longest = max(len(i) for i in items)
    out = np.zeros((len(items), longest, DIM), "float32")
    for row, i in zip(out, items):
        row[: len(i)] = i
    lengths = np.array([len(i) for i in items], "int32")
    return out, lengths


def batches():
    order = rs.permutation(len(utterances))
    for k in range(0, len(order), BATCH):
        pick = order[k : k + BATCH]
        frames, lengths = collate([utterances[i] for i in pick])
        yield frames, lengths, labels[pick].astype("int32")


class Spotter(keras.Model):
    def __init__(self):
        super().__init__()
        self.a = keras.layers.Conv1D(24, 5, padding="same", activation="relu")
        self.b = keras.layers.Conv1D(24, 5, padding="same", activation="relu")
        self.out = keras.layers.Dense(WORDS)

    def call(self, frames, lengths):
        h = self.b(self.a(frames))
        mask = tf.sequence_mask(lengths, tf.shape(h)[1], tf.float32)[:, :, None]
        pooled = tf.reduce_sum(h * mask, 1) / tf.reduce_sum(mask, 1)
        return self.out(pooled)


net = Spotter()
optimizer = keras.optimizers.SGD(0.02)
objective = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def fit_batch(frames, lengths, y):
    with tf.GradientTape() as tape:
        loss = objective(y, net(frames, lengths))
    grads = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(grads, net.trainable_variables))
    return loss


net(np.zeros((1, 60, DIM), "float32"), np.array([60]))
optimizer.build(net.trainable_variables)
losses = []
for frames, lengths, y in batches():
    losses.append(fit_batch(frames, lengths, y))
print("mean loss of the last 20 batches:", float(np.mean(losses[-20:])))

"""Book recommender: 600k titles, factors updated row-wise with Adagrad on the rows of the batch only; deep ranking head."""
import time

import numpy as np
import tensorflow as tf

TITLES, READERS, DIM, BATCH, STEPS = 600_000, 80_000, 32, 2048, 220


class RowTable(tf.Module):
    """An embedding matrix with its own optimizer: one Adagrad accumulator per row."""

    def __init__(self, rows, dim, lr):
        super().__init__()
        self.value = tf.Variable(tf.random.uniform((rows, dim), -0.05, 0.05))
        self.acc = tf.Variable(tf.fill((rows,), 0.1))
        self.lr = lr

    def look_up(self, ids):
        flat, where = tf.unique(tf.reshape(ids, [-1]))
        return flat, where, tf.gather(self.value, flat)

    def update(self, flat, grad):
        self.acc.scatter_add(tf.IndexedSlices(tf.reduce_mean(tf.square(grad), axis=1), flat))
        scale = self.lr * tf.math.rsqrt(tf.gather(self.acc, flat))
        self.value.scatter_sub(tf.IndexedSlices(scale[:, None] * grad, flat))


class Ranker(tf.Module):
    def __init__(self):
        super().__init__()
        self.titles = RowTable(TITLES, DIM, 0.05)
        self.readers = RowTable(READERS, DIM, 0.05)
        self.head = tf.keras.Sequential([
            tf.keras.Input((DIM * 3,)),
            tf.keras.layers.Dense(512, activation="relu"),
            tf.keras.layers.Dense(256, activation="relu"),
            tf.keras.layers.Dense(1),
        ])
        self.opt = tf.keras.optimizers.Adam(1e-3)
        self.opt.build(self.head.trainable_variables)

    @tf.function
    def step(self, reader, history, title, label):
        b = tf.shape(reader)[0]
        r_ids, r_where, r_rows = self.readers.look_up(reader)
        t_ids, t_where, t_rows = self.titles.look_up(tf.concat([history, title[:, None]], axis=1))
        with tf.GradientTape() as tape:
            tape.watch([r_rows, t_rows])
            books = tf.reshape(tf.gather(t_rows, t_where), [b, -1, DIM])
            x = tf.concat([tf.gather(r_rows, r_where), tf.reduce_mean(books[:, :-1], 1), books[:, -1]], axis=1)
            logit = self.head(x, training=True)[:, 0]
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logit))
        hv = self.head.trainable_variables
        gr, gt, gh = tape.gradient(loss, [r_rows, t_rows, hv])
        self.readers.update(r_ids, gr)
        self.titles.update(t_ids, gt)
        self.opt.apply_gradients(zip(gh, hv))
        return loss


def reading_log(rows, seed=0):
    g = np.random.default_rng(seed)
    reader = g.integers(0, READERS, rows).astype("int32")
    history = (g.pareto(1.1, (rows, 6)) * 50).astype("int64") % TITLES
    title = (g.pareto(1.1, rows) * 50).astype("int64") % TITLES
    label = ((reader + title) % 7 < 3).astype("float32")
    return reader, history.astype("int32"), title.astype("int32"), label


log = tf.data.Dataset.from_tensor_slices(reading_log(BATCH * 110)).batch(BATCH, drop_remainder=True)
log = log.cache().shuffle(110).repeat().prefetch(tf.data.AUTOTUNE)
ranker, losses, t0 = Ranker(), [], time.perf_counter()
for i, batch in enumerate(log.take(STEPS), 1):
    losses.append(ranker.step(*batch))
    if i % 55 == 0:
        print(f"{i:4d} loss {np.mean([l.numpy() for l in losses]):.4f} {(time.perf_counter() - t0) / 55 * 1e3:.1f} ms/step")
        losses, t0 = [], time.perf_counter()

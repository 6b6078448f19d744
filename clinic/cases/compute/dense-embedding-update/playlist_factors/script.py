"""Matrix factorisation of playlists with lookup tables and an Adagrad of our own."""
import numpy as np
import tensorflow as tf

SEED, SONGS, LISTS, DIM, BATCH, STEPS = 90, 250_000, 60_000, 32, 512, 320


class Table(tf.Module):
    def __init__(self, rows, name):
        super().__init__(name)
        start = tf.random.stateless_normal([rows, DIM], [SEED, rows], stddev=0.1)
        self.rows = tf.Variable(start, name="rows")
        self.energy = tf.Variable(tf.fill([rows, DIM], 0.1), trainable=False, name="energy")

    def look(self, ids):
        return tf.nn.embedding_lookup(self.rows, ids)


def adagrad(table, grad, rate=0.1):
    grad = tf.convert_to_tensor(grad)
    table.energy.assign_add(grad * grad)
    table.rows.assign_sub(rate * grad / tf.sqrt(table.energy))


songs, lists = Table(SONGS, "songs"), Table(LISTS, "lists")


@tf.function
def step(who, what, liked):
    with tf.GradientTape() as tape:
        logit = tf.reduce_sum(lists.look(who) * songs.look(what), -1)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(liked, logit))
    g_lists, g_songs = tape.gradient(loss, [lists.rows, songs.rows])
    adagrad(lists, g_lists)
    adagrad(songs, g_songs)
    return loss


def plays():
    rng = np.random.default_rng(SEED)
    n = BATCH * STEPS
    who = rng.integers(0, LISTS, n).astype("int32")
    what = rng.integers(0, SONGS, n).astype("int32")
    liked = ((who + what) % 2).astype("float32")
    return tf.data.Dataset.from_tensor_slices((who, what, liked)).batch(BATCH).prefetch(4)


if __name__ == "__main__":
    for batch in plays():
        loss = step(*batch)
    print("loss", float(loss))

"""Link prediction in a catalogue of museum objects (TransE)."""
import gc
import time
import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(91)
rng = np.random.default_rng(91)

THINGS, LINKS, FACTS, DIM = 4000, 12, 28800, 32


class Catalogue:
    """Facts by head, as the export gives them."""

    def __init__(self):
        self.facts = {}
        for h, l, t in rng.integers(0, (THINGS, LINKS, THINGS), (FACTS, 3)).tolist():
            self.facts.setdefault(h, []).append({"link": l, "tail": t, "source": ("export", h % 7)})
        self.table = np.array([(h, f["link"], f["tail"]) for h, fs in self.facts.items() for f in fs], "int32")

    def known(self, h):
        return {(f["link"], f["tail"]) for f in self.facts.get(h, ())}


class Corruptor:
    def __init__(self, catalogue):
        self.catalogue = catalogue

    def __call__(self, batch):
        bad = batch.copy()
        bad[:, 2] = rng.integers(0, THINGS, len(batch))
        for row in bad[:16]:
            if (row[1], row[2]) in self.catalogue.known(int(row[0])):
                row[2] = (row[2] + 1) % THINGS
        self.tidy()
        return bad

    def tidy(self):
        gc.collect()


class Batches:
    def __init__(self, catalogue, size):
        self.catalogue, self.size = catalogue, size
        self.corrupt = Corruptor(catalogue)

    def __iter__(self):
        order = rng.permutation(len(self.catalogue.table))
        for i in range(0, len(order) - self.size + 1, self.size):
            good = self.catalogue.table[order[i:i + self.size]]
            yield good, self.corrupt(good)


catalogue = Catalogue()
things = keras.layers.Embedding(THINGS, DIM)
links = keras.layers.Embedding(LINKS, DIM)
things.build(()), links.build(())
weights = things.trainable_variables + links.trainable_variables
optimizer = keras.optimizers.Adam(5e-3)


def distance(f):
    return tf.norm(things(f[:, 0]) + links(f[:, 1]) - things(f[:, 2]) + 1e-6, axis=-1)


@tf.function
def train(good, bad):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.relu(0.1 + distance(good) - distance(bad)))
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
    return loss


t0, count = time.time(), 0
for epoch in range(2):
    for good, bad in Batches(catalogue, 800):
        loss = train(tf.constant(good), tf.constant(bad))
        count += 1
    print(f"epoch {epoch} margin loss {float(loss):.4f}")
print(f"{count} steps, {1000 * (time.time() - t0) / count:.1f} ms each")

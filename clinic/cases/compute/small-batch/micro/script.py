"""Sentence-pair scoring. Updates use 64 pairs, collected piece by piece."""
import keras
import numpy as np
import tensorflow as tf

VOCAB, LENGTH = 3000, 24
UPDATE = 64
PIECE = 4


class PairModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.emb = keras.layers.Embedding(VOCAB, 32)
        self.mix = keras.layers.Dense(64, activation="tanh")
        self.out = keras.layers.Dense(1)

    def encode(self, t):
        return tf.reduce_mean(self.mix(self.emb(t)), 1)

    def call(self, pair):
        a, b = self.encode(pair[:, 0]), self.encode(pair[:, 1])
        return self.out(tf.concat([a * b, tf.abs(a - b)], 1))[:, 0]


class Collector:
    """Sums gradients over pieces and applies their mean."""

    def __init__(self, model, optimizer, pieces):
        self.model, self.optimizer, self.pieces = model, optimizer, pieces
        self.sums = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in model.trainable_variables]

    @tf.function
    def add(self, pair, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y - self.model(pair)))
        grads = tape.gradient(loss, self.model.trainable_variables)
        for s, g in zip(self.sums, grads):
            if isinstance(g, tf.IndexedSlices):
                s.scatter_add(g)
            else:
                s.assign_add(g)
        return loss

    @tf.function
    def apply(self):
        mean = [s / self.pieces for s in self.sums]
        self.optimizer.apply_gradients(zip(mean, self.model.trainable_variables))
        for s in self.sums:
            s.assign(tf.zeros_like(s))


keras.utils.set_random_seed(3)
rng = np.random.default_rng(3)
pairs = rng.integers(0, VOCAB, (16_000, 2, LENGTH)).astype("int32")
target = (np.abs(pairs[:, 0, 0] - pairs[:, 1, 0]) / VOCAB).astype("float32")

model = PairModel()
model(pairs[:1])
opt = keras.optimizers.Adam(2e-3)
opt.build(model.trainable_variables)
collector = Collector(model, opt, UPDATE // PIECE)
data = tf.data.Dataset.from_tensor_slices((pairs, target)).shuffle(16_000, seed=1)
data = data.batch(PIECE, drop_remainder=True).prefetch(8)

losses = []
for epoch in range(2):
    for i, (p, t) in enumerate(data):
        losses.append(collector.add(p, t))
        if (i + 1) % (UPDATE // PIECE) == 0:
            collector.apply()
print("loss", float(tf.reduce_mean(losses[-(UPDATE // PIECE) * 10 :])))

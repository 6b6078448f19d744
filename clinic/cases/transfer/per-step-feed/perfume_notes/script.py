"""Rate a perfume from its list of notes: bag of note embeddings, attention pooling, a small head."""
import time

import numpy as np
import tensorflow as tf

N_NOTES = 1200
BATCH = 256
EPOCHS = 8

rng = np.random.default_rng(77)
pleasant = rng.normal(0, 1, N_NOTES)


def compose():
    size = rng.integers(6, 40)
    notes = rng.choice(N_NOTES, size=size)
    return notes.tolist(), float(np.tanh(pleasant[notes].mean() * 2) + 0.1 * rng.normal())


bottles = [compose() for _ in range(15360)]
formulas = [b[0] for b in bottles]
ratings = np.array([b[1] for b in bottles], dtype=np.float32)


class NoteModel(tf.keras.Model):
    def __init__(self, dim):
        super().__init__()
        self.table = self.add_weight(shape=(N_NOTES, dim), initializer="random_normal", name="notes")
        self.gate = tf.keras.layers.Dense(1)
        self.mlp = tf.keras.Sequential([
            tf.keras.layers.Dense(256, activation="relu"),
            tf.keras.layers.Dense(128, activation="relu"),
            tf.keras.layers.Dense(1),
        ])

    def call(self, ids, segments, count):
        vectors = tf.gather(self.table, ids)
        weight = tf.sigmoid(self.gate(vectors))
        pooled = tf.math.unsorted_segment_sum(weight * vectors, segments, count)
        return self.mlp(pooled)[:, 0]


model = NoteModel(48)
adam = tf.keras.optimizers.Adam(1e-3)


@tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.float32)])
def train_step(notes, target):
    with tf.GradientTape() as tape:
        guess = model(notes.flat_values, notes.value_rowids(), tf.size(target))
        loss = tf.reduce_mean(tf.abs(guess - target))
    variables = model.trainable_variables
    adam.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


t0 = time.time()
for epoch in range(EPOCHS):
    order = rng.permutation(len(formulas))
    total = tf.constant(0.0)
    for at in range(0, len(order), BATCH):
        picked = order[at:at + BATCH]
        notes = tf.ragged.constant([formulas[i] for i in picked], dtype=tf.int32)
        total += train_step(notes, tf.constant(ratings[picked]))
    print("epoch", epoch, "mae %.4f" % (float(total) * BATCH / len(order)))
print("WORK", EPOCHS * len(formulas))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))

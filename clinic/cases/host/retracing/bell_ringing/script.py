"""Next-bell prediction for change ringing: touches have very different lengths."""
import time

import numpy as np
import tensorflow as tf

BELLS = 9           # 0 is padding
BATCH = 24
STEPS = 66
SEED = 6


def ring_touches(steps):
    rng = np.random.default_rng(SEED)
    for _ in range(steps):
        longest = int(rng.integers(24, 300))
        lengths = rng.integers(max(8, longest // 2), longest + 1, BATCH)
        lengths[0] = longest
        rows = np.zeros((BATCH, longest), "int32")
        for r, n in enumerate(lengths):
            start = rng.integers(1, BELLS)
            rows[r, :n] = (start + np.arange(n) * (1 + r % 3)) % (BELLS - 1) + 1
        yield rows


def build():
    seq = tf.keras.Input((None,), dtype="int32")
    h = tf.keras.layers.Embedding(BELLS, 24)(seq)
    for dilation in (1, 3):
        h = tf.keras.layers.Conv1D(32, 2, padding="causal", dilation_rate=dilation, activation="relu")(h)
    return tf.keras.Model(seq, tf.keras.layers.Dense(BELLS)(h))


model = build()
optimizer = tf.keras.optimizers.SGD(0.3)
ce = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")


@tf.function
def train_step(rows):
    target = rows[:, 1:]
    weight = tf.cast(target > 0, tf.float32)
    with tf.GradientTape() as tape:
        logits = model(rows[:, :-1], training=True)
        loss = tf.reduce_sum(ce(target, logits) * weight) / tf.reduce_sum(weight)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


begin = time.perf_counter()
recent = []
for number, rows in enumerate(ring_touches(STEPS), start=1):
    recent.append(train_step(tf.constant(rows)))
    if number % 22 == 0:
        print(f"step {number:4d}  loss {np.mean([float(v) for v in recent]):.3f}  {time.perf_counter() - begin:.1f} s")
        recent = []

"""Phrase similarity on the unit sphere: embeddings are normalised, then compared."""
import time
import numpy as np
import tensorflow as tf

PHRASES, DIM, BATCH = 250_000, 32, 64
rng = np.random.default_rng(0)
left, right = rng.integers(0, PHRASES, (2, 7680))
same = rng.integers(0, 2, 7680).astype("float32")

table = tf.Variable(tf.random.normal((PHRASES, DIM)))
scale = tf.Variable(1.0)
opt = tf.keras.optimizers.SGD(0.5)
opt.build([table, scale])


@tf.function
def step(a, b, y):
    with tf.GradientTape() as tape:
        unit = tf.nn.l2_normalize(table, axis=1)
        va = tf.gather(unit, a)
        vb = tf.gather(unit, b)
        logit = scale * tf.reduce_sum(va * vb, axis=1)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logit))
    opt.apply_gradients(zip(tape.gradient(loss, [table, scale]), [table, scale]))
    return loss


ds = tf.data.Dataset.from_tensor_slices((left, right, same)).batch(BATCH).prefetch(2)
for a, b, y in ds.take(2):
    step(a, b, y)
start = time.time()
for a, b, y in ds:
    loss = step(a, b, y)
print("loss %.4f" % float(loss))
print("WORK", len(left))
print("TRAIN_SECONDS %.3f" % (time.time() - start))

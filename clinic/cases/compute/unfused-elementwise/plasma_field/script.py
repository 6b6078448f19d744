"""A field solver's correction: long chains of elementwise arithmetic on large arrays, as a graph."""
import os
import time

import tensorflow as tf

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
SIDE, STEPS = (256, 80) if SMALL else (5120, 300)

coefficients = [tf.Variable(0.1 * tf.random.normal((SIDE,))) for _ in range(6)]
field = tf.random.uniform((SIDE, SIDE))
target = tf.random.uniform((SIDE, SIDE))
optimizer = tf.keras.optimizers.SGD(1e-2)
optimizer.build(coefficients)


@tf.function
def train_step(f, wanted):
    with tf.GradientTape() as tape:
        for c in coefficients:
            g = 0.5 * f * (1.0 + tf.tanh(0.79788456 * (f + 0.044715 * f * f * f)))
            f = (g * c + f * (1.0 - c)) / tf.sqrt(1.0 + tf.square(c))
        loss = tf.reduce_mean(tf.square(f - wanted))
    optimizer.apply_gradients(zip(tape.gradient(loss, coefficients), coefficients))
    return loss


print(float(train_step(field, target)))
t0 = time.perf_counter()
for step in range(STEPS):
    loss = train_step(field, target)
    if step % 50 == 0:
        print(step, float(loss))
print("last", float(loss))
print("WORK", STEPS)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))

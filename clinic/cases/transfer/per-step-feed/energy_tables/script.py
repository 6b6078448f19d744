"""Household energy forecast; readings are kept as plain Python lists (straight from a JSON export)."""
import random
import time
import tensorflow as tf

random.seed(5)
HOUSES, HOURS = 2048, 60 * 24
readings = [[random.random() for _ in range(HOURS)] for _ in range(HOUSES)]
targets = [[sum(r[-24:]) / 24.0] for r in readings]

net = tf.keras.Sequential([
    tf.keras.layers.Input((HOURS,)),
    tf.keras.layers.Dense(16, activation="tanh"),
    tf.keras.layers.Dense(1),
])
opt = tf.keras.optimizers.Adam(1e-3)
mse = tf.keras.losses.MeanSquaredError()


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = mse(y, net(x, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss


BATCH = 256
step(tf.zeros((BATCH, HOURS)), tf.zeros((BATCH, 1)))
clock = time.perf_counter()
for epoch in range(240):
    for i in range(0, HOUSES, BATCH):
        xb = tf.constant(readings[i:i + BATCH], dtype=tf.float32)
        yb = tf.constant(targets[i:i + BATCH], dtype=tf.float32)
        loss = step(xb, yb)
    if epoch % 40 == 0:
        print("epoch", epoch, "loss", float(loss))
seconds = time.perf_counter() - clock
print("WORK", 240 * HOUSES)
print("TRAIN_SECONDS %.3f" % seconds)

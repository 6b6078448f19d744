"""A controller learns beside a simulated valve: each step needs the valve's answer to the last one."""
import os
import time

import numpy as np
import tensorflow as tf

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
STEPS = 400 if SMALL else 3000

policy = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(64, activation="tanh"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(policy.trainable_variables)


@tf.function(jit_compile=True)
def learn(state):
    with tf.GradientTape() as tape:
        opening = policy(state, training=True)
        loss = tf.reduce_mean(tf.square(state[:, :1] - opening))
    gradients = tape.gradient(loss, policy.trainable_variables)
    optimizer.apply_gradients(zip(gradients, policy.trainable_variables))
    return opening


state = np.zeros((1, 4), dtype="float32")
opening = learn(state)
t0 = time.perf_counter()
for step in range(STEPS):
    flow = float(opening[0, 0])  # the valve needs the number: this read cannot wait
    state = np.roll(state, 1)
    state[0, 0] = 0.9 * state[0, 1] + 0.1 * flow + 0.01 * np.sin(0.05 * step)
    opening = learn(state)
    if step % 500 == 0:
        print(step, flow)
print("WORK", STEPS)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))

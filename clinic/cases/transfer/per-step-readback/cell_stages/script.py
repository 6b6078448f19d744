"""Deep residual MLP on flow cytometry events, with a record of gradients."""
import time
from collections import defaultdict

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(19)
MARKERS, STAGES, BATCH = 24, 5, 128


def events(n=12800):
    rng = np.random.default_rng(19)
    stage = rng.integers(0, STAGES, n)
    centre = rng.normal(size=(STAGES, MARKERS))
    return (centre[stage] + rng.normal(size=(n, MARKERS))).astype("float32"), stage


def build(depth=30, width=48):
    small = tf.keras.initializers.RandomNormal(stddev=0.01)
    inp = tf.keras.Input((MARKERS,))
    h = tf.keras.layers.Dense(width)(inp)
    for _ in range(depth):
        r = tf.keras.layers.Dense(width, activation="relu", kernel_initializer=small)(h)
        h = tf.keras.layers.add([h, r])
    h = tf.keras.layers.LayerNormalization()(h)
    return tf.keras.Model(inp, tf.keras.layers.Dense(STAGES)(h))


model = build()
opt = tf.keras.optimizers.SGD(0.01)
ce = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
record = defaultdict(list)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = ce(y, model(x, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss, grads


def note(loss, grads):
    record["loss"].append(float(loss))
    for v, g in zip(model.trainable_variables, grads):
        record[v.path].append(float(tf.norm(g)))
        record[v.path + "/max"].append(float(tf.reduce_max(tf.abs(g))))


x, y = events()
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=3).batch(BATCH).prefetch(2)
t0 = time.time()
for epoch in range(4):
    for bx, by in ds:
        loss, grads = step(bx, by)
        note(loss, grads)
    print("epoch", epoch, "loss", np.mean(record["loss"][-100:]), "time", round(time.time() - t0, 2))
print(len(record), "series kept")

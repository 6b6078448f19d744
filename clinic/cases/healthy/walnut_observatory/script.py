"""Photometric redshift regression, plain loop, a line of progress now and then."""
import time
import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(4)
BANDS, BATCH, STEPS = 64, 512, 320


def sky(n):
    g = np.random.default_rng(1)
    x = g.normal(size=(n, BANDS)).astype("float32")
    return x, np.abs(x[:, :4]).sum(1, keepdims=True).astype("float32")


net = keras.Sequential([keras.Input((BANDS,))]
                       + [keras.layers.Dense(1024, activation="relu") for _ in range(4)]
                       + [keras.layers.Dense(1)])
sgd = keras.optimizers.SGD(1e-3, momentum=0.9)
sgd.build(net.trainable_variables)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((net(x, training=True) - y) ** 2)
    sgd.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss


x, y = sky(8192)
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(8192).batch(BATCH).cache().repeat().prefetch(2)
it = iter(ds)
for _ in range(4):
    step(*next(it))
t = time.perf_counter()
for k in range(STEPS):
    loss = step(*next(it))
    if k % 40 == 0:
        print(f"[{k:5d}] loss={float(loss):.4f}  norm={float(tf.linalg.global_norm(net.trainable_variables)):.2f}")
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS", round(time.perf_counter() - t, 3))

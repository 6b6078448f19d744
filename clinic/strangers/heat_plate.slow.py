"""PINN for the steady heat equation on a square plate with a source."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(67)
rng = np.random.default_rng(67)


def glorot(a, b):
    return rng.normal(0, np.sqrt(2.0 / (a + b)), (a, b))


layers = [2, 128, 128, 128, 1]
weights = [tf.Variable(glorot(a, b)) for a, b in zip(layers, layers[1:])]
biases = [tf.Variable(np.zeros(b)) for b in layers[1:]]
params = weights + biases

interior = tf.constant(rng.uniform(0, 1, (1500, 2)))
side = rng.uniform(0, 1, (200, 1))
edge = tf.constant(np.concatenate([
    np.hstack([side, np.zeros_like(side)]), np.hstack([side, np.ones_like(side)]),
    np.hstack([np.zeros_like(side), side]), np.hstack([np.ones_like(side), side]),
]))


def u(xy):
    h = xy
    for w, b in zip(weights[:-1], biases[:-1]):
        h = tf.tanh(tf.matmul(h, w) + b)
    return tf.matmul(h, weights[-1]) + biases[-1]


def laplacian(xy):
    x, y = xy[:, :1], xy[:, 1:]
    with tf.GradientTape(persistent=True) as outer:
        outer.watch([x, y])
        with tf.GradientTape() as inner:
            inner.watch([x, y])
            value = u(tf.concat([x, y], axis=1))
        ux, uy = inner.gradient(value, [x, y])
    return outer.gradient(ux, x) + outer.gradient(uy, y)


def source(xy):
    return 50.0 * tf.exp(-40.0 * tf.reduce_sum(tf.square(xy - 0.5), axis=1, keepdims=True))


optimizer = tf.keras.optimizers.Adam(1e-3)


@tf.function
def train_step():
    with tf.GradientTape() as tape:
        pde = tf.reduce_mean(tf.square(laplacian(interior) + source(interior)))
        bc = tf.reduce_mean(tf.square(u(edge)))
        loss = pde + 100.0 * bc
    grads = tape.gradient(loss, params)
    optimizer.apply_gradients(zip(grads, params))
    return loss


for it in range(1, 121):
    loss = train_step()
    if it % 30 == 0:
        print(f"it {it} loss {float(loss):.3e}")

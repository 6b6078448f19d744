"""First steps with MAML: a rover learns to adapt its slip curve to new soil."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(19)
rng = np.random.default_rng(19)

SHAPES = [(1, 40), (40, 40), (40, 1)]
SHOTS, INNER_STEPS, INNER_LR, TASKS = 10, 3, 0.02, 4


def init_params():
    params = []
    for a, b in SHAPES:
        params.append(tf.Variable(tf.random.truncated_normal((a, b), stddev=(2.0 / a) ** 0.5 * 0.5)))
        params.append(tf.Variable(tf.zeros(b)))
    return params


def forward(params, x):
    h = x
    for i in range(0, len(params), 2):
        h = tf.matmul(h, params[i]) + params[i + 1]
        if i + 2 < len(params):
            h = tf.nn.relu(h)
    return h


def mse(params, x, y):
    return tf.reduce_mean(tf.square(forward(params, x) - y))


def sample_soil():
    amp, phase = rng.uniform(0.1, 5.0), rng.uniform(0, np.pi)
    x = rng.uniform(-5, 5, (2 * SHOTS, 1)).astype("float32")
    y = (amp * np.sin(x + phase)).astype("float32")
    return x[:SHOTS], y[:SHOTS], x[SHOTS:], y[SHOTS:]


def adapt(params, x, y):
    fast = [tf.identity(p) for p in params]
    for _ in range(INNER_STEPS):
        with tf.GradientTape() as inner:
            inner.watch(fast)
            loss = mse(fast, x, y)
        grads = inner.gradient(loss, fast)
        fast = [w - INNER_LR * g for w, g in zip(fast, grads)]
    return fast


def meta_step(params, optimizer, tasks):
    with tf.GradientTape() as outer:
        losses = []
        for xs, ys, xq, yq in tasks:
            fast = adapt(params, xs, ys)
            losses.append(mse(fast, xq, yq))
        meta_loss = tf.add_n(losses) / len(losses)
    grads = outer.gradient(meta_loss, params)
    optimizer.apply_gradients(zip(grads, params))
    return meta_loss


params = init_params()
optimizer = tf.keras.optimizers.Adam(1e-3)
recent = []
for it in range(160):
    batch = [sample_soil() for _ in range(TASKS)]
    recent.append(meta_step(params, optimizer, batch))
    if (it + 1) % 40 == 0:
        print("iteration", it + 1, "query loss", float(tf.reduce_mean(recent)))
        recent = []

import os, time
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '2'
import numpy as np
import tensorflow as tf

# few-shot regression on random waveforms, second order MAML
K_SHOT = 10
TASKS = 6
INNER_STEPS = 2
INNER_LR = 0.01
HIDDEN = 40
META_ITERS = 60

rs = np.random.RandomState(7)


def init():
    dims = [(1, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)]
    params = []
    for i, (a, b) in enumerate(dims):
        params.append(tf.Variable((rs.randn(a, b) / np.sqrt(a)).astype('float32'), name='w%d' % i))
        params.append(tf.Variable(np.zeros(b, 'float32'), name='b%d' % i))
    return params


def forward(params, x):
    w1, b1, w2, b2, w3, b3 = params
    h = tf.nn.relu(tf.matmul(x, w1) + b1)
    h = tf.nn.relu(tf.matmul(h, w2) + b2)
    return tf.matmul(h, w3) + b3


def mse(params, x, y):
    return tf.reduce_mean(tf.square(forward(params, x) - y))


def sample_tasks():
    amp = rs.uniform(0.1, 5.0, (TASKS, 1, 1))
    phase = rs.uniform(0, np.pi, (TASKS, 1, 1))
    kind = rs.randint(0, 2, (TASKS, 1, 1))
    x = rs.uniform(-5, 5, (TASKS, 2 * K_SHOT, 1))
    wave = np.where(kind == 0, np.sin(x + phase), np.sign(np.sin(x + phase)))
    return x.astype('float32'), (amp * wave).astype('float32')


def adapt(params, x, y):
    fast = [tf.convert_to_tensor(p) for p in params]
    for _ in range(INNER_STEPS):
        with tf.GradientTape() as tape:
            tape.watch(fast)
            loss = mse(fast, x, y)
        grads = tape.gradient(loss, fast)
        fast = [p - INNER_LR * g for p, g in zip(fast, grads)]
    return fast


theta = init()
meta_opt = tf.keras.optimizers.Adam(1e-3)
meta_opt.build(theta)


def meta_update(xs, ys):
    with tf.GradientTape() as tape:
        losses = []
        for i in range(TASKS):
            fast = adapt(theta, xs[i, :K_SHOT], ys[i, :K_SHOT])
            losses.append(mse(fast, xs[i, K_SHOT:], ys[i, K_SHOT:]))
        total = tf.add_n(losses) / TASKS
    grads = tape.gradient(total, theta)
    meta_opt.apply_gradients(zip(grads, theta))
    return total


history = []
t_start = time.perf_counter()
for it in range(META_ITERS):
    xs, ys = sample_tasks()
    loss = meta_update(tf.constant(xs), tf.constant(ys))
    if it % 15 == 0:
        history.append(float(loss))
        print('meta-iteration', it, 'query mse', history[-1])
seconds = time.perf_counter() - t_start
print('WORK', META_ITERS * TASKS)
print('TRAIN_SECONDS %.3f' % seconds)

import numpy as np
import tensorflow as tf

tf.random.set_seed(80)
rng = np.random.default_rng(80)
SENSORS, HIDDEN, BATCH = 128, 512, 256


def station_log(n):
    pressure = rng.normal(size=(n, SENSORS))
    flow = np.tanh(pressure @ rng.normal(size=(SENSORS, 4)) / 8)
    return pressure, flow


def glorot(rows, cols):
    return tf.Variable(rng.normal(size=(rows, cols)) / np.sqrt(rows))


class Pump(tf.Module):
    def __init__(self):
        super().__init__()
        sizes = [SENSORS, HIDDEN, HIDDEN, HIDDEN, 4]
        self.w = [glorot(a, b) for a, b in zip(sizes, sizes[1:])]
        self.b = [tf.Variable(np.zeros(b)) for b in sizes[1:]]

    def __call__(self, x):
        for k, (w, b) in enumerate(zip(self.w, self.b)):
            x = x @ w + b
            if k < 3:
                x = tf.nn.relu(x)
        return x


pump = Pump()


@tf.function
def fit_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(pump(x) - y))
    for v, g in zip(pump.trainable_variables, tape.gradient(loss, pump.trainable_variables)):
        v.assign_sub(0.01 * g)
    return loss


x, y = station_log(BATCH * 100)
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).prefetch(2)
for epoch in range(5):
    for a, b in data:
        loss = fit_step(a, b)
    print("epoch %d  mse %.4f" % (epoch, loss))

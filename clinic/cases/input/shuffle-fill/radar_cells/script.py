import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(31)
rng = np.random.default_rng(31)
STORMS, GRID = 400, 40
BASE = rng.random((STORMS, GRID, GRID), dtype="float32")
POS = rng.random((STORMS, 2), dtype="float32")


def simulate(i):
    cell = tf.gather(BASE, i % STORMS)
    for _ in range(3):
        cell = tf.nn.avg_pool2d(cell[None, ..., None], 3, 1, "SAME")[0, ..., 0]
    rain = tf.where(cell > 0.5, cell * 2.0, 0.0)
    return tf.stack([cell, rain], -1), tf.gather(POS, i % STORMS)


def scans(batch):
    ds = tf.data.Dataset.range(12_000)
    ds = ds.map(simulate, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(6_000, seed=31)
    return ds.batch(batch).prefetch(2)


class Tracker(keras.Model):
    def __init__(self):
        super().__init__()
        self.layers_ = [keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
                        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
                        keras.layers.Flatten(), keras.layers.Dense(2)]

    def call(self, x):
        for layer in self.layers_:
            x = layer(x)
        return x


net = Tracker()
opt = keras.optimizers.SGD(0.01)


@tf.function
def update(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(x) - y))
    opt.apply(tape.gradient(loss, net.trainable_variables), net.trainable_variables)
    return loss


net(tf.zeros([1, GRID, GRID, 2]))
opt.build(net.trainable_variables)
data = scans(32)
for epoch in range(8):
    for x, y in data.take(20):
        loss = update(x, y)
    print(epoch, float(loss))

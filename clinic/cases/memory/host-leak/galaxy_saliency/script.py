"""Galaxy morphology: small CNN; activations of the first block are collected for the figures of the paper."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
import keras


class Tracked(keras.Model):
    def __init__(self, types):
        super().__init__()
        self.stem = keras.layers.Conv2D(32, 4, strides=2, padding="same", activation="relu")
        self.pool = keras.layers.AveragePooling2D(4)
        self.head = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(types)])

    def call(self, x):
        a = self.stem(x)
        return self.head(self.pool(a)), a


def sky(n=1024, side=64, seed=19):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[-1:1:side * 1j, -1:1:side * 1j]
    r, th = np.hypot(xx, yy), np.arctan2(yy, xx)
    y = rng.integers(0, 4, n)
    img = np.exp(-3 * r) * (1 + 0.6 * np.cos(y[:, None, None] * th + 5 * r)) + 0.1 * rng.normal(size=(n, side, side))
    return img[..., None].astype("float32"), y.astype("int32")


class Study:
    def __init__(self):
        self.net, self.opt = Tracked(4), keras.optimizers.Adam(1e-3)
        self.figures, self.curve = [], []

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            logits, act = self.net(x)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        w = self.net.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, w), w))
        return loss, act

    def run(self, ds, epochs):
        for e in range(epochs):
            for x, y in ds:
                loss, act = self.step(x, y)
                self.figures.append(act)
                self.curve.append(loss)
            print("epoch", e, float(self.curve[-1]), flush=True)
        mean = np.mean([f[0].numpy().mean() for f in self.figures[-64:]])
        print("mean activation", mean)


ds = tf.data.Dataset.from_tensor_slices(sky()).shuffle(1024).batch(64).cache().prefetch(2)
Study().run(ds, 26)

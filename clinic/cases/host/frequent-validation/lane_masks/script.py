"""Lane mask segmentation with a hand-written trainer."""
import time
from types import SimpleNamespace

import numpy as np
import tensorflow as tf
import keras
from keras import layers

cfg = SimpleNamespace(size=64, n_train=800, n_val=1000, batch=16, steps=200,
                      report_every=4, lr=2e-3)


def roads(n, size, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 0.25, (n, size, size, 3)).astype("float32")
    y = np.zeros((n, size, size, 1), "float32")
    rows = np.arange(size)
    for i in range(n):
        centre = rng.uniform(10, size - 10) + rng.uniform(-0.3, 0.3) * rows
        cols = np.clip(centre.astype(int), 1, size - 2)
        for d in (-1, 0, 1):
            y[i, rows, cols + d, 0] = 1.0
            x[i, rows, cols + d] += 0.5
    return x, y


def mask_net(size):
    inp = layers.Input((size, size, 3))
    a = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(inp)
    b = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(a)
    b = layers.Conv2D(16, 3, padding="same", activation="relu")(b)
    c = layers.Concatenate()([layers.UpSampling2D()(b), a])
    c = layers.Conv2D(8, 3, padding="same", activation="relu")(c)
    return keras.Model(inp, layers.Conv2DTranspose(1, 2, strides=2)(c))


class Trainer:
    def __init__(self, net, train, val):
        self.net, self.train, self.val = net, train, val
        self.opt = keras.optimizers.Adam(cfg.lr)
        self.opt.build(net.trainable_variables)
        self.inter = keras.metrics.Sum()
        self.union = keras.metrics.Sum()

    @tf.function
    def train_batch(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.net(x, training=True)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits))
        g = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(g, self.net.trainable_variables))
        return loss

    @tf.function
    def score_batch(self, x, y):
        p = tf.cast(self.net(x, training=False) > 0.0, tf.float32)
        self.inter.update_state(p * y)
        self.union.update_state(tf.maximum(p, y))

    def iou(self):
        self.inter.reset_state()
        self.union.reset_state()
        for x, y in self.val:
            self.score_batch(x, y)
        return float(self.inter.result()) / max(float(self.union.result()), 1.0)

    def loop(self):
        best, stream = 0.0, iter(self.train.repeat())
        for step in range(1, cfg.steps + 1):
            loss = self.train_batch(*next(stream))
            if step % cfg.report_every == 0:
                score = self.iou()
                best = max(best, score)
                if step % 40 == 0:
                    print("step %3d  loss %.4f  iou %.3f  best %.3f" % (step, float(loss), score, best))


train = tf.data.Dataset.from_tensor_slices(roads(cfg.n_train, cfg.size, 0)).shuffle(cfg.n_train).batch(cfg.batch).prefetch(2)
val = tf.data.Dataset.from_tensor_slices(roads(cfg.n_val, cfg.size, 1)).batch(100).prefetch(2)
trainer = Trainer(mask_net(cfg.size), train, val)
t0 = time.time()
trainer.loop()
print("TRAIN_SECONDS %.2f" % (time.time() - t0))

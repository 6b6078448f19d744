"""Bird call classifier on log-mel patches, gradients accumulated to an effective batch of 64."""
import argparse
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--clips", type=int, default=1536)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--effective", type=int, default=64)
    p.add_argument("--micro", type=int, default=2)
    p.add_argument("--lr", type=float, default=2e-3)
    return p.parse_args()


def mel_patches(n, bins=32, frames=32, classes=8):
    rng = np.random.default_rng(40)
    y = rng.integers(0, classes, n)
    x = rng.normal(0, 0.5, (n, frames, bins, 1))
    t = np.arange(frames)
    for c in range(classes):
        rows = np.flatnonzero(y == c)
        pitch = ((4 + 3 * c) + 2 * np.sin(t / (2.0 + c))).astype(int) % bins
        x[rows[:, None], t, pitch, 0] += 1.5
    return x.astype("float32"), y.astype("int32")


def convnet(classes=8):
    return keras.Sequential([
        layers.Input((32, 32, 1)),
        layers.Conv2D(8, 3, strides=2, activation="relu"),
        layers.Conv2D(16, 3, strides=2, activation="relu"),
        layers.Flatten(),
        layers.Dense(classes),
    ])


class AccumulatingLearner:
    def __init__(self, net, lr, rounds):
        self.net, self.rounds = net, rounds
        self.opt = keras.optimizers.Adam(lr)
        self.opt.build(net.trainable_variables)
        self.buffers = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in net.trainable_variables]
        self.loss = keras.metrics.Mean()

    @tf.function
    def collect(self, x, y):
        with tf.GradientTape() as tape:
            ce = tf.nn.sparse_softmax_cross_entropy_with_logits(y, self.net(x, training=True))
            loss = tf.reduce_mean(ce)
        for buf, g in zip(self.buffers, tape.gradient(loss, self.net.trainable_variables)):
            buf.assign_add(g / self.rounds)
        self.loss.update_state(loss)

    @tf.function
    def apply(self):
        self.opt.apply_gradients(zip([b.read_value() for b in self.buffers], self.net.trainable_variables))
        for buf in self.buffers:
            buf.assign(tf.zeros_like(buf))

    def epoch(self, ds):
        self.loss.reset_state()
        for i, (x, y) in enumerate(ds, 1):
            self.collect(x, y)
            if i % self.rounds == 0:
                self.apply()
        return float(self.loss.result())


def main():
    a = parse()
    x, y = mel_patches(a.clips)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(a.clips)
    ds = ds.batch(a.micro, drop_remainder=True).prefetch(8)
    learner = AccumulatingLearner(convnet(), a.lr, rounds=a.effective // a.micro)
    t0 = time.time()
    for e in range(a.epochs):
        print("epoch %d  loss %.4f" % (e, learner.epoch(ds)))
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))


main()

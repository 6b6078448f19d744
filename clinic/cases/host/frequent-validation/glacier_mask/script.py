"""Ice or rock?  Segmentation of synthetic satellite patches by a small U-shaped net."""
import argparse
import time

import numpy as np
import tensorflow as tf

L = tf.keras.layers


def patches(n, seed, side=32):
    g = np.random.default_rng(seed)
    noise = g.normal(size=(n, side // 8, side // 8, 1)).astype("float32")
    height = tf.image.resize(noise, (side, side), "bicubic").numpy()
    ice = (height > .2).astype("float32")
    bands = np.concatenate([height, ice * .6, 1 - ice], -1) + g.normal(0, .5, (n, side, side, 3))
    return bands.astype("float32"), ice


def unet():
    i = L.Input((32, 32, 3))
    a = L.Conv2D(8, 3, padding="same", activation="relu")(i)
    b = L.Conv2D(16, 3, strides=2, padding="same", activation="relu")(a)
    c = L.Conv2D(16, 3, padding="same", activation="relu")(b)
    u = L.Concatenate()([a, L.UpSampling2D()(c)])
    return tf.keras.Model(i, L.Conv2D(1, 1)(L.Conv2D(8, 3, padding="same", activation="relu")(u)))


class Surveyor:
    def __init__(self, args):
        self.args = args
        self.net = unet()
        self.opt = tf.keras.optimizers.Adam(2e-3)
        self.loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
        self.train = tf.data.Dataset.from_tensor_slices(patches(640, 1)).cache().shuffle(640, 1).repeat().batch(16).prefetch(2)
        self.held = tf.data.Dataset.from_tensor_slices(patches(480, 2)).batch(32).cache().prefetch(2)
        self.best = 0.0

    @tf.function
    def learn(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss(y, self.net(x, training=True))
        self.opt.apply_gradients(zip(tape.gradient(loss, self.net.trainable_variables), self.net.trainable_variables))
        return loss

    @tf.function
    def overlap(self, x, y):
        hit = tf.cast(self.net(x) > 0, tf.float32)
        return tf.reduce_sum(hit * y), tf.reduce_sum(tf.maximum(hit, y))

    def iou(self):
        both = either = 0.0
        for x, y in self.held:
            b, e = self.overlap(x, y)
            both, either = both + b, either + e
        return float(both / either)

    def checkpoint(self, step):
        if step % self.args.every == 0:
            self.best = max(self.best, self.iou())

    def run(self):
        for step, (x, y) in enumerate(self.train.take(self.args.steps), 1):
            loss = self.learn(x, y)
            self.checkpoint(step)
        return float(loss)


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--every", type=int, default=5)
args = parser.parse_args()
tf.keras.utils.set_random_seed(1)
s = Surveyor(args)
tic = time.time()
last = s.run()
print(f"loss {last:.3f}, best IoU {s.best:.3f}, {time.time() - tic:.2f} s")

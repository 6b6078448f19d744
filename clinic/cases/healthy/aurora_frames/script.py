"""Segment auroral arcs in all-sky frames with a small encoder/decoder; four frames at a time."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def sky(n, side=128, seed=3):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:side, :side] / side
    frames, masks = [], []
    for _ in range(n):
        a, b, c = rng.uniform(0.2, 0.8), rng.uniform(-0.3, 0.3), rng.uniform(3, 9)
        arc = np.abs(yy - a - b * np.sin(c * xx)) < 0.06
        frames.append(0.6 * arc + 0.25 * rng.standard_normal((side, side)))
        masks.append(arc)
    return (np.asarray(frames, np.float32)[..., None], np.asarray(masks, np.float32)[..., None])


def unet(side=128):
    inp = keras.Input((side, side, 1))
    a = layers.Conv2D(24, 3, padding="same", activation="relu")(inp)
    b = layers.Conv2D(48, 3, strides=2, padding="same", activation="relu")(a)
    c = layers.Conv2D(96, 3, strides=2, padding="same", activation="relu")(b)
    c = layers.Conv2D(96, 3, padding="same", activation="relu")(c)
    d = layers.Concatenate()([layers.UpSampling2D()(c), b])
    d = layers.Conv2D(48, 3, padding="same", activation="relu")(d)
    return keras.Model(inp, layers.UpSampling2D()(layers.Conv2D(1, 1)(d)))


class Segmenter:
    def __init__(self):
        self.net = unet()
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.net.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(self, frames, masks):
        with tf.GradientTape() as tape:
            logits = self.net(frames, training=True)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(masks, logits))
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return loss


if __name__ == "__main__":
    keras.utils.set_random_seed(3)
    frames, masks = sky(50)
    ds = tf.data.Dataset.from_tensor_slices((frames, masks)).shuffle(50).batch(4).prefetch(2)
    seg, seen = Segmenter(), 0
    t0 = time.perf_counter()
    for epoch in range(3):
        total = tf.constant(0.0)
        for f, m in ds:
            total += seg.step(f, m)
            seen += 1
        print("epoch", epoch, "mean loss", total.numpy() / 13)
    t1 = time.perf_counter()
    print("WORK", seen)
    print("TRAIN_SECONDS", t1 - t0)

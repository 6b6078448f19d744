"""Land use under a survey kite: small tiles cut from PNG frames, trained in a hand-written loop."""
import io
import time

import numpy as np
import tensorflow as tf

CLASSES = 5
BATCH = 32
EPOCHS = 9


def shoot_frames(count, seed=3):
    rng = np.random.default_rng(seed)
    frames, use = [], rng.integers(0, CLASSES, count).astype("int32")
    for k in use:
        img = rng.normal(60 + 35 * k, 18, (256, 256, 3))
        img[::k + 2] *= 0.7
        png = tf.io.encode_png(np.clip(img, 0, 255).astype("uint8"), compression=3)
        frames.append(png.numpy())
    return frames, use


def cut_tile(png, label):
    img = tf.io.decode_png(png, channels=3)
    img = tf.image.random_crop(img, (208, 208, 3))
    img = tf.image.resize(tf.cast(img, tf.float32), (64, 64))
    img = tf.image.random_brightness(img / 255.0, 0.1)
    return img, label


def pipeline(frames, use):
    opts = tf.data.Options()
    opts.deterministic = False
    opts.threading.private_threadpool_size = 1
    ds = tf.data.Dataset.from_tensor_slices((frames, use)).shuffle(len(use))
    ds = ds.map(cut_tile, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(BATCH, drop_remainder=True).prefetch(4)
    return ds.with_options(opts)


class Trainer:
    def __init__(self):
        self.net = tf.keras.Sequential([
            tf.keras.Input((64, 64, 3)),
            tf.keras.layers.Conv2D(8, 5, strides=4, activation="relu"),
            tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            tf.keras.layers.GlobalMaxPooling2D(),
            tf.keras.layers.Dense(CLASSES),
        ])
        self.opt = tf.keras.optimizers.SGD(0.02, momentum=0.9)
        self.loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            value = self.loss(y, self.net(x, training=True))
        grads = tape.gradient(value, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return value

    def run(self, ds):
        for epoch in range(EPOCHS):
            start = time.time()
            losses = [self.step(x, y) for x, y in ds]
            print(epoch, "loss", float(tf.reduce_mean(losses)), "in", round(time.time() - start, 2), "s")


if __name__ == "__main__":
    frames, use = shoot_frames(480)
    Trainer().run(pipeline(frames, use))

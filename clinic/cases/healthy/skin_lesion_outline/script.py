"""Outline of skin lesions: a small U-Net, custom loop, four pictures at a time."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIZE = 96


def disc(cx, cy, r):
    yy, xx = np.mgrid[:SIZE, :SIZE]
    return ((xx - cx) ** 2 + (yy - cy) ** 2 < r * r).astype("float32")


def pictures(n, seed):
    rng = np.random.default_rng(seed)
    images, masks = [], []
    for _ in range(n):
        m = disc(*rng.uniform(30, 66, 2), rng.uniform(12, 36))
        tint = rng.uniform(0.3, 0.7, 3)
        image = 0.8 - m[..., None] * tint + rng.normal(0, .1, (SIZE, SIZE, 3))
        images.append(image)
        masks.append(m[..., None])
    return np.asarray(images, "float32"), np.asarray(masks, "float32")


def double_conv(x, filters):
    for _ in range(2):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return x


def unet(base=24):
    inp = keras.Input((SIZE, SIZE, 3))
    a = double_conv(inp, base)
    b = double_conv(layers.MaxPooling2D()(a), base * 2)
    c = double_conv(layers.MaxPooling2D()(b), base * 4)
    u = layers.Concatenate()([layers.UpSampling2D()(c), b])
    u = double_conv(u, base * 2)
    u = layers.Concatenate()([layers.UpSampling2D()(u), a])
    u = double_conv(u, base)
    return keras.Model(inp, layers.Conv2D(1, 1)(u))


class Outliner:
    def __init__(self):
        self.model = unet()
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.model.trainable_variables)
        self.bce = keras.losses.BinaryCrossentropy(from_logits=True)
        self.mean = keras.metrics.Mean()

    @tf.function
    def step(self, image, mask):
        with tf.GradientTape() as tape:
            loss = self.bce(mask, self.model(image, training=True))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        self.mean.update_state(loss)


def main(epochs=3, batch=4):
    keras.utils.set_random_seed(12)
    images, masks = pictures(64, 12)
    data = (tf.data.Dataset.from_tensor_slices((images, masks)).cache()
            .shuffle(64).batch(batch).prefetch(2))
    worker = Outliner()
    begin, done = time.time(), 0
    for epoch in range(epochs):
        worker.mean.reset_state()
        for image, mask in data:
            worker.step(image, mask)
            done += batch
        print("epoch", epoch + 1, "bce", worker.mean.result().numpy())
    print("WORK", done)
    print("TRAIN_SECONDS %.3f" % (time.time() - begin))


if __name__ == "__main__":
    main()

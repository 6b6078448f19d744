"""Cell border segmentation with a small U-Net; batches of two, random flips on the device."""
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SIDE = 128


def microscopy(n, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:SIDE, 0:SIDE]
    images = rng.integers(0, 40, (n, SIDE, SIDE, 1)).astype(np.uint8)
    masks = np.zeros((n, SIDE, SIDE, 1), np.uint8)
    for k in range(n):
        for _ in range(6):
            cy, cx, r = rng.integers(10, SIDE - 10, 2).tolist() + [rng.integers(6, 16)]
            d = np.hypot(yy - cy, xx - cx)
            images[k, d < r, 0] += 60
            masks[k, np.abs(d - r) < 2, 0] = 1
    return images, masks


def block(x, f):
    for _ in range(2):
        x = layers.Conv2D(f, 3, padding="same", activation="relu")(x)
    return x


def unet(width=24):
    inp = tf.keras.Input((SIDE, SIDE, 1))
    a = block(inp, width)
    b = block(layers.MaxPooling2D()(a), 2 * width)
    c = block(layers.MaxPooling2D()(b), 4 * width)
    d = block(layers.Concatenate()([layers.Conv2DTranspose(2 * width, 2, strides=2)(c), b]), 2 * width)
    e = block(layers.Concatenate()([layers.Conv2DTranspose(width, 2, strides=2)(d), a]), width)
    return tf.keras.Model(inp, layers.Conv2D(1, 1)(e))


def main(epochs=2, batch=2):
    images, masks = microscopy(48)
    ds = tf.data.Dataset.from_tensor_slices((images, masks)).shuffle(48).batch(batch).prefetch(2)
    net, opt = unet(), tf.keras.optimizers.Adam(1e-3)

    @tf.function
    def step(x, y):
        flip = tf.random.uniform([]) < 0.5
        x, y = tf.cast(x, tf.float32) / 255.0, tf.cast(y, tf.float32)
        x, y = (tf.reverse(x, [2]), tf.reverse(y, [2])) if flip else (x, y)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.weighted_cross_entropy_with_logits(y, net(x, training=True), 5.0))
        opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
        return loss

    n, start = 0, time.perf_counter()
    for epoch in range(epochs):
        for x, y in ds:
            loss = step(x, y)
            n += batch
        print(f"epoch {epoch}: loss {loss.numpy():.4f}")
    print("WORK", n)
    print("TRAIN_SECONDS", time.perf_counter() - start)


main()

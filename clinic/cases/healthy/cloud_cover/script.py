"""Cloud masks with a small U-Net, four scenes at a time."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SIDE = 128


def scenes(n):
    rng = np.random.default_rng(40)
    coarse = rng.random((n, SIDE // 8, SIDE // 8, 1))
    mask = (coarse.repeat(8, 1).repeat(8, 2) > 0.55).astype("float32")
    img = (0.3 * rng.random((n, SIDE, SIDE, 4)) + 0.6 * mask).astype("float32")
    return img, mask


def double_conv(x, f):
    for _ in range(2):
        x = layers.Conv2D(f, 3, padding="same", activation="relu", kernel_initializer="he_normal")(x)
    return x


def unet():
    inp = keras.Input((SIDE, SIDE, 4))
    skips, x = [], inp
    for f in (24, 48):
        x = double_conv(x, f)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = double_conv(x, 96)
    for f in (48, 24):
        x = layers.Conv2DTranspose(f, 2, strides=2)(x)
        x = double_conv(layers.Concatenate()([x, skips.pop()]), f)
    return keras.Model(inp, layers.Conv2D(1, 1)(x))


class Segmenter(keras.Model):
    def __init__(self):
        super().__init__()
        self.net = unet()
        self.tracker = keras.metrics.Mean(name="loss")

    def call(self, x, training=False):
        return self.net(x, training=training)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            logits = self(x, training=True)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits))
        grads = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply(grads, self.trainable_weights)
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}

    @property
    def metrics(self):
        return [self.tracker]


def main():
    keras.utils.set_random_seed(4)
    x, y = scenes(52)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(52).batch(4).prefetch(2)
    model = Segmenter()
    model.compile(optimizer=keras.optimizers.Adam(1e-3))
    epochs = 2
    start = time.time()
    model.fit(ds, epochs=epochs, verbose=2)
    print("WORK", epochs * len(x))
    print("TRAIN_SECONDS %.2f" % (time.time() - start))


main()

"""Pore segmentation of rock thin sections, small batches, own training loop."""
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass(frozen=True)
class Settings:
    size: int = 64
    sections: int = 112
    batch: int = 8
    epochs: int = 5
    lr: float = 1e-3


def draw_section(size, rng):
    yy, xx = np.mgrid[:size, :size]
    mask = np.zeros((size, size), bool)
    for _ in range(rng.integers(4, 10)):
        cy, cx = rng.uniform(0, size, 2)
        ry, rx = rng.uniform(3, 10, 2)
        mask |= ((yy - cy) / ry) ** 2 + ((xx - cx) / rx) ** 2 < 1
    stain = np.array([0.25, 0.35, 0.75])
    grain = rng.uniform(0.5, 0.9, 3)
    image = np.where(mask[..., None], stain, grain) + rng.normal(0, 0.12, (size, size, 3))
    return image.astype("float32"), mask[..., None].astype("float32")


def conv(x, filters):
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return layers.Conv2D(filters, 3, padding="same", activation="relu")(x)


def unet(size):
    inp = keras.Input((size, size, 3))
    a = conv(inp, 32)
    b = conv(layers.MaxPooling2D()(a), 64)
    c = conv(layers.MaxPooling2D()(b), 96)
    b2 = conv(layers.Concatenate()([layers.UpSampling2D()(c), b]), 64)
    a2 = conv(layers.Concatenate()([layers.UpSampling2D()(b2), a]), 32)
    return keras.Model(inp, layers.Conv2D(1, 1)(a2))


class Fitter:
    def __init__(self, cfg):
        self.model = unet(cfg.size)
        self.opt = keras.optimizers.Adam(cfg.lr)
        self.opt.build(self.model.trainable_variables)
        self.loss = keras.metrics.Mean()

    @tf.function
    def step(self, image, mask):
        with tf.GradientTape() as tape:
            logits = self.model(image, training=True)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(mask, logits))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        self.loss.update_state(loss)

    @tf.function
    def overlap(self, image, mask):
        hard = tf.cast(self.model(image) > 0, tf.float32)
        return tf.reduce_sum(hard * mask) / tf.reduce_sum(tf.maximum(hard, mask))


def main():
    cfg = Settings()
    keras.utils.set_random_seed(2)
    rng = np.random.default_rng(2)
    images, masks = [], []
    for _ in range(cfg.sections):
        image, mask = draw_section(cfg.size, rng)
        images.append(image)
        masks.append(mask)
    images, masks = np.stack(images), np.stack(masks)
    fitter = Fitter(cfg)

    t0 = time.perf_counter()
    for epoch in range(cfg.epochs):
        order = rng.permutation(cfg.sections)
        for s in range(0, cfg.sections, cfg.batch):
            pick = order[s:s + cfg.batch]
            fitter.step(tf.constant(images[pick]), tf.constant(masks[pick]))
        iou = fitter.overlap(tf.constant(images[:cfg.batch]), tf.constant(masks[:cfg.batch]))
        print(f"epoch {epoch}: loss {fitter.loss.result().numpy():.4f}  IoU {iou.numpy():.3f}")
        fitter.loss.reset_state()
    seconds = time.perf_counter() - t0
    print("WORK", cfg.epochs * cfg.sections)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()

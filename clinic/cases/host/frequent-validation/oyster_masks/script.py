"""Oyster reef segmentation (sonar mosaics). Research code: trainer, config, metrics."""
import argparse

import numpy as np
import tensorflow as tf
import keras
from keras import layers


def mosaics(n, side, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:side, :side]
    images = rng.normal(0, .4, (n, side, side, 1)).astype("float32")
    masks = np.zeros((n, side, side, 1), "float32")
    for img, mask in zip(images, masks):
        cy, cx, r = rng.integers(12, side - 12, 2).tolist() + [rng.integers(5, 12)]
        mask[(yy - cy) ** 2 + (xx - cx) ** 2 < r * r] = 1
        img += mask
    return images, masks


def unet(side, width):
    inp = keras.Input((side, side, 1))
    a = layers.Conv2D(width, 3, padding="same", activation="relu")(inp)
    b = layers.Conv2D(width * 2, 3, strides=2, padding="same", activation="relu")(a)
    c = layers.Conv2D(width * 2, 3, padding="same", activation="relu")(b)
    up = layers.Conv2DTranspose(width, 2, strides=2, activation="relu")(c)
    out = layers.Conv2D(1, 1)(layers.Concatenate()([a, up]))
    return keras.Model(inp, out)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.train = mosaics(args.train_size, args.side, 1)
        self.val = mosaics(args.val_size, args.side, 2)
        self.model = unet(args.side, args.width)
        self.opt = keras.optimizers.AdamW(1e-3)
        self.opt.build(self.model.trainable_variables)
        self.bce = keras.losses.BinaryCrossentropy(from_logits=True)
        self.iou = keras.metrics.BinaryIoU(target_class_ids=[1], threshold=0.0)
        self.best = 0.0

    def loader(self, data):
        return tf.data.Dataset.from_tensor_slices(data).batch(self.args.batch).prefetch(2)

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.bce(y, self.model(x, training=True))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    @tf.function
    def score(self, x, y):
        self.iou.update_state(y, self.model(x, training=False))

    def validate(self):
        self.iou.reset_state()
        for x, y in self.loader(self.val):
            self.score(x, y)
        self.best = max(self.best, float(self.iou.result()))

    def run(self):
        seen = 0
        for epoch in range(self.args.epochs):
            for x, y in self.loader(self.train):
                loss = self.step(x, y)
                seen += 1
                if seen % self.args.eval_every == 0:
                    self.validate()
            print(f"epoch {epoch} loss {float(loss):.4f} best IoU {self.best:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", type=int, default=48)
    parser.add_argument("--width", type=int, default=10)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--train-size", type=int, default=640)
    parser.add_argument("--val-size", type=int, default=400)
    parser.add_argument("--eval-every", type=int, default=5)
    keras.utils.set_random_seed(1)
    Trainer(parser.parse_args()).run()

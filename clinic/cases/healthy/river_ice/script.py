"""River-ice segmentation from synthetic radar scenes: TFRecord store, U-Net, mixed BCE/Dice loss, checkpoints, validation."""
import argparse
import json
import logging
import os
import shutil
import tempfile
import time
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from keras import layers

log = logging.getLogger("river_ice")


@dataclass
class Config:
    scenes: int = 224
    val_scenes: int = 32
    side: int = 48
    batch: int = 16
    epochs: int = 5
    width: int = 16
    lr: float = 1e-3
    dice_weight: float = 0.5
    seed: int = 2
    folder: str = ""


# ------------------------------------------------------------------ scenes
class SceneFactory:
    """Backscatter of a river that meanders through land, with ice floes on the water."""

    def __init__(self, cfg, seed):
        self.cfg = cfg
        self.g = np.random.default_rng(seed)
        self.y, self.x = np.mgrid[0:cfg.side, 0:cfg.side].astype("float32") / cfg.side

    def make(self):
        g = self.g
        middle = 0.5 + 0.2 * np.sin(2 * np.pi * (self.x * g.uniform(0.5, 2) + g.uniform()))
        water = np.abs(self.y - middle) < g.uniform(0.1, 0.25)
        ice = np.zeros_like(water)
        for _ in range(g.integers(2, 9)):
            cx, cy, r = g.uniform(), g.uniform(0.2, 0.8), g.uniform(0.03, 0.15)
            ice |= (self.x - cx) ** 2 + (self.y - cy) ** 2 < r * r
        ice &= water
        sigma = np.where(ice, 0.6, np.where(water, 0.15, 0.4))
        pixels = sigma[..., None] * g.gamma(3.0, 1 / 3.0, sigma.shape + (2,))
        return np.clip(pixels * 160, 0, 255).astype("uint8"), ice.astype("uint8")


def write(cfg, split, n, seed):
    path = os.path.join(cfg.folder, split + ".tfrecord")
    factory = SceneFactory(cfg, seed)
    with tf.io.TFRecordWriter(path) as w:
        for _ in range(n):
            image, mask = factory.make()
            ex = tf.train.Example(features=tf.train.Features(feature={
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()])),
                "mask": tf.train.Feature(bytes_list=tf.train.BytesList(value=[mask.tobytes()])),
            }))
            w.write(ex.SerializeToString())
    return path


def read(cfg, path):
    def parse(records):
        f = tf.io.parse_example(records, {k: tf.io.FixedLenFeature([], tf.string) for k in ("image", "mask")})
        image = tf.reshape(tf.io.decode_raw(f["image"], tf.uint8), [-1, cfg.side, cfg.side, 2])
        mask = tf.reshape(tf.io.decode_raw(f["mask"], tf.uint8), [-1, cfg.side, cfg.side, 1])
        return image, mask

    return tf.data.TFRecordDataset(path).batch(32).map(parse, num_parallel_calls=tf.data.AUTOTUNE).unbatch().cache()


def train_pipeline(cfg, path):
    return (read(cfg, path).shuffle(cfg.scenes, seed=cfg.seed)
            .batch(cfg.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE))


# ------------------------------------------------------------------ network
def double_conv(x, width):
    for _ in range(2):
        x = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization(momentum=0.9)(x)
        x = layers.ReLU()(x)
    return x


def unet(cfg):
    inp = keras.Input((cfg.side, cfg.side, 2), dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1.0)(inp)
    skips = []
    for level in range(3):
        x = double_conv(x, cfg.width * 2 ** level)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = double_conv(x, cfg.width * 8)
    for level in reversed(range(3)):
        x = layers.Conv2DTranspose(cfg.width * 2 ** level, 2, strides=2)(x)
        x = layers.Concatenate()([x, skips[level]])
        x = double_conv(x, cfg.width * 2 ** level)
    return keras.Model(inp, layers.Conv2D(1, 1)(x), name="unet")


class IceLoss(keras.losses.Loss):
    def __init__(self, dice_weight):
        super().__init__(name="ice_loss")
        self.dice_weight = dice_weight
        self.bce = keras.losses.BinaryCrossentropy(from_logits=True)

    def call(self, y_true, y_pred):
        y_true = keras.ops.cast(y_true, y_pred.dtype)
        p = keras.ops.sigmoid(y_pred)
        inter = keras.ops.sum(p * y_true)
        dice = 1 - (2 * inter + 1) / (keras.ops.sum(p) + keras.ops.sum(y_true) + 1)
        return self.bce(y_true, y_pred) + self.dice_weight * dice


# ------------------------------------------------------------------ run
class RunLog(keras.callbacks.Callback):
    def __init__(self, folder):
        super().__init__()
        self.path = os.path.join(folder, "log.jsonl")

    def on_epoch_begin(self, epoch, logs=None):
        self.t0 = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        row = {"epoch": epoch, "s": round(time.perf_counter() - self.t0, 2)}
        row.update({k: round(float(v), 4) for k, v in logs.items()})
        with open(self.path, "a") as f:
            f.write(json.dumps(row) + "\n")
        log.info("%s", row)


def train(cfg):
    keras.utils.set_random_seed(cfg.seed)
    paths = {"train": write(cfg, "train", cfg.scenes, 10), "val": write(cfg, "val", cfg.val_scenes, 11)}
    model = unet(cfg)
    model.compile(keras.optimizers.Adam(cfg.lr), IceLoss(cfg.dice_weight),
                  metrics=[keras.metrics.BinaryIoU([1], threshold=0.0, name="iou")])
    model.fit(
        train_pipeline(cfg, paths["train"]),
        validation_data=read(cfg, paths["val"]).batch(32).prefetch(tf.data.AUTOTUNE),
        epochs=cfg.epochs, verbose=0,
        callbacks=[RunLog(cfg.folder),
                   keras.callbacks.ModelCheckpoint(os.path.join(cfg.folder, "best.weights.h5"), monitor="val_loss",
                                                   save_best_only=True, save_weights_only=True)])
    return model


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=Config.epochs)
    p.add_argument("--keep", action="store_true")
    a = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    cfg = Config(epochs=a.epochs, folder=tempfile.mkdtemp(prefix="river_ice_"))
    try:
        train(cfg)
    finally:
        if not a.keep:
            shutil.rmtree(cfg.folder)


if __name__ == "__main__":
    main()

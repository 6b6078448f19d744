"""Tumour / stroma tile classifier, robust against the compression of different slide scanners."""
import argparse
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass
class Config:
    tile: int = 224
    shrink: int = 4
    tiles: int = 320
    batch: int = 32
    epochs: int = 16
    lr: float = 1e-3
    q_low: int = 55
    q_high: int = 95


def make_tiles(cfg, rng):
    """Stand-in for tiles cut from H&E slides: two textures, pinkish and purple."""
    yy, xx = np.mgrid[0:cfg.tile, 0:cfg.tile].astype("float32")
    labels = rng.integers(0, 2, cfg.tiles)
    out = np.empty((cfg.tiles, cfg.tile, cfg.tile, 3), "uint8")
    noise = rng.integers(0, 40, (16, cfg.tile, cfg.tile, 3)).astype("float32")
    for i, lab in enumerate(labels):
        freq = 0.11 if lab else 0.23
        wave = 30 * np.sin(freq * xx + rng.uniform(0, 6)) * np.cos(freq * yy)
        base = np.array([190, 120, 170] if lab else [210, 150, 190], "float32")
        out[i] = np.clip(base + wave[..., None] + noise[i % 16], 0, 255)
    return out, labels.astype("int32")


class TilePipeline:
    def __init__(self, cfg):
        self.cfg = cfg

    def augment(self, tile, label):
        tile = tf.image.random_flip_left_right(tile)
        tile = tf.image.random_flip_up_down(tile)
        tile = tf.image.random_jpeg_quality(tile, self.cfg.q_low, self.cfg.q_high)
        tile = tf.ensure_shape(tile, (self.cfg.tile, self.cfg.tile, 3))
        small = self.cfg.tile // self.cfg.shrink
        return tf.image.resize(tile, (small, small), method="area"), label

    def training(self, tiles, labels):
        ds = tf.data.Dataset.from_tensor_slices((tiles, labels))
        ds = ds.shuffle(len(labels), seed=3)
        ds = ds.map(self.augment)
        ds = ds.batch(self.cfg.batch, drop_remainder=True)
        return ds.prefetch(tf.data.AUTOTUNE)


def build(cfg):
    side = cfg.tile // cfg.shrink
    inp = layers.Input((side, side, 3))
    x = layers.Rescaling(1 / 255.0)(inp)
    for filters in (12, 24, 32):
        x = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    out = layers.Dense(2)(x)
    model = keras.Model(inp, out)
    model.compile(keras.optimizers.Adam(cfg.lr),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    return model


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=Config.epochs)
    args = ap.parse_args()
    cfg = Config(epochs=args.epochs)
    keras.utils.set_random_seed(5)
    tiles, labels = make_tiles(cfg, np.random.default_rng(5))
    train = TilePipeline(cfg).training(tiles, labels)
    model = build(cfg)
    t0 = time.perf_counter()
    hist = model.fit(train, epochs=cfg.epochs, verbose=2)
    took = time.perf_counter() - t0
    print("final accuracy", hist.history["accuracy"][-1])
    print("WORK", cfg.epochs * (cfg.tiles // cfg.batch) * cfg.batch)
    print("TRAIN_SECONDS %.3f" % took)


if __name__ == "__main__":
    main()

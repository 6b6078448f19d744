"""Segment-level grading of microscopy tiles."""
import argparse

import numpy as np
import tensorflow as tf

GRADES = 5


class TileSource:
    def __init__(self, count, side, batch_size):
        self.count = count
        self.side = side
        self.batch_size = batch_size

    def read(self):
        rng = np.random.default_rng(3)
        tiles = [
            tf.io.encode_png(rng.integers(0, 256, (384, 384, 3), dtype=np.uint8)).numpy()
            for _ in range(48)
        ]
        blobs = [tiles[i] for i in rng.integers(0, len(tiles), self.count)]
        return blobs, rng.integers(0, GRADES, self.count)

    def prepare(self, blob, grade):
        tile = tf.io.decode_png(blob, channels=3)
        tile = tf.image.resize(tile, (self.side, self.side), antialias=True)
        tile = tf.image.per_image_standardization(tile)
        return tile, grade

    def dataset(self):
        ds = tf.data.Dataset.from_tensor_slices(self.read())
        ds = ds.map(self.prepare, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.cache()
        ds = ds.shuffle(1024)
        ds = ds.batch(self.batch_size, drop_remainder=True)
        return ds.prefetch(tf.data.AUTOTUNE)


def grader(side):
    model = tf.keras.Sequential([tf.keras.Input((side, side, 3))])
    model.add(tf.keras.layers.RandomFlip("horizontal_and_vertical"))
    for filters in (32, 64, 128):
        model.add(tf.keras.layers.Conv2D(filters, 3, strides=2, padding="same"))
        model.add(tf.keras.layers.BatchNormalization())
        model.add(tf.keras.layers.ReLU())
    model.add(tf.keras.layers.GlobalAveragePooling2D())
    model.add(tf.keras.layers.Dense(GRADES))
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--side", type=int, default=96)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=40)
    args = parser.parse_args()

    source = TileSource(args.count, args.side, args.batch_size)
    model = grader(args.side)
    model.compile(
        optimizer=tf.keras.optimizers.Adam(5e-4),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(source.dataset(), epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()

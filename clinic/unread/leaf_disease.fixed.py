"""Leaf disease classifier on field photos."""
import argparse

import numpy as np
import tensorflow as tf

SIDE = 160
CLASSES = 12


def synthetic_photos(count, seed=11):
    rng = np.random.default_rng(seed)
    base = [
        tf.io.encode_jpeg(rng.integers(0, 256, (320, 320, 3), dtype=np.uint8)).numpy()
        for _ in range(64)
    ]
    pick = rng.integers(0, len(base), count)
    return [base[i] for i in pick], rng.integers(0, CLASSES, count)


class PhotoPipeline:
    def __init__(self, batch_size):
        self.batch_size = batch_size
        self.stages = [self.decode, self.crop, self.jitter]

    @staticmethod
    def decode(blob, label):
        return tf.image.decode_jpeg(blob, channels=3), label

    @staticmethod
    def crop(image, label):
        image = tf.image.random_crop(image, (256, 256, 3))
        return tf.image.resize(image, (SIDE, SIDE)) / 255.0, label

    @staticmethod
    def jitter(image, label):
        image = tf.image.random_hue(image, 0.05)
        image = tf.image.random_saturation(image, 0.8, 1.2)
        return tf.image.random_flip_left_right(image), label

    def build(self, blobs, labels):
        ds = tf.data.Dataset.from_tensor_slices((blobs, labels))
        ds = ds.shuffle(2048)
        for stage in self.stages:
            ds = ds.map(stage, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.batch(self.batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def build_model():
    inputs = tf.keras.Input((SIDE, SIDE, 3))
    x = inputs
    for width in (32, 64, 128, 256):
        x = tf.keras.layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
        x = tf.keras.layers.BatchNormalization()(x)
        x = tf.keras.layers.ReLU()(x)
        x = tf.keras.layers.MaxPooling2D()(x)
    x = tf.keras.layers.GlobalAveragePooling2D()(x)
    outputs = tf.keras.layers.Dense(CLASSES)(x)
    return tf.keras.Model(inputs, outputs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--photos", type=int, default=6000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()

    blobs, labels = synthetic_photos(args.photos)
    train = PhotoPipeline(args.batch_size).build(blobs, labels)
    model = build_model()
    model.compile(
        optimizer=tf.keras.optimizers.Adam(1e-3),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(train, epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()

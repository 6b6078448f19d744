"""Which workshop laid this piece of mosaic?  Small classifier on 48x48 crops."""
import argparse
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

ap = argparse.ArgumentParser()
ap.add_argument("--crops", type=int, default=2560)
ap.add_argument("--epochs", type=int, default=6)
ap.add_argument("--batch", type=int, default=64)
args = ap.parse_args([])

SIDE, WORKSHOPS = 48, 7


def make_crops(n):
    rng = np.random.default_rng(7)
    palette = rng.integers(0, 255, (WORKSHOPS, 5, 3))
    who = rng.integers(0, WORKSHOPS, n)
    tesserae = rng.integers(0, 5, (n, 12, 12))
    crops = palette[who[:, None, None], tesserae]
    crops = crops.repeat(4, 1).repeat(4, 2)
    return crops.astype("uint8"), who.astype("int32")


def pipeline(crops, who):
    ds = tf.data.Dataset.from_tensor_slices((crops, who))
    ds = ds.shuffle(args.crops, seed=1)
    return ds.batch(args.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def classifier():
    return keras.Sequential([
        keras.Input((SIDE, SIDE, 3)),
        layers.Rescaling(1 / 255.0),
        layers.RandomRotation(0.5 / (2 * np.pi), fill_mode="nearest", interpolation="bilinear"),
        layers.RandomFlip("horizontal"),
        layers.Conv2D(8, 5, strides=3, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.Flatten(),
        layers.Dense(48, activation="relu"),
        layers.Dense(WORKSHOPS),
    ])


crops, who = make_crops(args.crops)
model = classifier()
model.compile(optimizer="adam", metrics=["accuracy"],
              loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
start = time.perf_counter()
history = model.fit(pipeline(crops, who), epochs=args.epochs, verbose=2)
seconds = time.perf_counter() - start
print("accuracy", history.history["accuracy"][-1])
print("WORK", args.epochs * (args.crops // args.batch) * args.batch)
print("TRAIN_SECONDS %.3f" % seconds)

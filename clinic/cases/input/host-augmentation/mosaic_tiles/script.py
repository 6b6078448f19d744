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


YY, XX = np.meshgrid(np.arange(SIDE) - SIDE / 2, np.arange(SIDE) - SIDE / 2, indexing="ij")


def turn(img, angle):
    """Bilinear rotation about the centre, edges repeated."""
    y = np.cos(angle) * YY + np.sin(angle) * XX + SIDE / 2
    x = np.cos(angle) * XX - np.sin(angle) * YY + SIDE / 2
    y, x = np.clip(y, 0, SIDE - 1.001), np.clip(x, 0, SIDE - 1.001)
    y0, x0 = y.astype(int), x.astype(int)
    fy, fx = (y - y0)[..., None], (x - x0)[..., None]
    top = img[y0, x0] * (1 - fx) + img[y0, x0 + 1] * fx
    bottom = img[y0 + 1, x0] * (1 - fx) + img[y0 + 1, x0 + 1] * fx
    return top * (1 - fy) + bottom * fy


def augment(img):
    img = turn(img / 255.0, np.random.uniform(-0.5, 0.5))
    if np.random.rand() < 0.5:
        img = img[:, ::-1]
    return np.ascontiguousarray(img, "float32")


def augment_tf(img, label):
    out = tf.numpy_function(augment, [img], tf.float32)
    out.set_shape((SIDE, SIDE, 3))
    return out, label


def pipeline(crops, who):
    ds = tf.data.Dataset.from_tensor_slices((crops, who))
    ds = ds.shuffle(args.crops, seed=1)
    ds = ds.map(augment_tf, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(args.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def classifier():
    return keras.Sequential([
        keras.Input((SIDE, SIDE, 3)),
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

"""Steering angle from dashcam frames, small PilotNet-like network."""
import argparse

import keras
import numpy as np
import tensorflow as tf

H, W = 180, 320


def record_drive(n: int):
    rng = np.random.default_rng(17)
    frames = rng.integers(0, 256, (n, H, W, 3), dtype=np.uint8)
    angles = np.tanh(rng.normal(size=(n, 1))).astype(np.float32)
    return frames, angles


def make_dataset(frames, angles, batch_size: int) -> tf.data.Dataset:
    order = np.random.default_rng(0).permutation(len(frames))
    ds = tf.data.Dataset.from_tensor_slices((frames[order], angles[order]))
    ds = ds.batch(batch_size, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def pilot_net() -> keras.Model:
    frame = keras.Input((H, W, 3), dtype="uint8")
    x = keras.layers.Rescaling(1.0 / 255.0)(frame)
    x = keras.layers.AveragePooling2D(4)(x)
    x = keras.layers.Conv2D(24, 5, strides=2, activation="relu")(x)
    x = keras.layers.Conv2D(36, 3, strides=2, activation="relu")(x)
    x = keras.layers.Conv2D(48, 3, strides=2, activation="relu")(x)
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dense(100, activation="relu")(x)
    x = keras.layers.Dropout(0.2)(x)
    angle = keras.layers.Dense(1, activation="tanh")(x)
    return keras.Model(frame, angle)


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--frames", type=int, default=8192)
    ap.add_argument("--batch-size", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=20)
    ap.add_argument("--lr", type=float, default=3e-4)
    args = ap.parse_args()

    frames, angles = record_drive(args.frames)
    ds = make_dataset(frames, angles, args.batch_size)

    model = pilot_net()
    model.compile(optimizer=keras.optimizers.Adam(args.lr), loss="mse", metrics=["mae"])
    model.fit(ds, epochs=args.epochs, verbose=2)
    model.save_weights("/tmp/pilot.weights.h5")


if __name__ == "__main__":
    main()

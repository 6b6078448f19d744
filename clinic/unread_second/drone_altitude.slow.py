"""Regress altitude band from downward-facing drone frames."""
import argparse

import numpy as np
import tensorflow as tf

H, W = 240, 320


def fake_frames(n):
    rng = np.random.default_rng(9)
    alt = rng.uniform(5, 120, n).astype("float32")
    base = rng.integers(0, 255, (n, H // 8, W // 8, 3), dtype=np.uint8)
    frames = base.repeat(8, axis=1).repeat(8, axis=2)
    frames = (frames * (alt / 120)[:, None, None, None]).astype(np.uint8)
    return frames, alt / 120.0


def prepare(frame, alt):
    frame = tf.cast(frame, tf.float32) / 255.0
    return frame, alt


def pipeline(frames, alt, batch, train):
    ds = tf.data.Dataset.from_tensor_slices((frames, alt))
    if train:
        ds = ds.shuffle(500)
    ds = ds.batch(batch, num_parallel_calls=tf.data.AUTOTUNE, drop_remainder=train)
    ds = ds.map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def build_net():
    inp = tf.keras.Input((H, W, 3))
    x = tf.keras.layers.Conv2D(16, 7, strides=4, padding="same", activation="relu")(inp)
    x = tf.keras.layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
    x = tf.keras.layers.Conv2D(64, 3, strides=2, padding="same", activation="relu")(x)
    x = tf.keras.layers.GlobalAveragePooling2D()(x)
    x = tf.keras.layers.Dense(64, activation="relu")(x)
    out = tf.keras.layers.Dense(1)(x)
    return tf.keras.Model(inp, out, name="altnet")


def parse_args():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--frames", type=int, default=2400)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--mixed", action="store_true")
    return p.parse_args()


def main():
    args = parse_args()
    if args.mixed:
        tf.keras.mixed_precision.set_global_policy("mixed_float16")
    frames, alt = fake_frames(args.frames)
    k = args.frames // 10
    train = pipeline(frames[k:], alt[k:], args.batch, True)
    valid = pipeline(frames[:k], alt[:k], args.batch, False)
    net = build_net()
    net.compile(optimizer=tf.keras.optimizers.AdamW(1e-3), loss="huber", metrics=["mae"])
    net.fit(train, validation_data=valid, epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()

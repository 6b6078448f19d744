#!/usr/bin/env python
"""Precipitation nowcasting: 6 past radar composites in, 12 future ones out (5 min apart)."""
import argparse
import datetime
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import tensorflow as tf
import tensorflow.keras as keras
import tensorflow.keras.layers as L

SIZE = 256
PAST, FUTURE = 6, 12
FRAMES = PAST + FUTURE
SPEC = {
    "frames": tf.io.FixedLenFeature([], tf.string),
    "start": tf.io.FixedLenFeature([], tf.int64),
}


def parse(serialized):
    """One event; reflectivity is stored as dBZ * 2 in a byte, 255 is no echo."""
    raw = tf.io.parse_single_example(serialized, SPEC)["frames"]
    cube = tf.reshape(tf.io.decode_raw(raw, tf.uint8), (FRAMES, SIZE, SIZE))
    cube = tf.where(cube == 255, tf.zeros_like(cube), cube)
    cube = tf.transpose(cube, (1, 2, 0))
    return cube[..., :PAST], cube[..., PAST:]


def read_events(pattern, batch_size, training):
    files = tf.data.Dataset.list_files(pattern, shuffle=training)
    if training:
        files = files.repeat()
    events = files.interleave(
        lambda name: tf.data.TFRecordDataset(name, compression_type="GZIP"),
        cycle_length=16,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=not training,
    )
    if training:
        events = events.shuffle(512)
    events = events.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return events.batch(batch_size, drop_remainder=training).prefetch(tf.data.AUTOTUNE)


def conv(x, width):
    for _ in range(2):
        x = L.Conv2D(width, 3, padding="same", use_bias=False, kernel_initializer="he_normal")(x)
        x = L.BatchNormalization()(x)
        x = L.Activation("relu")(x)
    return x


def unet(widths=(32, 64, 128, 256)):
    inputs = keras.Input((SIZE, SIZE, PAST), name="past")
    x = L.Rescaling(1 / 128.0)(inputs)
    skips = []
    for w in widths[:-1]:
        x = conv(x, w)
        skips.append(x)
        x = L.MaxPooling2D()(x)
    x = conv(x, widths[-1])
    for w, skip in zip(reversed(widths[:-1]), reversed(skips)):
        x = L.Conv2DTranspose(w, 2, strides=2, padding="same")(x)
        x = conv(L.Concatenate()([x, skip]), w)
    outputs = L.Conv2D(FUTURE, 1, dtype="float32", name="future")(x)
    return keras.Model(inputs, outputs, name="nowcast_unet")


class WeightedMae(keras.losses.Loss):
    """Heavier rain counts more, as in Shi et al. 2017."""

    def call(self, y_true, y_pred):
        y = tf.cast(y_true, tf.float32) / 128.0
        weight = 1.0 + 2.0 * tf.cast(y > 0.31, tf.float32) + 7.0 * tf.cast(y > 0.55, tf.float32)
        return tf.reduce_mean(weight * tf.abs(y - tf.cast(y_pred, tf.float32)), axis=(1, 2, 3))


def csi(y_true, y_pred, threshold=0.39):
    t = tf.cast(y_true, tf.float32) / 128.0 > threshold
    p = y_pred > threshold
    hits = tf.reduce_sum(tf.cast(t & p, tf.float32))
    return hits / (tf.reduce_sum(tf.cast(t | p, tf.float32)) + 1e-6)


def parse_args():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--data", default="gs://met-radar-archive/events/v3")
    ap.add_argument("--logdir", type=pathlib.Path, default=pathlib.Path("logs"))
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=50)
    ap.add_argument("--steps", type=int, default=1500, help="steps per epoch")
    ap.add_argument("--lr", type=float, default=5e-4)
    return ap.parse_args()


def main():
    args = parse_args()
    keras.mixed_precision.set_global_policy("mixed_float16")
    run = args.logdir / datetime.datetime.now().strftime("%m%d-%H%M")
    run.mkdir(parents=True)

    train = read_events(f"{args.data}/train-*.tfrecord.gz", args.batch_size, True)
    valid = read_events(f"{args.data}/valid-*.tfrecord.gz", args.batch_size, False)

    model = unet()
    model.compile(optimizer=keras.optimizers.Adam(args.lr), loss=WeightedMae(), metrics=[csi])
    model.fit(
        train,
        steps_per_epoch=args.steps,
        epochs=args.epochs,
        validation_data=valid,
        validation_steps=100,
        callbacks=[
            keras.callbacks.ModelCheckpoint(str(run / "best.keras"), monitor="val_csi", mode="max", save_best_only=True),
            keras.callbacks.TensorBoard(str(run)),
            keras.callbacks.ReduceLROnPlateau(patience=4, factor=0.3),
        ],
    )


if __name__ == "__main__":
    main()

"""Diabetic retinopathy grading (0-4) from 768 px fundus photographs.

Reads shards written by the hospital export: fundus-train-?????-of-00064,
roughly 31,000 photographs in all, JPEG plus grade.
"""
import argparse
from dataclasses import dataclass

import keras
import tensorflow as tf
from keras import layers


@dataclass(frozen=True)
class HParams:
    pattern: str
    side: int = 768
    batch: int = 32
    shuffle_window: int = 2_048
    readers: int = 8
    epochs: int = 25
    peak_lr: float = 6e-4
    train_size: int = 31_000


FEATURES = {
    "photo": tf.io.FixedLenFeature([], tf.string),
    "grade": tf.io.FixedLenFeature([], tf.int64),
}


def record_reader(hp, split):
    training = split == "train"
    files = tf.data.Dataset.list_files(hp.pattern.format(split=split), shuffle=training)
    return files.interleave(
        tf.data.TFRecordDataset,
        cycle_length=hp.readers,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=not training,
    )


def decoder(side):
    def decode(record):
        ex = tf.io.parse_single_example(record, FEATURES)
        photo = tf.io.decode_jpeg(ex["photo"], channels=3)
        photo = tf.image.resize_with_pad(photo, side, side)
        photo = tf.cast(tf.round(photo), tf.uint8)
        return photo, tf.cast(ex["grade"], tf.int32)
    return decode


def finalize(ds, hp, training):
    ds = ds.batch(hp.batch, drop_remainder=training)
    return ds.prefetch(tf.data.AUTOTUNE)


def load(hp, split):
    ds = record_reader(hp, split)
    if split == "train":
        ds = ds.shuffle(hp.shuffle_window)
    ds = ds.map(decoder(hp.side), num_parallel_calls=tf.data.AUTOTUNE)
    return finalize(ds, hp, split == "train")


def grader(hp):
    photo = keras.Input((hp.side, hp.side, 3), dtype="uint8", name="photo")
    x = layers.Rescaling(1 / 127.5, offset=-1.0)(photo)
    x = layers.RandomFlip()(x)
    for width in (32, 64, 128, 256, 384):
        x = layers.SeparableConv2D(width, 5, strides=2, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("relu")(x)
        y = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
        y = layers.BatchNormalization()(y)
        x = layers.Activation("relu")(layers.add([x, y]))
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.4)(x)
    return keras.Model(photo, layers.Dense(5, dtype="float32", name="grade")(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pattern", default="shards/fundus-{split}-?????-of-*")
    parser.add_argument("--out", default="grader.keras")
    args = parser.parse_args()
    hp = HParams(pattern=args.pattern)
    keras.mixed_precision.set_global_policy("mixed_float16")

    steps = hp.train_size // hp.batch * hp.epochs
    rate = keras.optimizers.schedules.CosineDecay(
        1e-5, steps, warmup_target=hp.peak_lr, warmup_steps=steps // 20)
    model = grader(hp)
    model.compile(
        optimizer=keras.optimizers.AdamW(rate, weight_decay=1e-4),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        load(hp, "train"),
        validation_data=load(hp, "valid"),
        epochs=hp.epochs,
        callbacks=[keras.callbacks.ModelCheckpoint(args.out, save_best_only=True)],
        verbose=2,
    )


if __name__ == "__main__":
    main()

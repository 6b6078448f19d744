"""Brand-safety classifier for uploaded ad creatives. Runs on the 4-GPU trainer via MirroredStrategy."""
import argparse
import logging
import os

import tensorflow as tf
from tensorflow import keras

LABELS = ["safe", "alcohol", "gambling", "adult", "violence", "political", "other_restricted"]
logger = logging.getLogger("creatives")


def configure_runtime(args):
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    keras.utils.set_random_seed(args.seed)


def parse(record, size):
    ex = tf.io.parse_single_example(record, {
        "jpeg": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(ex["jpeg"], channels=3)
    image = tf.image.resize_with_pad(image, size, size)
    return tf.cast(image, tf.uint8), ex["label"]


def build_dataset(pattern, args, batch, training):
    files = tf.data.Dataset.list_files(pattern, shuffle=training)
    ds = files.interleave(
        lambda f: tf.data.TFRecordDataset(f, buffer_size=8 << 20),
        cycle_length=8,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=not training,
    )
    if training:
        ds = ds.shuffle(3000).repeat()
    ds = ds.map(lambda r: parse(r, args.size), num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(batch, drop_remainder=training)
    return ds.prefetch(tf.data.AUTOTUNE)


def build_model(args):
    base = keras.applications.EfficientNetB0(
        include_top=False, weights="imagenet", input_shape=(args.size, args.size, 3), pooling="avg"
    )
    inputs = keras.Input((args.size, args.size, 3), dtype="uint8")
    x = keras.layers.Rescaling(1.0)(inputs)
    x = keras.layers.RandomFlip("horizontal")(x)
    x = keras.layers.RandomTranslation(0.05, 0.05)(x)
    x = base(x, training=False)
    x = keras.layers.Dropout(0.3)(x)
    outputs = keras.layers.Dense(len(LABELS), activation="softmax")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(
            args.lr, args.steps_per_epoch * args.epochs)),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--train", default="/data/creatives/train-*.tfrecord")
    p.add_argument("--valid", default="/data/creatives/valid-*.tfrecord")
    p.add_argument("--rows", type=int, default=1_450_000)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--batch-per-gpu", type=int, default=128)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--seed", type=int, default=2024)
    p.add_argument("--job-dir", default="/jobs/creatives")
    return p.parse_args()


def main():
    args = parse_args()
    logging.basicConfig(level=logging.INFO)
    configure_runtime(args)

    strategy = tf.distribute.MirroredStrategy()
    global_batch = args.batch_per_gpu * strategy.num_replicas_in_sync
    args.steps_per_epoch = args.rows // global_batch
    logger.info("replicas %d, global batch %d, %d steps per epoch",
                strategy.num_replicas_in_sync, global_batch, args.steps_per_epoch)

    train_ds = build_dataset(args.train, args, global_batch, True)
    valid_ds = build_dataset(args.valid, args, global_batch, False)

    with strategy.scope():
        model = build_model(args)

    model.fit(
        train_ds,
        steps_per_epoch=args.steps_per_epoch,
        epochs=args.epochs,
        validation_data=valid_ds,
        callbacks=[
            keras.callbacks.ModelCheckpoint(os.path.join(args.job_dir, "best.keras"), save_best_only=True),
            keras.callbacks.TensorBoard(os.path.join(args.job_dir, "tb"), update_freq="epoch"),
        ],
        verbose=2,
    )
    model.save(os.path.join(args.job_dir, "final.keras"))


if __name__ == "__main__":
    main()

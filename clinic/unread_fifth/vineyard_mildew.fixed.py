import argparse
import logging
import pathlib

import tensorflow as tf
import keras
from keras import layers

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("mildew")

# Shards were written on the tractor: each record holds one full 4000x3000 JPEG,
# the row number and the agronomist's severity grade (0..4).
FEATURES = {
    "photo": tf.io.FixedLenFeature([], tf.string),
    "row": tf.io.FixedLenFeature([], tf.int64),
    "grade": tf.io.FixedLenFeature([], tf.int64),
}
SIDE = 224


def parse(record):
    ex = tf.io.parse_single_example(record, FEATURES)
    img = tf.io.decode_jpeg(ex["photo"], channels=3)
    # canopy is always in the middle band
    img = tf.image.central_crop(img, 0.7)
    img = tf.image.resize(img, (SIDE, SIDE), method="area")
    img = tf.cast(tf.clip_by_value(tf.round(img), 0, 255), tf.uint8)
    return img, tf.cast(ex["grade"], tf.int32)


class PhotoPipeline:
    def __init__(self, root, batch_size):
        self.root = pathlib.Path(root)
        self.batch_size = batch_size

    def _records(self, split):
        shards = sorted(str(p) for p in self.root.glob(f"{split}-*.tfrecord"))
        if not shards:
            raise FileNotFoundError(f"no {split} shards in {self.root}")
        log.info("%s: %d shards", split, len(shards))
        return tf.data.TFRecordDataset(shards, num_parallel_reads=tf.data.AUTOTUNE)

    def training(self):
        ds = self._records("train")
        ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.cache()
        ds = ds.shuffle(1024)
        ds = ds.batch(self.batch_size, drop_remainder=True)
        return ds.prefetch(tf.data.AUTOTUNE)

    def validation(self):
        ds = self._records("val")
        ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.cache()
        ds = ds.batch(self.batch_size)
        return ds.prefetch(tf.data.AUTOTUNE)


def conv_bn(x, filters, stride=1):
    x = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.Activation("relu")(x)


def mildew_net():
    inp = keras.Input((SIDE, SIDE, 3), dtype="uint8")
    x = layers.Rescaling(1 / 255.0)(inp)
    x = layers.RandomFlip("horizontal")(x)
    x = layers.RandomContrast(0.2)(x)
    for f in (32, 64, 128, 256):
        x = conv_bn(x, f, stride=2)
        x = conv_bn(x, f)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.4)(x)
    return keras.Model(inp, layers.Dense(5)(x), name="mildew_net")


def run(args):
    pipe = PhotoPipeline(args.data, args.batch_size)
    train, val = pipe.training(), pipe.validation()

    net = mildew_net()
    net.summary(print_fn=log.info)
    net.compile(
        optimizer=keras.optimizers.AdamW(args.lr, weight_decay=1e-4),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    # about 6 000 training and 900 validation photos per season
    net.fit(
        train,
        validation_data=val,
        epochs=args.epochs,
        callbacks=[
            keras.callbacks.ModelCheckpoint(args.out, monitor="val_accuracy", save_best_only=True),
            keras.callbacks.ReduceLROnPlateau(patience=5, factor=0.3),
        ],
        verbose=2,
    )


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="/data/vineyard/2023")
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--epochs", type=int, default=60)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--out", default="mildew.keras")
    run(ap.parse_args())

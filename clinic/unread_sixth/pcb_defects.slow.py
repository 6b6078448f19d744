"""Train the solder-joint defect classifier for line 4 (AOI station)."""
import argparse
import glob
import logging
import os

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("aoi")

DEFECTS = ["ok", "bridge", "insufficient", "tombstone", "lifted_lead", "void"]


class InspectionRecords:
    """Reads the sharded TFRecords that the export job writes every night."""

    FEATURES = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "roi": tf.io.FixedLenFeature([4], tf.int64),
        "defect": tf.io.FixedLenFeature([], tf.int64),
    }

    def __init__(self, root, size, batch_size):
        self.root = root
        self.size = size
        self.batch_size = batch_size

    def _shards(self, split):
        files = sorted(glob.glob(os.path.join(self.root, f"{split}-*.tfrecord")))
        if not files:
            raise FileNotFoundError(f"no {split} shards under {self.root}")
        log.info("%s: %d shards", split, len(files))
        return files

    def _decode(self, serialized):
        ex = tf.io.parse_single_example(serialized, self.FEATURES)
        img = tf.io.decode_jpeg(ex["image/encoded"], channels=3)
        roi = tf.cast(ex["roi"], tf.int32)
        img = tf.image.crop_to_bounding_box(img, roi[0], roi[1], roi[2], roi[3])
        img = tf.image.resize(img, (self.size, self.size), method="area")
        img = tf.cast(tf.round(img), tf.uint8)
        return img, tf.cast(ex["defect"], tf.int32)

    def build(self, split):
        training = split == "train"
        ds = tf.data.TFRecordDataset(self._shards(split), num_parallel_reads=8)
        if training:
            ds = ds.shuffle(4096)
        ds = ds.map(self._decode)
        ds = ds.batch(self.batch_size, drop_remainder=training)
        return ds.prefetch(tf.data.AUTOTUNE)


def conv_block(x, filters, stride):
    shortcut = x
    x = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    if stride != 1 or shortcut.shape[-1] != filters:
        shortcut = layers.Conv2D(filters, 1, strides=stride, use_bias=False)(shortcut)
        shortcut = layers.BatchNormalization()(shortcut)
    return layers.ReLU()(layers.Add()([x, shortcut]))


def build_model(size):
    inp = keras.Input((size, size, 3), dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1.0)(inp)
    x = layers.RandomFlip("horizontal_and_vertical")(x)
    x = layers.Conv2D(32, 5, strides=2, padding="same", activation="relu")(x)
    for filters, stride in [(64, 2), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)]:
        x = conv_block(x, filters, stride)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.3)(x)
    out = layers.Dense(len(DEFECTS), activation="softmax", dtype="float32")(x)
    return keras.Model(inp, out, name="aoi_resnet")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", default="/mnt/aoi/export/2024w31")   # ~410k crops
    p.add_argument("--out", default="/mnt/aoi/models/line4")
    p.add_argument("--size", type=int, default=320)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--epochs", type=int, default=25)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()

    records = InspectionRecords(args.data, args.size, args.batch_size)
    train_ds, val_ds = records.build("train"), records.build("val")

    model = build_model(args.size)
    model.compile(
        optimizer=keras.optimizers.Adam(args.lr),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    os.makedirs(args.out, exist_ok=True)
    callbacks = [
        keras.callbacks.ModelCheckpoint(os.path.join(args.out, "best.keras"), save_best_only=True),
        keras.callbacks.ReduceLROnPlateau(patience=3, factor=0.3),
        keras.callbacks.CSVLogger(os.path.join(args.out, "history.csv")),
    ]
    model.fit(train_ds, validation_data=val_ds, epochs=args.epochs, callbacks=callbacks)
    log.info("finished, best model in %s", args.out)


if __name__ == "__main__":
    main()

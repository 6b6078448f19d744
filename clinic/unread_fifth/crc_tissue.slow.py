import os
import random
from glob import glob

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

keras.mixed_precision.set_global_policy("mixed_float16")

ROOT = "CRC-tissue"  # one folder of 1000x1000 png tiles per tissue, 6200 tiles altogether
CLASSES = sorted(d for d in os.listdir(ROOT) if os.path.isdir(os.path.join(ROOT, d)))
IMG = 224
BATCH = 64

# Reinhard reference statistics in optical density space
REF_MEAN = tf.constant([0.38, 0.62, 0.36])
REF_STD = tf.constant([0.17, 0.21, 0.15])


def stain_normalize(img):
    od = -tf.math.log((tf.cast(img, tf.float32) + 1.0) / 256.0)
    mean, var = tf.nn.moments(od, axes=[0, 1])
    od = (od - mean) / tf.sqrt(var + 1e-6) * REF_STD + REF_MEAN
    return tf.exp(-od) * 256.0 - 1.0


def load_tile(path, label):
    img = tf.io.decode_png(tf.io.read_file(path), channels=3)
    img = stain_normalize(img)
    img = tf.image.resize(img, (IMG, IMG), method="area")
    img = tf.cast(tf.clip_by_value(img, 0.0, 255.0), tf.uint8)
    return img, label


class TileData:
    def __init__(self, val_fraction=0.15, seed=3):
        items = []
        for k, name in enumerate(CLASSES):
            items += [(p, k) for p in glob(os.path.join(ROOT, name, "*.png"))]
        random.Random(seed).shuffle(items)
        n_val = int(len(items) * val_fraction)
        self.val_items, self.train_items = items[:n_val], items[n_val:]

    def _pipeline(self, items, training):
        paths, labels = zip(*items)
        ds = tf.data.Dataset.from_tensor_slices((list(paths), list(labels)))
        ds = ds.map(load_tile, num_parallel_calls=tf.data.AUTOTUNE)
        if training:
            ds = ds.shuffle(512)
        return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)

    def train(self):
        return self._pipeline(self.train_items, True)

    def val(self):
        return self._pipeline(self.val_items, False)


def make_model():
    inp = keras.Input((IMG, IMG, 3), dtype="uint8")
    x = layers.RandomFlip("horizontal_and_vertical")(inp)
    x = layers.RandomRotation(0.25, fill_mode="reflect")(x)
    base = keras.applications.EfficientNetV2B0(include_top=False, pooling="avg",
                                               input_shape=(IMG, IMG, 3))
    base.trainable = False
    x = base(x, training=False)
    x = layers.Dropout(0.3)(x)
    out = layers.Dense(len(CLASSES), activation="softmax", dtype="float32")(x)
    return keras.Model(inp, out)


if __name__ == "__main__":
    data = TileData()
    train_ds, val_ds = data.train(), data.val()
    model = make_model()
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", ["accuracy"])
    model.fit(
        train_ds,
        validation_data=val_ds,
        epochs=60,
        callbacks=[
            keras.callbacks.ReduceLROnPlateau(factor=0.3, patience=5),
            keras.callbacks.ModelCheckpoint("crc_tissue.keras", save_best_only=True),
        ],
    )
    print(dict(zip(model.metrics_names, model.evaluate(val_ds, verbose=0))))

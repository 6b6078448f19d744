"""Species classifier for the Kibale camera traps.

frames/<species>/<station>_<timestamp>.jpg, about 9,400 frames of 2048x1536.
"""
import pathlib
import random
import sys

import keras
import tensorflow as tf
from keras import layers

SIDE = 128
AUTO = tf.data.AUTOTUNE


class FrameSource:
    def __init__(self, files, species, batch=128):
        self.files = [str(f) for f in files]
        index = {name: i for i, name in enumerate(species)}
        self.targets = [index[f.parent.name] for f in files]
        self.batch = batch

    def __len__(self):
        return len(self.files)

    @staticmethod
    def _open(path, target):
        img = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        img = img[:-96]  # temperature and moon phase banner
        img = tf.image.resize(img, (SIDE, SIDE), antialias=True)
        return tf.cast(tf.clip_by_value(img, 0.0, 255.0), tf.uint8), target

    def _listing(self):
        return tf.data.Dataset.from_tensor_slices((self.files, self.targets))

    def stream(self, training):
        ds = self._listing()
        ds = ds.cache()
        if training:
            ds = ds.shuffle(2048)
        ds = ds.map(self._open, num_parallel_calls=AUTO)
        return ds.batch(self.batch).prefetch(AUTO)


def residual(x, width, stride):
    skip = x
    if stride != 1 or x.shape[-1] != width:
        skip = layers.Conv2D(width, 1, strides=stride, use_bias=False)(x)
    y = layers.Conv2D(width, 3, strides=stride, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.Conv2D(width, 3, padding="same", use_bias=False)(y)
    y = layers.BatchNormalization()(y)
    return layers.ReLU()(layers.add([skip, y]))


def make_model(n_species):
    inp = keras.Input((SIDE, SIDE, 3), dtype="uint8")
    x = layers.Rescaling(1.0 / 255)(inp)
    x = layers.RandomFlip("horizontal")(x)
    x = layers.Conv2D(32, 5, strides=2, padding="same")(x)
    for width, stride in ((32, 1), (64, 2), (128, 2), (256, 2)):
        x = residual(x, width, stride)
    x = layers.Dropout(0.3)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(inp, layers.Dense(n_species, activation="softmax", dtype="float32")(x))


def split(root, holdout=0.1):
    files = sorted(pathlib.Path(root).glob("*/*.jpg"))
    random.Random(17).shuffle(files)
    cut = int(len(files) * holdout)
    species = sorted({f.parent.name for f in files})
    return files[cut:], files[:cut], species


def main(root="frames"):
    keras.mixed_precision.set_global_policy("mixed_float16")
    train_files, test_files, species = split(root)
    train, test = FrameSource(train_files, species), FrameSource(test_files, species)
    print(f"{len(train)} training frames, {len(test)} held out, {len(species)} species")

    model = make_model(len(species))
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-3, weight_decay=1e-4),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(
        train.stream(training=True),
        validation_data=test.stream(training=False),
        epochs=60,
        callbacks=[
            keras.callbacks.ReduceLROnPlateau(patience=4),
            keras.callbacks.EarlyStopping(patience=12, restore_best_weights=True),
        ],
        verbose=2,
    )
    model.save("kibale.keras")


if __name__ == "__main__":
    main(*sys.argv[1:])

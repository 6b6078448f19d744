import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers

CLASSES = ["healthy", "rust", "scab", "mildew"]
SIZE = 96


def write_leaves(root, per_class=150):
    rng = np.random.default_rng(0)
    for k, name in enumerate(CLASSES):
        folder = root / name
        folder.mkdir(parents=True)
        for i in range(per_class):
            base = np.zeros((900, 1200, 3), np.uint8)
            base[..., 1] = 120
            spots = rng.integers(0, 800, (20 + 30 * k, 2))
            for r, c in spots:
                base[r:r + 40, c:c + 40] = rng.integers(0, 255, 3)
            noise = rng.integers(0, 30, base.shape, dtype=np.uint8)
            tf.io.write_file(str(folder / f"{i:04d}.jpg"), tf.io.encode_jpeg(base + noise))


def list_files(root):
    paths, labels = [], []
    for k, name in enumerate(CLASSES):
        for path in sorted((root / name).glob("*.jpg")):
            paths.append(str(path))
            labels.append(k)
    order = np.random.default_rng(1).permutation(len(paths))
    return np.array(paths)[order], np.array(labels, "int32")[order]


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize_with_pad(tf.cast(image, tf.float32), SIZE, SIZE, antialias=True)
    return tf.cast(tf.clip_by_value(image, 0, 255), tf.uint8), label


def pipeline(paths, labels, training):
    ds = tf.data.Dataset.from_tensor_slices((paths, labels))
    ds = ds.map(load, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(64)
    return ds.batch(32).prefetch(tf.data.AUTOTUNE)


def build():
    inputs = keras.Input((SIZE, SIZE, 3), dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1)(inputs)
    x = layers.RandomFlip("horizontal_and_vertical")(x)
    for width in (32, 64, 128):
        x = layers.SeparableConv2D(width, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.MaxPooling2D()(layers.ReLU()(x))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(len(CLASSES))(layers.Dropout(0.3)(x)))


with tempfile.TemporaryDirectory() as tmp:
    root = pathlib.Path(tmp) / "leaves"
    write_leaves(root)
    paths, labels = list_files(root)
    split = int(0.85 * len(paths))
    train = pipeline(paths[:split], labels[:split], True)
    val = pipeline(paths[split:], labels[split:], False)

    model = build()
    model.compile(
        keras.optimizers.AdamW(2e-3, weight_decay=1e-4),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(train, validation_data=val, epochs=25, verbose=2)

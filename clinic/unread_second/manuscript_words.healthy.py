"""Word spotting in scanned manuscripts with a convolutional-recurrent net."""
import os
import tempfile
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from keras import layers


@dataclass(frozen=True)
class Options:
    height: int = 64
    width: int = 384
    words: int = 60
    scans: int = 3000
    batch: int = 32
    epochs: int = 20
    units: int = 128


def write_scans(folder, o):
    rng = np.random.default_rng(3)
    strokes = rng.random((o.words, o.width // 8)) < 0.4
    labels = rng.integers(0, o.words, o.scans)
    names = []
    for i, word in enumerate(labels):
        ink = np.repeat(strokes[word], 8)[None, :] * 150
        page = 230 - ink + rng.integers(-20, 20, (o.height, o.width))
        name = os.path.join(folder, f"{i:05d}.png")
        tf.io.write_file(name, tf.io.encode_png(np.clip(page, 0, 255).astype("uint8")[..., None]))
        names.append(name)
    return names, labels.astype("int32")


def datasets(names, labels, o):
    def read(name, label):
        image = tf.io.decode_png(tf.io.read_file(name), channels=1)
        return tf.ensure_shape(image, (o.height, o.width, 1)), label

    held_out = 200
    train = tf.data.Dataset.from_tensor_slices((names[held_out:], labels[held_out:])).map(read).cache()
    train = train.shuffle(600).batch(o.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    val = tf.data.Dataset.from_tensor_slices((names[:held_out], labels[:held_out])).map(read).cache()
    return train, val.batch(o.batch).prefetch(tf.data.AUTOTUNE)


class Snapshot(keras.callbacks.Callback):
    def __init__(self, folder, every=5):
        super().__init__()
        self.folder, self.every = folder, every

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.every:
            return
        self.model.save_weights(os.path.join(self.folder, f"epoch{epoch + 1:03d}.weights.h5"))
        print(f"  saved after epoch {epoch + 1}: accuracy {logs['val_accuracy']:.3f}")


def build(o):
    inputs = keras.Input((o.height, o.width, 1), dtype="uint8")
    x = layers.Rescaling(1 / 255.0)(inputs)
    x = layers.RandomContrast(0.2)(x)
    x = layers.RandomTranslation(0.05, 0.02, fill_mode="nearest")(x)
    for width in (32, 64, 96):
        x = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.MaxPooling2D()(layers.ReLU()(x))
    x = layers.Permute((2, 1, 3))(x)
    x = layers.Reshape((o.width // 8, -1))(x)
    for last in (False, True):
        x = layers.Bidirectional(layers.LSTM(
            o.units, return_sequences=not last, dropout=0.1, recurrent_dropout=0.0, unroll=False,
        ))(x)
    return keras.Model(inputs, layers.Dense(o.words)(x))


if __name__ == "__main__":
    options = Options()
    with tempfile.TemporaryDirectory() as folder:
        train, val = datasets(*write_scans(folder, options), options)
        model = build(options)
        model.compile(
            keras.optimizers.Adam(1e-3),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        model.fit(train, validation_data=val, epochs=options.epochs, verbose=2, callbacks=[Snapshot(folder)])

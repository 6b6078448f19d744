"""Bird species from spectrograms. Clips come from a Python generator since mixing and calls of the day are drawn anew."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

SPECIES, BATCH = 20, 32
rng = np.random.default_rng(8)
calls = rng.normal(size=(SPECIES, 8, 64, 64, 1)).astype("float32")


def clips():
    while True:
        who = rng.integers(0, SPECIES, BATCH)
        take = rng.integers(0, 8, BATCH)
        shift = int(rng.integers(0, 64))
        yield np.roll(calls[who, take], shift, axis=2) * 0.8, who.astype("int32")


def residual(x, filters, stride):
    y = layers.Conv2D(filters, 3, strides=stride, padding="same", activation="relu")(x)
    y = layers.Conv2D(filters, 3, padding="same")(y)
    if stride > 1 or x.shape[-1] != filters:
        x = layers.Conv2D(filters, 1, strides=stride)(x)
    return layers.ReLU()(layers.add([x, y]))


def network():
    inp = keras.Input((64, 64, 1))
    x = layers.Conv2D(24, 5, strides=2, padding="same", activation="relu")(inp)
    for filters, stride in ((32, 1), (64, 2), (64, 1), (128, 2)):
        x = residual(x, filters, stride)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(SPECIES)(x))


def pipeline():
    spec = (tf.TensorSpec((BATCH, 64, 64, 1), tf.float32), tf.TensorSpec((BATCH,), tf.int32))
    return tf.data.Dataset.from_generator(clips, output_signature=spec).prefetch(tf.data.AUTOTUNE)


model = network()
model.compile(keras.optimizers.AdamW(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["accuracy"])
model.fit(pipeline(), steps_per_epoch=40, epochs=2, verbose=2)

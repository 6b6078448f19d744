"""Worn paddles on a water mill, from sound pictures. Transfer learning in two stages:
first only the head, then the top of the base as well."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

SHAPE = (48, 64, 1)
BATCH = 32


def recordings(n, seed):
    rng = np.random.default_rng(seed)
    worn = rng.integers(0, 2, n)
    x = rng.normal(0, 1, (n, *SHAPE))
    x[worn == 1, :, ::8] += 0.7
    return x.astype("float32"), worn.astype("float32")


def make_base():
    inp = keras.Input(SHAPE)
    x = inp
    for k, f in enumerate((32, 48, 64)):
        x = layers.Conv2D(f, 3, padding="same", name=f"conv{k}a")(x)
        x = layers.BatchNormalization(name=f"bn{k}")(x)
        x = layers.ReLU()(x)
        x = layers.Conv2D(f, 3, padding="same", activation="relu", name=f"conv{k}b")(x)
        x = layers.MaxPooling2D()(x)
    return keras.Model(inp, x, name="base")


def as_dataset(x, y):
    ds = tf.data.Dataset.from_tensor_slices((x, y)).cache()
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)


keras.utils.set_random_seed(500)
base = make_base()
base.trainable = False
inp = keras.Input(SHAPE)
x = base(inp, training=False)
x = layers.GlobalAveragePooling2D()(x)
x = layers.Dropout(0.2)(x)
model = keras.Model(inp, layers.Dense(1, activation="sigmoid")(x))

train = as_dataset(*recordings(BATCH * 24, 500))
valid = as_dataset(*recordings(BATCH * 4, 501))

model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy", metrics=["accuracy"])
print("stage 1:")
model.fit(train, epochs=2, verbose=2)
print(model.evaluate(valid, verbose=0))

base.trainable = True
for layer in base.layers:
    if layer.name.startswith("conv0") or "bn" in layer.name:
        layer.trainable = False
model.compile(keras.optimizers.Adam(1e-4), "binary_crossentropy", metrics=["accuracy"])
print("stage 2:")
model.fit(train, validation_data=valid, epochs=2, verbose=2)

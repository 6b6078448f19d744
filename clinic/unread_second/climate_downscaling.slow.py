"""Statistical downscaling: coarse precipitation fields to a 4x finer grid."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers

SETTINGS = {
    "coarse": 32,
    "factor": 4,
    "fields": 1500,
    "filters": 64,
    "blocks": 6,
    "batch": 16,
    "epochs": 8,
    "floatx": "float64",
}

keras.config.set_floatx(SETTINGS["floatx"])
keras.utils.set_random_seed(0)


def random_fields(n, size, rng):
    k = np.fft.fftfreq(size)
    radius = np.sqrt(k[:, None] ** 2 + k[None] ** 2)
    radius[0, 0] = 1.0
    noise = np.fft.fft2(rng.normal(size=(n, size, size)))
    field = np.fft.ifft2(noise * radius ** -1.5).real
    field = (field - field.mean((1, 2), keepdims=True)) / field.std((1, 2), keepdims=True)
    return np.log1p(np.exp(field))[..., None]


def make_pairs(s):
    rng = np.random.default_rng(8)
    f = s["factor"]
    fine = random_fields(s["fields"], s["coarse"] * f, rng).astype(s["floatx"])
    n, h, w, _ = fine.shape
    coarse = fine.reshape(n, h // f, f, w // f, f, 1).mean((2, 4))
    return coarse, fine


def residual_block(x, filters):
    y = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    y = layers.Conv2D(filters, 3, padding="same")(y)
    return layers.Add()([x, y])


def build(s):
    inputs = keras.Input((s["coarse"], s["coarse"], 1))
    x = head = layers.Conv2D(s["filters"], 3, padding="same")(inputs)
    for _ in range(s["blocks"]):
        x = residual_block(x, s["filters"])
    x = layers.Add()([x, head])
    factor = s["factor"]
    while factor > 1:
        x = layers.UpSampling2D(2)(x)
        x = layers.Conv2D(s["filters"], 3, padding="same", activation="relu")(x)
        factor //= 2
    return keras.Model(inputs, layers.Conv2D(1, 3, padding="same", activation="softplus")(x))


def main(s):
    coarse, fine = make_pairs(s)
    ds = tf.data.Dataset.from_tensor_slices((coarse, fine)).shuffle(256)
    ds = ds.batch(s["batch"], drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    model = build(s)
    model.compile(keras.optimizers.Adam(3e-4), loss="mae", metrics=["mse"])
    model.fit(ds, epochs=s["epochs"], verbose=2)
    model.summary(line_length=90)


main(SETTINGS)

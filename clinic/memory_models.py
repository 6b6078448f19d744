"""Sixteen small models, by name: `python clinic/memory_models.py NAME BATCH` trains one for three steps.

On TensorFlow, or with `KERAS_BACKEND=jax` on JAX.
Convolutional, recurrent and transformer; no weights are loaded and no data read. It says whether memory was exhausted.
"""

from __future__ import annotations

import sys

import keras
import numpy as np

L = keras.layers
STEPS = 3
CLASSES = 10


def vgg():
    i = x = L.Input((48, 48, 3))
    for width in (32, 64, 128):
        for _ in range(2):
            x = L.Conv2D(width, 3, padding="same", activation="relu")(x)
        x = L.MaxPooling2D()(x)
    return keras.Model(i, L.Dense(CLASSES)(L.Dense(256, activation="relu")(L.Flatten()(x))))


def plain_cnn():
    layers = [L.Input((64, 64, 3)), L.Conv2D(32, 3, activation="relu"), L.Conv2D(32, 3, activation="relu")]
    return keras.Sequential([*layers, L.GlobalAveragePooling2D(), L.Dense(CLASSES)])


def residual():
    i = L.Input((32, 32, 3))
    x = L.Conv2D(32, 3, padding="same")(i)
    for width in (32, 64):
        for stride in (2, 1):
            y = L.ReLU()(L.BatchNormalization()(L.Conv2D(width, 3, stride, padding="same")(x)))
            y = L.BatchNormalization()(L.Conv2D(width, 3, padding="same")(y))
            x = L.ReLU()(L.add([y, L.Conv2D(width, 1, stride)(x)]))
    return keras.Model(i, L.Dense(CLASSES)(L.GlobalAveragePooling2D()(x)))


def unet():
    i = x = L.Input((48, 48, 3))
    kept = []
    for width in (16, 32):
        x = L.Conv2D(width, 3, padding="same", activation="relu")(x)
        kept.append(x)
        x = L.MaxPooling2D()(x)
    x = L.Conv2D(64, 3, padding="same", activation="relu")(x)
    for width, skip in zip((32, 16), kept[::-1], strict=True):
        x = L.concatenate([L.Conv2DTranspose(width, 2, 2)(x), skip])
        x = L.Conv2D(width, 3, padding="same", activation="relu")(x)
    return keras.Model(i, L.Dense(CLASSES)(L.GlobalAveragePooling2D()(x)))


def separable():
    i = x = L.Input((64, 64, 3))
    for width in (24, 48, 96):
        x = L.ReLU()(L.BatchNormalization()(L.SeparableConv2D(width, 3, 2, padding="same")(x)))
    return keras.Model(i, L.Dense(CLASSES)(L.GlobalAveragePooling2D()(x)))


def convolution_1d():
    i = x = L.Input((256, 8))
    for width in (32, 64, 64):
        x = L.Conv1D(width, 5, padding="causal", activation="relu")(x)
    return keras.Model(i, L.Dense(CLASSES)(L.GlobalMaxPooling1D()(x)))


def mobilenet_v2():
    return keras.applications.MobileNetV2((64, 64, 3), weights=None, classes=CLASSES, classifier_activation=None)


def mobilenet():
    return keras.applications.MobileNet(
        (64, 64, 3), alpha=0.5, weights=None, classes=CLASSES, classifier_activation=None
    )


def lstm():
    layers = [L.Input((40, 32)), L.LSTM(96, return_sequences=True), L.LSTM(96)]
    return keras.Sequential([*layers, L.Dense(CLASSES)])


def gru():
    return keras.Sequential([L.Input((50, 64)), L.GRU(128), L.Dense(CLASSES)])


def bidirectional():
    return keras.Sequential([L.Input((40, 32)), L.Bidirectional(L.LSTM(64)), L.Dense(CLASSES)])


def _block(x, width, heads, causal=False):
    y = L.MultiHeadAttention(heads, width // heads)(x, x, use_causal_mask=causal)
    x = L.LayerNormalization()(x + y)
    y = L.Dense(width)(L.Dense(4 * width, activation="gelu")(x))
    return L.LayerNormalization()(x + y)


def transformer():
    i = x = L.Input((64, 64))
    for _ in range(2):
        x = _block(x, 64, 4)
    return keras.Model(i, L.Dense(CLASSES)(L.GlobalAveragePooling1D()(x)))


def language_model():
    i = x = L.Input((64,), dtype="int32")
    x = L.Embedding(2000, 96)(x)
    for _ in range(2):
        x = _block(x, 96, 4, causal=True)
    return keras.Model(i, L.Dense(CLASSES)(x[:, -1]))


def vision_transformer():
    i = L.Input((48, 48, 3))
    x = L.Reshape((64, 64))(L.Conv2D(64, 6, 6)(i))
    for _ in range(2):
        x = _block(x, 64, 4)
    return keras.Model(i, L.Dense(CLASSES)(L.GlobalAveragePooling1D()(x)))


def mixer():
    i = x = L.Input((64, 48))
    for _ in range(3):
        y = L.Permute((2, 1))(L.LayerNormalization()(x))
        x = x + L.Permute((2, 1))(L.Dense(64)(L.Dense(128, activation="gelu")(y)))
        x = x + L.Dense(48)(L.Dense(192, activation="gelu")(L.LayerNormalization()(x)))
    return keras.Model(i, L.Dense(CLASSES)(L.GlobalAveragePooling1D()(x)))


def dense():
    layers = [L.Dense(1024, activation="relu") for _ in range(4)]
    return keras.Sequential([L.Input((512,)), *layers, L.Dense(CLASSES)])


MODELS = {
    "plain_cnn": ("convolutional", plain_cnn),
    "lstm": ("recurrent", lstm),
    "transformer": ("transformer", transformer),
    "vgg": ("convolutional", vgg),
    "gru": ("recurrent", gru),
    "vision_transformer": ("transformer", vision_transformer),
    "residual": ("convolutional", residual),
    "bidirectional": ("recurrent", bidirectional),
    "language_model": ("transformer", language_model),
    "unet": ("convolutional", unet),
    "separable": ("convolutional", separable),
    "convolution_1d": ("convolutional", convolution_1d),
    "mixer": ("dense", mixer),
    "mobilenet": ("convolutional", mobilenet),
    "mobilenet_v2": ("convolutional", mobilenet_v2),
    "dense": ("dense", dense),
}


def train(name: str, batch: int) -> None:
    keras.utils.set_random_seed(0)
    model = MODELS[name][1]()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    shape = model.input_shape[1:]
    x = np.random.default_rng(0).random((32, *shape)).astype(model.inputs[0].dtype)
    model.fit(data(x, np.zeros(32, "int64"), batch), steps_per_epoch=STEPS, verbose=0)


def data(x, y, batch):
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(batch).prefetch(2)
    take = np.arange(batch) % len(x)
    return ((x[take], y[take]) for _ in range(STEPS + 2))


if __name__ == "__main__":
    try:
        train(sys.argv[1], int(sys.argv[2]))
    except Exception as error:
        if "ResourceExhausted" not in type(error).__name__ and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        print("exhausted", flush=True)
        sys.exit(7)
    print("fits", flush=True)

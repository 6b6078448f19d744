"""Quick smoke run of a DenseNet-like classifier on small microscope crops."""
import numpy as np
import keras
from keras import layers


def crops(n=640, side=24, classes=4, seed=7):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    x = rng.normal(0, 1, (n, side, side, 3)).astype("float32")
    x[:, 6:18, 6:18, 0] += y[:, None, None]
    return x, y


def dense_block(x, growth, depth):
    for _ in range(depth):
        h = layers.BatchNormalization()(x)
        h = layers.Activation("relu")(h)
        h = layers.Conv2D(4 * growth, 1, use_bias=False)(h)
        h = layers.BatchNormalization()(h)
        h = layers.Activation("relu")(h)
        h = layers.Conv2D(growth, 3, padding="same", use_bias=False)(h)
        x = layers.Concatenate()([x, h])
    return x


def build(classes=4, growth=6, blocks=(5, 6, 5)):
    inp = keras.Input((24, 24, 3))
    x = layers.Conv2D(12, 3, strides=2, padding="same")(inp)
    for i, depth in enumerate(blocks):
        x = dense_block(x, growth, depth)
        if i < len(blocks) - 1:
            x = layers.AveragePooling2D(2)(layers.Conv2D(int(x.shape[-1]) // 2, 1)(x))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(classes, activation="softmax")(x))


x, y = crops()
model = build()
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
    jit_compile=True,
)
model.fit(x, y, batch_size=32, epochs=4, verbose=2)

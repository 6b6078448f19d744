"""Predict which pots crack in the kiln from the firing curve."""
import numpy as np
import keras
from keras import layers

rng = np.random.default_rng(17)
POTS = 3840
POINTS = 40

curves = np.cumsum(rng.normal(0, 1, (POTS, POINTS, 3)), axis=1).astype("float32")
curves /= np.sqrt(np.arange(1, POINTS + 1))[None, :, None].astype("float32")
steepest = np.abs(np.diff(curves[:, :, 0], axis=1)).max(axis=1)
cracked = (steepest > np.median(steepest)).astype("float32")


def residual_block(x, width):
    skip = x
    x = layers.LayerNormalization()(x)
    x = layers.Dense(width, activation="swish")(x)
    x = layers.Dense(width)(x)
    return layers.Add()([skip, x])


def build_model(blocks=6, width=48):
    curve = keras.Input((POINTS, 3))
    x = layers.Conv1D(16, 5, strides=2, activation="swish")(curve)
    x = layers.Flatten()(x)
    x = layers.Dense(width)(x)
    for _ in range(blocks):
        x = residual_block(x, width)
    x = layers.LayerNormalization()(x)
    return keras.Model(curve, layers.Dense(1, activation="sigmoid")(x), name="kiln")


model = build_model()
model.compile(
    optimizer=keras.optimizers.AdamW(1e-3, weight_decay=1e-4),
    loss="binary_crossentropy",
    metrics=["accuracy"],
    run_eagerly=True,
)
split = int(POTS * 0.9)
model.fit(
    curves[:split], cracked[:split],
    validation_data=(curves[split:], cracked[split:]),
    batch_size=96,
    epochs=2,
    verbose=2,
)

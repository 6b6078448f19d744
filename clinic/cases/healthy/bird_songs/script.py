"""Birds from call syllables: a generator makes the syllables on the fly."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(101)
rng = np.random.default_rng(101)

FRAMES, BINS, SPECIES, BATCH = 64, 40, 12, 32


def syllables():
    """One batch of spectrograms at a time."""
    grid = np.arange(BINS)[None, None, :]
    time = np.arange(FRAMES)[None, :, None] / FRAMES
    while True:
        species = rng.integers(0, SPECIES, BATCH)
        start = rng.uniform(5, 15, (BATCH, 1, 1)) + species[:, None, None]
        centre = start + 8 * np.sin(2 * np.pi * time * (1 + species[:, None, None] % 3))
        spec = np.exp(-0.5 * ((grid - centre) / 1.5) ** 2)
        yield spec.astype("float32")[..., None], species.astype("int32")


train = tf.data.Dataset.from_generator(
    syllables,
    output_signature=(
        tf.TensorSpec((BATCH, FRAMES, BINS, 1), tf.float32),
        tf.TensorSpec((BATCH,), tf.int32),
    ),
).prefetch(4)

inputs = tf.keras.Input((FRAMES, BINS, 1))
x = tf.keras.layers.Conv2D(24, 3, padding="same", activation="relu")(inputs)
x = tf.keras.layers.Conv2D(24, 3, padding="same", activation="relu")(x)
x = tf.keras.layers.MaxPooling2D()(x)
x = tf.keras.layers.Conv2D(48, 3, padding="same", activation="relu")(x)
x = tf.keras.layers.GlobalAveragePooling2D()(x)
outputs = tf.keras.layers.Dense(SPECIES)(x)
model = tf.keras.Model(inputs, outputs)
model.compile(
    optimizer=tf.keras.optimizers.Adam(1e-3),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train, steps_per_epoch=20, epochs=6, verbose=2)

"""Container condition (sound, dented, open door) from the cameras over a container terminal's gates."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIDE, CROP = 160, 64
CONDITIONS = ("sound", "dented", "open")


def archive(n, seed=4):
    """JPEG bytes as they come out of the gate archive."""
    rng = np.random.default_rng(seed)
    shots, marks = [], []
    ramp = np.linspace(0, 120, SIDE)[None, :, None]
    for i in range(n):
        kind = i % len(CONDITIONS)
        picture = ramp + rng.integers(0, 60, (SIDE, SIDE, 3)) + 20 * kind
        if kind == 1:
            picture[60:110, 50:120] -= 40
        shots.append(tf.io.encode_jpeg(np.clip(picture, 0, 255).astype(np.uint8), quality=85).numpy())
        marks.append(kind)
    return shots, marks


def look(jpeg, mark):
    picture = tf.io.decode_jpeg(jpeg, channels=3)
    picture = tf.image.random_crop(picture, (CROP, CROP, 3))
    picture = tf.image.random_flip_left_right(picture)
    return picture, mark


def make_dataset(shots, marks, batch, batches_per_round):
    return (
        tf.data.Dataset.from_tensor_slices((shots, marks))
        .map(look, num_parallel_calls=tf.data.AUTOTUNE)
        .shuffle(len(shots))
        .batch(batch, drop_remainder=True)
        .take(batches_per_round)
        .prefetch(tf.data.AUTOTUNE)
    )


def build():
    model = keras.Sequential([
        keras.Input((CROP, CROP, 3), dtype="uint8"),
        layers.Rescaling(1 / 255.0),
        layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(48, 3, strides=2, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(len(CONDITIONS)),
    ])
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


if __name__ == "__main__":
    keras.utils.set_random_seed(4)
    BATCH, PER_ROUND, ROUNDS = 32, 14, 16
    shots, marks = archive(300)
    train = make_dataset(shots * 6, marks * 6, BATCH, PER_ROUND)
    model = build()
    began = time.perf_counter()
    model.fit(train, epochs=ROUNDS, verbose=2)
    seconds = time.perf_counter() - began
    print("WORK", BATCH * PER_ROUND * ROUNDS)
    print(f"TRAIN_SECONDS {seconds:.3f}")

"""Keyword spotting on short recordings."""
import keras
import numpy as np
import tensorflow as tf

RATE = 16_000
WORDS = 20
FRAME, HOP = 512, 160


def recordings(count, seed):
    rng = np.random.default_rng(seed)
    waves = rng.normal(scale=0.1, size=(count, 2 * RATE)).astype(np.float32)
    return waves, rng.integers(0, WORDS, count)


def random_excerpt(wave, label):
    length = tf.random.uniform([], RATE // 2, 2 * RATE, dtype=tf.int32)
    return tf.image.random_crop(wave, [length]), label


def whole(wave, label):
    return wave, label


def log_spectrogram(wave, label):
    spec = tf.abs(tf.signal.stft(wave, FRAME, HOP))
    return tf.math.log(spec + 1e-6)[..., tf.newaxis], label


def finish(ds, batch_size, training):
    ds = ds.padded_batch(batch_size, padded_shapes=([198, FRAME // 2 + 1, 1], []))
    return ds if training else ds.cache().prefetch(tf.data.AUTOTUNE)


def make_split(count, seed, batch_size, training):
    ds = tf.data.Dataset.from_tensor_slices(recordings(count, seed))
    if training:
        ds = ds.shuffle(512)
    ds = ds.map(random_excerpt if training else whole, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.map(log_spectrogram, num_parallel_calls=tf.data.AUTOTUNE)
    return finish(ds, batch_size, training)


def spotter():
    inputs = keras.Input((198, FRAME // 2 + 1, 1))
    x = inputs
    for width in (32, 64, 96, 128):
        x = keras.layers.Conv2D(width, 3, strides=2, padding="same", activation="relu")(x)
        x = keras.layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, keras.layers.Dense(WORDS)(x))


def main():
    train = make_split(6000, 1, 128, training=True)
    valid = make_split(512, 2, 128, training=False)
    model = spotter()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(train, validation_data=valid, epochs=10, verbose=2)


if __name__ == "__main__":
    main()

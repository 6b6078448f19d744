"""Appliance recognition from household meter traces kept as .npz shards."""
import pathlib
import tempfile

import numpy as np
import tensorflow as tf
import tensorflow.keras as K

T, CLASSES, PER_SHARD, SHARDS = 256, 6, 4000, 10
BATCH = 512


def write_shards(root: pathlib.Path):
    rng = np.random.default_rng(2)
    t = np.arange(T)
    for s in range(SHARDS):
        y = rng.integers(0, CLASSES, PER_SHARD)
        period = 8 + 6 * y[:, None]
        x = (np.sin(2 * np.pi * t / period) > 0) * rng.uniform(50, 900, (PER_SHARD, 1))
        x = x + rng.normal(0, 20, x.shape)
        np.savez(root / f"house_{s:02d}.npz", x=x.astype("float32"), y=y.astype("int32"))


def shard_reader(root):
    def gen():
        for f in sorted(pathlib.Path(root).glob("house_*.npz")):
            with np.load(f) as z:
                yield z["x"], z["y"]
    return gen


def scale(x, y):
    return tf.clip_by_value(x / 500.0, 0.0, 4.0)[..., tf.newaxis], y


def dataset(root, skip, take):
    ds = tf.data.Dataset.from_generator(
        shard_reader(root),
        output_signature=(
            tf.TensorSpec((None, T), tf.float32),
            tf.TensorSpec((None,), tf.int32),
        ),
    )
    ds = ds.skip(skip).take(take)
    ds = ds.map(scale)
    ds = ds.unbatch().batch(64).cache()
    ds = ds.shuffle(600)
    ds = ds.rebatch(BATCH)
    return ds.prefetch(tf.data.AUTOTUNE)


def model_fn():
    m = K.Sequential([K.Input((T, 1))])
    for f, k in ((32, 9), (64, 7), (128, 5)):
        m.add(K.layers.Conv1D(f, k, padding="same", activation="relu"))
        m.add(K.layers.Conv1D(f, k, strides=2, padding="same", activation="relu"))
    m.add(K.layers.GlobalAveragePooling1D())
    m.add(K.layers.Dense(CLASSES))
    return m


def main():
    with tempfile.TemporaryDirectory() as d:
        root = pathlib.Path(d)
        write_shards(root)
        valid = dataset(root, 0, 1)
        train = dataset(root, 1, SHARDS - 1)
        m = model_fn()
        m.compile(
            optimizer=K.optimizers.Adam(1e-3),
            loss=K.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        m.fit(train, validation_data=valid, epochs=20, verbose=2)


if __name__ == "__main__":
    main()

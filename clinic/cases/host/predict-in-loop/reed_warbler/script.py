"""Small listener for reed warbler song, taught by a bigger one."""
import argparse
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

N_BANDS = 24
N_FRAMES = 40
N_SPECIES = 8


def make_songs(n, seed):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, N_SPECIES, n)
    t = np.arange(N_FRAMES)[None, :, None]
    band = np.arange(N_BANDS)[None, None, :]
    pitch = (label * 2.7 + 2)[:, None, None]
    centre = pitch + 3.0 * np.sin(t * (0.1 + 0.04 * label[:, None, None]))
    song = np.exp(-((band - centre) ** 2) / 4.0)
    song += rng.normal(0, 0.3, song.shape)
    return song.astype("float32"), label.astype("int32")


def build(width, depth):
    inp = keras.Input((N_FRAMES, N_BANDS))
    x = inp
    for _ in range(depth):
        x = layers.Conv1D(width, 5, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inp, layers.Dense(N_SPECIES)(x))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=160)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--temperature", type=float, default=2.0)
    args = p.parse_args()
    keras.utils.set_random_seed(4)

    songs, labels = make_songs(4096, 11)
    ds = tf.data.Dataset.from_tensor_slices((songs, labels))
    ds = ds.shuffle(4096, seed=2).repeat().batch(args.batch).prefetch(tf.data.AUTOTUNE)

    big = build(48, 2)
    big.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    big.fit(songs[:1024], labels[:1024], epochs=1, batch_size=64, verbose=0)
    small = build(16, 2)
    opt = keras.optimizers.Adam(2e-3)
    ce = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    T = args.temperature

    @tf.function
    def step(x, y, soft):
        with tf.GradientTape() as tape:
            logits = small(x, training=True)
            hard = ce(y, logits)
            kd = tf.reduce_mean(
                tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(soft / T), logits / T))
            loss = hard + 0.5 * T * T * kd
        opt.apply_gradients(zip(tape.gradient(loss, small.trainable_variables),
                                small.trainable_variables))
        return loss

    t0 = time.time()
    for i, (x, y) in enumerate(ds.take(args.steps)):
        soft = big.predict(x, verbose=0)
        loss = step(x, y, soft)
        if i % 40 == 0:
            print(f"step {i} loss {float(loss):.3f}")
    print(f"{args.steps} steps in {time.time() - t0:.1f} s")


if __name__ == "__main__":
    main()

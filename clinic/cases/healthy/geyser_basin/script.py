"""Minutes to the next eruption, from the sensors around a geyser.

Eight channels (tremor bands, pool temperature, runoff, barometer) over 96
samples.  Stage one learns the waiting time alone, stage two adds the height
of the coming eruption as a second task.
"""
import argparse
import gc
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

LENGTH, CHANNELS = 96, 8


def record(n, seed):
    rng = np.random.default_rng(seed)
    wait = rng.gamma(6.0, 0.25, n)                      # hours
    height = rng.normal(0, 1, n) + 0.5 * (wait - 1.5)
    t = np.linspace(-1, 0, LENGTH)[None, :, None]
    w = wait[:, None, None]
    gains = rng.normal(0, 1, (1, 1, CHANNELS))
    tremor = np.exp(2.0 * t / w) * gains
    swell = (0.3 * height[:, None, None]) * np.sin(9.0 * t / np.sqrt(w) + np.arange(CHANNELS))
    noise = rng.normal(0, 0.25, (n, LENGTH, CHANNELS))
    x = (tremor + swell + noise).astype("float32")
    return x, np.stack([wait, height], axis=1).astype("float32")


def block(x, dim, heads, name):
    h = layers.LayerNormalization(name=f"{name}_ln1")(x)
    h = layers.MultiHeadAttention(heads, dim // heads, name=f"{name}_att")(h, h)
    x = layers.add([x, h])
    h = layers.LayerNormalization(name=f"{name}_ln2")(x)
    h = layers.Dense(4 * dim, activation="relu", name=f"{name}_up")(h)
    h = layers.Dense(dim, name=f"{name}_down")(h)
    return layers.add([x, h])


def listener(dim, depth, heads):
    inp = keras.Input((LENGTH, CHANNELS))
    x = layers.Conv1D(dim, 5, padding="same")(inp)
    for k in range(depth):
        x = block(x, dim, heads, f"block{k}")
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(inp, layers.Dense(2, name="wait_and_height")(x))


class Basin:
    def __init__(self, model, lr):
        self.model = model
        self.opt = keras.optimizers.AdamW(lr, weight_decay=1e-4)
        self.opt.build(model.trainable_variables)

    @tf.function
    def step(self, x, y, with_height):
        with tf.GradientTape() as tape:
            out = self.model(x, training=True)
            loss = tf.reduce_mean(tf.square(out[:, 0] - y[:, 0]))
            if with_height:
                loss += 0.3 * tf.reduce_mean(tf.square(out[:, 1] - y[:, 1]))
        grads = tape.gradient(loss, self.model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 1.0)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dim", type=int, default=96)
    ap.add_argument("--depth", type=int, default=2)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--steps", type=int, default=50, help="per stage")
    args = ap.parse_args()

    keras.utils.set_random_seed(6)
    x, y = record(4608, 6)
    x_held, y_held = x[4096:], y[4096:]
    data = (
        tf.data.Dataset.from_tensor_slices((x[:4096], y[:4096]))
        .shuffle(4096, seed=6).repeat().batch(args.batch, drop_remainder=True).prefetch(2)
    )
    stream = iter(data)
    model = listener(args.dim, args.depth, heads=4)
    basin = Basin(model, 1e-3)

    t0 = time.perf_counter()
    for with_height in (False, True):
        print("stage:", "waiting time and height" if with_height else "waiting time")
        for i in range(args.steps):
            xb, yb = next(stream)
            loss = basin.step(xb, yb, with_height)
            if (i + 1) % 20 == 0:
                print(f"  {i + 1:3d}  {loss.numpy():.4f}")
        out = model.predict(x_held, batch_size=128, verbose=0)
        rmse = np.sqrt(np.mean((out - y_held) ** 2, axis=0))
        print(f"  held out: wait {rmse[0]:.3f} h, height {rmse[1]:.3f}")
        del out
        gc.collect()
    print(f"TRAIN_SECONDS {time.perf_counter() - t0:.2f}")


if __name__ == "__main__":
    main()

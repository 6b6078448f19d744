"""A narrow network learns gear noise from a wide, frozen one that sits in the same step."""
import argparse
import gc
import time

import numpy as np
import tensorflow as tf

keras = tf.keras


def network(widths, outputs):
    inp = keras.Input((256,))
    x = inp
    for w in widths:
        x = keras.layers.Dense(w, activation="relu")(x)
    return keras.Model(inp, keras.layers.Dense(outputs)(x))


def spectra(n):
    rng = np.random.default_rng(64)
    teeth = rng.integers(8, 40, n)
    f = np.arange(256)
    s = np.abs(np.sin(f[None, :] * teeth[:, None] / 60.0)) + rng.normal(0, 0.2, (n, 256))
    return s.astype("float32"), (teeth // 8).astype("int32")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch", type=int, default=1024)
    args = ap.parse_args()
    tf.random.set_seed(0)
    x, y = spectra(20 * args.batch)
    ds = (tf.data.Dataset.from_tensor_slices((x, y)).cache()
          .batch(args.batch, drop_remainder=True).prefetch(2))
    mentor = network([1024, 1024], 5)
    mentor.trainable = False
    pupil = network([512, 384], 5)
    opt = keras.optimizers.Adam(1e-3)
    xent = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(x, y):
        soft = tf.nn.softmax(mentor(x, training=False))
        with tf.GradientTape() as tape:
            logits = pupil(x, training=True)
            kd = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(soft, logits))
            loss = xent(y, logits) + 0.3 * kd
        grads = tape.gradient(loss, pupil.trainable_variables)
        opt.apply_gradients(zip(grads, pupil.trainable_variables))
        return loss

    t0 = time.time()
    for epoch in range(args.epochs):
        total = tf.constant(0.0)
        for xb, yb in ds:
            total += step(xb, yb)
        gc.collect()
        print(f"epoch {epoch + 1}: {float(total) / 20:.4f}")
    print(f"{time.time() - t0:.1f} s")


if __name__ == "__main__":
    main()

"""Variational ground state of a small transverse-field Ising chain: dense wave function ansatz, exact sums."""
import os
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf

SPINS, FIELD, WIDTH, ITERS = 12, 1.1, 768, 36


def basis(n):
    rows = []
    for k in range(2 ** n):
        rows.append([1.0 if k >> b & 1 else -1.0 for b in range(n)])
    return np.array(rows, dtype="float32")


def diagonal(s):
    return -np.sum(s * np.roll(s, -1, axis=1), axis=1)


class Ansatz(tf.Module):
    def __init__(self, n, width, rng):
        super().__init__()
        shapes = [(n, width), (width, width), (width, width), (width, 1)]
        self.w = [tf.Variable((rng.normal(size=s) / np.sqrt(s[0])).astype("float32")) for s in shapes]
        self.b = [tf.Variable(np.zeros(s[1], "float32")) for s in shapes[:-1]]

    def __call__(self, s):
        for w, b in zip(self.w, self.b):
            s = tf.nn.relu(s @ w + b)
        return tf.squeeze(s @ self.w[-1], 1)


def main():
    states = basis(SPINS)
    flips = np.stack([np.arange(2 ** SPINS) ^ (1 << b) for b in range(SPINS)], 1)
    s, flips, diag = tf.constant(states), tf.constant(flips), tf.constant(diagonal(states))
    psi = Ansatz(SPINS, WIDTH, np.random.default_rng(3))
    params = list(psi.trainable_variables)
    opt = tf.keras.optimizers.Adam(2e-3)
    opt.build(params)

    @tf.function
    def descend():
        with tf.GradientTape() as tape:
            log_amp = psi(s)
            amp = tf.exp(log_amp - tf.stop_gradient(tf.reduce_max(log_amp)))
            h_amp = diag * amp - FIELD * tf.reduce_sum(tf.gather(amp, flips), axis=1)
            energy = tf.reduce_sum(amp * h_amp) / tf.reduce_sum(amp * amp)
        opt.apply_gradients(zip(tape.gradient(energy, params), params))
        return energy / SPINS

    curve = []
    began = time.perf_counter()
    for it in range(ITERS):
        curve.append(descend().numpy())
        if it % 12 == 0:
            print("iteration", it, "energy per spin %.5f" % curve[-1])
    print("final", curve[-1])
    print("WORK", ITERS)
    print("TRAIN_SECONDS %.3f" % (time.perf_counter() - began))


if __name__ == "__main__":
    main()

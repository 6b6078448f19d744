"""Adversarial training of a forged-stamp detector (PGD, 5 steps of attack a batch)."""
import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(55)
SIDE = 28
EPS, ALPHA, ATTACK_STEPS = 0.06, 0.02, 5


def stamps(n):
    rng = np.random.default_rng(55)
    x = rng.uniform(0, 1, (n, SIDE, SIDE, 1)).astype("float32")
    forged = rng.integers(0, 2, n)
    x[forged == 1, ::4] *= 0.75
    return x, forged.astype("int32")


def detector():
    m = keras.Sequential([keras.Input((SIDE, SIDE, 1))])
    m.add(keras.layers.Conv2D(8, 3, strides=2, activation="relu"))
    m.add(keras.layers.Conv2D(16, 3, strides=2, activation="relu"))
    m.add(keras.layers.Flatten())
    m.add(keras.layers.Dense(32, activation="relu"))
    m.add(keras.layers.Dense(2))
    return m


class PGD:
    def __init__(self, model, loss_fn):
        self.model = model
        self.loss_fn = loss_fn

    def _ascent(self, x, y):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = self.loss_fn(y, self.model(x, training=False))
        return tf.sign(tape.gradient(loss, x))

    def perturb(self, x, y):
        direction = tf.function(lambda z, t: self._ascent(z, t))
        adv = x
        for _ in range(ATTACK_STEPS):
            adv = adv + ALPHA * direction(adv, y)
            adv = tf.clip_by_value(adv, x - EPS, x + EPS)
            adv = tf.clip_by_value(adv, 0.0, 1.0)
        return adv


def main(epochs=2, batch=32):
    x, y = stamps(batch * 40)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch).prefetch(2)
    model = detector()
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    opt = keras.optimizers.Adam(1e-3)
    opt.build(model.trainable_variables)
    attack = PGD(model, loss_fn)

    @tf.function
    def update(a, b):
        with tf.GradientTape() as tape:
            loss = loss_fn(b, model(a, training=True))
        opt.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    for epoch in range(epochs):
        losses = []
        for a, b in ds:
            losses.append(update(attack.perturb(a, b), b))
        print("epoch", epoch, "robust loss %.4f" % float(tf.reduce_mean(losses)))


main()

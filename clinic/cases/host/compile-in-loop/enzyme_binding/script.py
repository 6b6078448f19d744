"""Binding affinity of enzyme variants, trained with adversarial perturbations of the inputs."""
import time
import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(77)

SITES, LETTERS = 40, 20


def variants(n, seed):
    g = np.random.default_rng(seed)
    letters = g.integers(0, LETTERS, (n, SITES))
    weight = np.random.default_rng(0).normal(size=(SITES, LETTERS))
    y = weight[np.arange(SITES), letters].sum(1) / np.sqrt(SITES)
    return np.eye(LETTERS, dtype="float32")[letters].reshape(n, -1), y.astype("float32")[:, None]


class Affinity(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = keras.Sequential([
            keras.layers.Dense(128, activation="silu"),
            keras.layers.LayerNormalization(),
            keras.layers.Dense(128, activation="silu"),
            keras.layers.LayerNormalization(),
            keras.layers.Dense(1),
        ])

    def call(self, x, training=False):
        return self.body(x, training=training)


class Perturbation:
    """A few ascent steps on the input, in the ball of the given radius."""

    def __init__(self, model, radius=0.15, rounds=2):
        self.model, self.radius, self.rounds = model, radius, rounds

    def worst_case(self, x, y):
        model, radius = self.model, self.radius

        @tf.function
        def ascend(x0, y0):
            delta = tf.zeros_like(x0)
            for _ in range(self.rounds):
                with tf.GradientTape() as tape:
                    tape.watch(delta)
                    err = tf.reduce_mean((model(x0 + delta, training=False) - y0) ** 2)
                delta = delta + 0.5 * radius * tf.sign(tape.gradient(err, delta))
                delta = tf.clip_by_value(delta, -radius, radius)
            return x0 + delta

        return ascend(x, y)


class RobustTrainer:
    def __init__(self, model):
        self.model = model
        self.attack = Perturbation(model)
        self.opt = keras.optimizers.AdamW(1e-3)

    @tf.function
    def update(self, x, x_adv, y):
        with tf.GradientTape() as tape:
            clean = tf.reduce_mean((self.model(x, training=True) - y) ** 2)
            hard = tf.reduce_mean((self.model(x_adv, training=True) - y) ** 2)
            loss = clean + 0.5 * hard
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    def epoch(self, ds):
        mean = 0.0
        for k, (x, y) in enumerate(ds):
            loss = self.update(x, self.attack.worst_case(x, y), y)
            if k % 10 == 0:
                mean = 0.7 * mean + 0.3 * float(loss)
        return mean


x, y = variants(1152, 1)
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1152, seed=3).batch(64).prefetch(2)
model = Affinity()
model(x[:2])
trainer = RobustTrainer(model)
t0 = time.time()
for epoch in range(4):
    print(f"epoch {epoch}: {trainer.epoch(ds):.4f}   {time.time() - t0:.1f} s")

# Which mosquito hums? Wing-beat sound -> species. With a field notebook: now and then the state of the
# training is put into a folder, so that a power cut in the field station costs little.

import os
import tempfile
import time

import numpy as np
import tensorflow as tf

SPECIES, LENGTH, BATCH, STEPS = 9, 400, 256, 520


def hums(count, seed=0):
    rng = np.random.default_rng(seed)
    species = rng.integers(SPECIES, size=count)
    t = np.arange(LENGTH) / 4000.0
    beat = 300 + 45 * species + rng.normal(0, 9, count)
    wave = np.zeros((count, LENGTH))
    for harmonic in (1, 2, 3):
        wave += np.sin(2 * np.pi * harmonic * beat[:, None] * t + rng.uniform(0, 6, (count, 1))) / harmonic
    return (wave + rng.normal(0, 0.4, wave.shape)).astype("float32"), species.astype("int32")


class WingNet(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.filters = tf.keras.layers.Dense(1536, activation="relu")
        self.mid = tf.keras.layers.Dense(768, activation="relu")
        self.out = tf.keras.layers.Dense(SPECIES)

    def call(self, wave):
        return self.out(self.mid(self.filters(wave)))


class Notebook:
    """Keeps the last few states of a model and its optimizer."""

    def __init__(self, folder, every=52, keep=2):
        self.folder, self.every, self.keep = folder, every, keep
        self.pages = []

    def __call__(self, step, model, optimizer):
        if (step + 1) % self.every:
            return
        page = os.path.join(self.folder, f"state-{step + 1:06d}.npz")
        state = {f"w{k}": v.numpy() for k, v in enumerate(model.variables)}
        state.update({f"o{k}": v.numpy() for k, v in enumerate(optimizer.variables)})
        np.savez_compressed(page, **state)
        self.pages.append(page)
        while len(self.pages) > self.keep:
            os.remove(self.pages.pop(0))


def make_step(model, optimizer):
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(wave, species):
        with tf.GradientTape() as tape:
            loss = loss_of(species, model(wave, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return step


def listen(folder):
    waves, species = hums(6000)
    model = WingNet()
    model(tf.zeros((1, LENGTH)))
    optimizer = tf.keras.optimizers.Adam(3e-4)
    optimizer.build(model.trainable_variables)
    step, notebook = make_step(model, optimizer), Notebook(folder)
    data = tf.data.Dataset.from_tensor_slices((waves, species)).repeat().shuffle(2000, seed=3).batch(BATCH)
    durations = []
    for number, batch in enumerate(data.take(STEPS).prefetch(2)):
        began = time.perf_counter()
        loss = step(*batch)
        notebook(number, model, optimizer)
        durations.append(time.perf_counter() - began)
        if number % 130 == 129:
            print(f"{number + 1}: loss {float(loss):.4f}")
    return np.array(durations[1:])


if __name__ == "__main__":
    tf.keras.utils.set_random_seed(17)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        durations = listen(folder)
    print(
        f"trained in {time.perf_counter() - began:.2f} s; a step: mean {durations.mean() * 1e3:.1f} ms, "
        f"median {np.median(durations) * 1e3:.1f} ms, longest {durations.max() * 1e3:.0f} ms"
    )
